"""Whom the breadcrumb means: the NameNode that has to be fenced before another one becomes active."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from failover.active_node_info import ActiveNodeInfo
from failover.settings import FailoverSettings
from failover.target import Target, same_host
from hadoop_common.endpoint import host_port
from hadoop_common.errors import HdfsError

_CLEAR = "`checkpointer zkfc clear-breadcrumb`"


class BreadcrumbError(HdfsError):
    """What lies in the breadcrumb names no NameNode that could be fenced."""


@dataclass(frozen=True, slots=True)
class LastActive:
    """The NameNode that the breadcrumb names.

    Attributes:
        ours: it is the controller's own, which is not fenced.
        moved: what an operator has to know of its address, "" where the configuration has the same.
    """

    target: Target
    ours: bool
    moved: str = ""


def last_active(data: bytes, settings: FailoverSettings, same: Callable[[str, str], bool] = same_host) -> LastActive:
    """Whom `data` means.

    Hadoop compares bytes alone, and refuses an address other than the configured one: after a change of host names no
    NameNode became active any more. Here the address of the breadcrumb is where is fenced.

    Args:
        same: whether two host names are those of one host.

    Raises:
        BreadcrumbError: it cannot be read, or is of another nameservice.
    """
    try:
        info = ActiveNodeInfo.from_bytes(data)
    except ValueError as fault:
        raise BreadcrumbError(
            f"the breadcrumb in ZooKeeper cannot be read: {fault}",
            hint=f"Make sure on its host that the NameNode it names has ended; only then remove it by {_CLEAR}.",
        ) from fault
    own = settings.own
    if info.nameservice != own.nameservice:
        raise BreadcrumbError(
            f"the breadcrumb below {settings.parent} is of the nameservice {info.nameservice}, not {own.nameservice}",
            hint=f"Give each nameservice a parent of its own (ha.zookeeper.parent-znode), and then {_CLEAR}.",
        )
    known = settings.target_of(info.namenode)
    if (
        known is not None
        and info.port == known.port
        and (info.hostname == known.name or same(info.hostname, known.host))
    ):
        return LastActive(replace(known, zkfc_port=info.zkfc_port), ours=known is own)
    address = (info.hostname, info.port)
    there = Target(info.nameservice, info.namenode, *address, info.hostname, info.zkfc_port, address)
    here = "has no such NameNode" if known is None else f"has it at {known.address}"
    moved = (
        f"{info.namenode} was active at {host_port(*address)}, the configuration {here}: it is fenced where it was; "
        f"if it is gone from there for good, {_CLEAR} ends that"
    )
    return LastActive(there, ours=False, moved=moved)
