"""Which JournalNodes of a journal are the others."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

from journal.quorum.address import NodeAddress

_LOG = logging.getLogger(__name__)


def others(nodes: Sequence[NodeAddress], own_port: int, is_local: Callable[[str], bool]) -> tuple[NodeAddress, ...]:
    """`nodes` but for this one, which is on this host and has `own_port` (JournalNodeSyncer.getJournalAddrList)."""
    found = tuple(node for node in nodes if node.port != own_port or not is_local(node.host))
    if len(found) == len(nodes):
        _LOG.warning("none of %s is this node, which listens on port %d", ", ".join(map(str, nodes)), own_port)
    return found


def is_local(host: str) -> bool:
    """Whether `host` is an address of this host; one that cannot be looked up is none."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in addresses)


def _can_bind(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
        return True
