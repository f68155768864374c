"""How a NameNode follows another one while it is not active, from Hadoop's keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from checkpointer.config.addresses import Identity, namenode_rpc, namenode_urls
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector

__all__ = ["StandbySettings", "standby_settings"]

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class StandbySettings:
    """Times in seconds.

    Attributes:
        tail_period: how often it looks for new edits.
        tail_in_progress: whether it reads the open segment too.
        roll_period: after so long without new edits it asks the active to roll; 0 or less for never.
        roll_retries: how often each NameNode is asked for that.
        lag_alarm: how long edits may wait without one being applied before that is an alarm; 0 for ever.
        rpc_timeout: limit on a call to another NameNode.
        namenodes: HTTP address (`http://host:port`) and RPC address of the others.
    """

    tail_period: float = 60.0
    tail_in_progress: bool = False
    roll_period: float = 120.0
    roll_retries: int = 3
    lag_alarm: float = 300.0
    rpc_timeout: float = 120.0
    namenodes: tuple[tuple[str, tuple[str, int]], ...] = ()


def standby_settings(settings: Configuration, who: Identity, faults: FaultCollector) -> StandbySettings:
    """Read `dfs.ha.*`, the limit on the lag, and where the other NameNodes are; what is wrong goes to `faults`."""

    def at_least(key: str, getter: Callable[[str], N], least: N) -> N:
        def checked() -> N:
            value = getter(key)
            if value < least:
                raise ConfigurationError([settings.fault(key, f"must be at least {least:g}")])
            return value

        return faults.take(checked, least)

    def others() -> tuple[tuple[str, tuple[str, int]], ...]:
        if not who.is_ha or not who.own_id:
            return ()
        urls = namenode_urls(settings, who, settings.get("dfs.http.policy", ""))
        return tuple(zip(urls, namenode_rpc(settings, who), strict=True))

    def milliseconds(key: str) -> float:
        return settings.get_time(key, unit="ms")

    return StandbySettings(
        tail_period=at_least("dfs.ha.tail-edits.period", settings.get_time, 0.001),
        tail_in_progress=faults.take(lambda: settings.get_bool("dfs.ha.tail-edits.in-progress"), False),
        roll_period=faults.take(lambda: settings.get_time("dfs.ha.log-roll.period"), 0.0),
        roll_retries=at_least("dfs.ha.tail-edits.namenode-retries", settings.get_int, 1),
        lag_alarm=at_least("checkpointer.standby.lag-alarm", settings.get_time, 0.0),
        rpc_timeout=at_least("ipc.client.rpc-timeout.ms", milliseconds, 0.001),
        namenodes=faults.take(others, ()),
    )
