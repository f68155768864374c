"""Reads the settings of a standby that follows another NameNode from Hadoop's keys."""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_common.config_key import bound, take_bound
from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.tls.settings import HTTP_POLICY
from journal.quorum.settings import TAIL_IN_PROGRESS
from site_config import keys
from site_config.addresses import Identity, namenode_rpc, namenode_urls


@dataclass(frozen=True, slots=True)
class StandbySettings:
    """Settings of a standby; times in seconds.

    Attributes:
        tail_period: interval of checks for new edits.
        tail_in_progress: whether the standby also reads the open segment.
        roll_period: time without new edits after which the standby asks the active NameNode to roll; 0 or less means
            never.
        roll_retries: maximum number of requests to each NameNode for one roll.
        lag_alarm: time without progress after which pending edits raise an alarm; 0 means never.
        rpc_timeout: time limit of a call to another NameNode.
        namenodes: HTTP address (`http://host:port`) and RPC address of the other NameNodes.
    """

    tail_period: float = bound(keys.HA_TAIL_EDITS_PERIOD)
    tail_in_progress: bool = bound(TAIL_IN_PROGRESS)
    roll_period: float = bound(keys.HA_LOG_ROLL_PERIOD)
    roll_retries: int = bound(keys.HA_TAIL_EDITS_NAMENODE_RETRIES)
    lag_alarm: float = bound(keys.STANDBY_LAG_ALARM)
    rpc_timeout: float = bound(keys.RPC_TIMEOUT)
    namenodes: tuple[tuple[str, tuple[str, int]], ...] = ()


def standby_settings(settings: Configuration, who: Identity, faults: FaultCollector) -> StandbySettings:
    """Read `dfs.ha.*`, the lag limit, and the addresses of the other NameNodes; add faults to `faults`."""

    def others() -> tuple[tuple[str, tuple[str, int]], ...]:
        if not who.is_ha or not who.own_id:
            return ()
        urls = namenode_urls(settings, who, HTTP_POLICY.read(settings))
        return tuple(zip(urls, namenode_rpc(settings, who), strict=True))

    return StandbySettings(**take_bound(StandbySettings, settings, faults), namenodes=faults.take(others, ()))
