"""Whether a backup node takes and applies the edits it is sent (BackupImage.BNState), as a table.

A stream begins in DROP_UNTIL_NEXT_ROLL, as nothing says what was before. A segment that begins there leads to
JOURNAL_ONLY: edits are on disk, and the namespace reads up behind them. CONVERGED leads to IN_SYNC, where each batch
is applied as it comes. Any fault of the stream leads back to the start, any fault of the namespace to JOURNAL_ONLY.

What can never happen, and why:

- DROP_UNTIL_NEXT_ROLL to IN_SYNC: there is no open segment, so nothing can be in step with it.
- CONVERGED but in JOURNAL_ONLY: elsewhere there is nothing to be in step with, or it is in step.
- NAMESPACE_LOST but in IN_SYNC: elsewhere the stream does not touch the namespace.
- A batch behind a gap: it is refused before it is an event, and breaks the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class BackupState(Enum):
    """What happens to edits that come."""

    DROP_UNTIL_NEXT_ROLL = "dropUntilNextRoll"
    """They are refused: nothing says what was before them."""

    JOURNAL_ONLY = "journalOnly"
    """They are written to the edits directories, and not applied: the namespace is behind, or being saved."""

    IN_SYNC = "inSync"
    """They are written and applied."""


class StreamEvent(Enum):
    """What changes that."""

    SEGMENT_CONTINUES = "a segment began with the transaction after our newest one"
    SEGMENT_AFTER_GAP = "a segment began, and transactions before it are missing here"
    SEGMENT_FREEZES = "a segment began while the namespace is wanted as it was at its beginning"
    CONVERGED = "every transaction that was written is applied"
    STREAM_BROKEN = "the stream failed, or goes to somebody else"
    NAMESPACE_LOST = "a transaction could not be applied"


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
"""What is not listed cannot happen."""


def after(state: BackupState, event: StreamEvent) -> BackupState:
    """The state that `event` leads to.

    Raises:
        ValueError: it cannot happen in this state.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise ValueError(f"{event.name} cannot happen in {state.name}")
    return following
