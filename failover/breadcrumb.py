"""Interprets the breadcrumb, which names the NameNode to fence before another NameNode becomes active."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from failover.active_node_info import ActiveNodeInfo
from failover.settings import FailoverSettings
from failover.target import Target, same_host
from hadoop_common.addresses import host_port
from hadoop_common.errors import HdfsError

_CLEAR = "`checkpointer zkfc clear-breadcrumb`"


class BreadcrumbError(HdfsError):
    """Failure to read a breadcrumb, or a breadcrumb that names another nameservice."""


@dataclass(frozen=True, slots=True)
class LastActive:
    """The NameNode that the breadcrumb names.

    Attributes:
        ours: whether this is the controller's NameNode, which the controller does not fence.
        moved: explanation for an operator if the address differs from the configuration; otherwise "".
    """

    target: Target
    ours: bool
    moved: str = ""


def last_active(data: bytes, settings: FailoverSettings, same: Callable[[str, str], bool] = same_host) -> LastActive:
    """Return the NameNode that `data` names.

    Hadoop compares only bytes and refuses an address that differs from the configuration, so a change of host names
    blocks every failover. This controller fences the address in the breadcrumb instead.

    Args:
        same: returns whether two names refer to the same host.

    Raises:
        BreadcrumbError: the data cannot be decoded, or it names another nameservice.
    """
    try:
        info = ActiveNodeInfo.from_bytes(data)
    except ValueError as fault:
        raise BreadcrumbError(
            f"the breadcrumb in ZooKeeper cannot be read: {fault}",
            hint=f"Make sure that the last active NameNode has ended; only then remove the breadcrumb with {_CLEAR}.",
        ) from fault
    own = settings.own
    if info.nameservice != own.nameservice:
        raise BreadcrumbError(
            f"the breadcrumb below {settings.parent} belongs to nameservice {info.nameservice}, not {own.nameservice}",
            hint=f"Give each nameservice its own parent (ha.zookeeper.parent-znode), then run {_CLEAR}.",
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
    here = "does not name it" if known is None else f"lists it at {known.address}"
    moved = (
        f"{info.namenode} was active at {host_port(*address)}, but the configuration {here}; the controller fences "
        f"it at the old address; use {_CLEAR} only if no NameNode will ever run there again"
    )
    return LastActive(there, ours=False, moved=moved)
