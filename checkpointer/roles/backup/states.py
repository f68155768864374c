"""States of a backup node's stream, and a table of their transitions (BackupImage.BNState).

A stream begins in DROP_UNTIL_NEXT_ROLL, because the earlier transactions are unknown. The start of a segment leads to
JOURNAL_ONLY: the node writes edits to disk while the namespace catches up. CONVERGED leads to IN_SYNC, where the node
applies each batch on arrival. A fault of the stream leads back to DROP_UNTIL_NEXT_ROLL, a fault of the namespace to
JOURNAL_ONLY.

These transitions cannot occur:

- DROP_UNTIL_NEXT_ROLL to IN_SYNC: without an open segment, the namespace cannot be in sync.
- CONVERGED except in JOURNAL_ONLY: in the other states, no stream is running or the namespace is already in sync.
- NAMESPACE_LOST except in IN_SYNC: in the other states, the stream does not access the namespace.
- A batch after a gap: the receiver refuses the batch, which ends the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class BackupState(Enum):
    """State of a stream, which determines how arriving edits are handled."""

    DROP_UNTIL_NEXT_ROLL = "dropUntilNextRoll"
    """The node refuses edits, because the previous transactions are unknown."""

    JOURNAL_ONLY = "journalOnly"
    """The node writes edits to disk, but does not apply them, because the namespace is behind or being saved."""

    IN_SYNC = "inSync"
    """The node writes and applies edits."""


class StreamEvent(Enum):
    """Event that changes the state."""

    SEGMENT_CONTINUES = "a segment began with the transaction after our newest transaction"
    SEGMENT_AFTER_GAP = "a segment began, and transactions before the segment are missing on this node"
    SEGMENT_FREEZES = "a segment began, and a checkpoint needs the namespace as of the segment's start"
    CONVERGED = "every written transaction is applied"
    STREAM_BROKEN = "the stream failed, or is sent to another node"
    NAMESPACE_LOST = "a transaction could not be applied, or the image is damaged"


_DROP, _JOURNAL, _SYNC = BackupState.DROP_UNTIL_NEXT_ROLL, BackupState.JOURNAL_ONLY, BackupState.IN_SYNC

TRANSITIONS: Final[Mapping[tuple[BackupState, StreamEvent], BackupState]] = MappingProxyType(
    {
        (_DROP, StreamEvent.SEGMENT_CONTINUES): _JOURNAL,
        (_DROP, StreamEvent.SEGMENT_AFTER_GAP): _JOURNAL,
        (_DROP, StreamEvent.SEGMENT_FREEZES): _JOURNAL,
        (_DROP, StreamEvent.STREAM_BROKEN): _DROP,
        (_JOURNAL, StreamEvent.SEGMENT_CONTINUES): _JOURNAL,
        (_JOURNAL, StreamEvent.SEGMENT_AFTER_GAP): _JOURNAL,
        (_JOURNAL, StreamEvent.SEGMENT_FREEZES): _JOURNAL,
        (_JOURNAL, StreamEvent.CONVERGED): _SYNC,
        (_JOURNAL, StreamEvent.STREAM_BROKEN): _DROP,
        (_SYNC, StreamEvent.SEGMENT_CONTINUES): _SYNC,
        (_SYNC, StreamEvent.SEGMENT_AFTER_GAP): _JOURNAL,
        (_SYNC, StreamEvent.SEGMENT_FREEZES): _JOURNAL,
        (_SYNC, StreamEvent.STREAM_BROKEN): _DROP,
        (_SYNC, StreamEvent.NAMESPACE_LOST): _JOURNAL,
    }
)
"""All possible transitions."""


def next_state(state: BackupState, event: StreamEvent) -> BackupState:
    """Return the state after `event`.

    Raises:
        ValueError: the event cannot happen in this state.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise ValueError(f"{event.name} cannot happen in {state.name}")
    return following
