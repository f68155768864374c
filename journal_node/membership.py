"""The other JournalNodes of a journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from journal.quorum.address import NodeAddress

_LOG = logging.getLogger(__name__)


def others(nodes: Sequence[NodeAddress], own_port: int, is_local: Callable[[str], bool]) -> tuple[NodeAddress, ...]:
    """Return `nodes` without this one, which is on this host with `own_port` (JournalNodeSyncer.getJournalAddrList)."""
    found = tuple(node for node in nodes if node.port != own_port or not is_local(node.host))
    if len(found) == len(nodes):
        _LOG.warning("none of %s is this node, which listens on port %d", ", ".join(map(str, nodes)), own_port)
    return found
