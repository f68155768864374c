"""Reads the election for an operator's commands, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from failover.active_node_info import ActiveNodeInfo
from failover.breadcrumb import BreadcrumbError, last_active
from failover.election import Election
from failover.server import connect
from failover.settings import FailoverSettings
from failover.target import Target
from hadoop_common.addresses import host_port
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import RpcError
from hadoop_rpc.ha_protocol import HAServiceClient


class _Bystander:
    """Callbacks of an election in which this process does not take part; the election never calls them."""

    def become_active(self) -> None:
        raise AssertionError("nobody takes part")

    become_standby = enter_neutral = become_active

    def fence_old_active(self, breadcrumb: bytes) -> None:
        raise AssertionError("nobody takes part")

    def fatal(self, reason: str) -> None:
        raise AssertionError(reason)


@contextmanager
def watching(settings: FailoverSettings) -> Iterator[Election]:
    """Yield the connected election, to read and change its znodes.

    Raises:
        ZooKeeperAwayError: ZooKeeper does not answer.
    """
    election = Election(settings.zookeeper, settings.parent, _Bystander(), retries=settings.op_retries)
    try:
        connect(election)
        yield election
    finally:
        election.close()


@dataclass(frozen=True, slots=True)
class NameNodeState:
    """State of a NameNode, "" if it does not answer, and the reason why it does not answer or cannot become active."""

    target: Target
    state: str
    problem: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "namenode": self.target.namenode,
            "address": self.target.address,
            "state": self.state or None,
            "problem": self.problem,
        }


def node_state(settings: FailoverSettings, target: Target) -> NameNodeState:
    """Query the state of a NameNode."""
    limits = {"timeout": settings.cli_timeout, "connect_timeout": settings.cli_timeout}
    with HAServiceClient(target.host, target.port, user=settings.user, retry=NO_RETRY, **limits) as client:
        try:
            status = client.service_status()
        except RpcError as fault:
            return NameNodeState(target, "", fault.message)
    return NameNodeState(target, status.state.name.lower(), status.reason)


def named(data: bytes | None, settings: FailoverSettings) -> dict[str, Any] | None:
    """Decode the data of the lock or the breadcrumb; `problem` describes a fault, or is ""."""
    if data is None:
        return None
    try:
        found, info = last_active(data, settings), ActiveNodeInfo.from_bytes(data)
    except BreadcrumbError as fault:
        return {"namenode": None, "address": None, "problem": fault.message}
    return {"namenode": info.namenode, "address": host_port(info.hostname, info.port), "problem": found.moved}
