"""The life of a quorum journal's writer as a table of states: which step may follow which.

A writer is in one `Phase`; `TRANSITIONS` says which `Event` may come in it, and where that leads. There are four
kinds.

- At rest (IDLE, READY, WRITING): a caller's wish comes next.
- In flight (ASKING to SEALING, STARTING, APPENDING, FINALIZING): a call to all nodes is under way. It ends with the
  answer of a majority, or with LOSE or FENCE. Meanwhile no wish may come but CLOSE and, while a segment is open,
  PURGE.
- Without knowledge (LOST): some nodes may have what a call brought, others not. RECOVER finds out which; FORMAT
  begins with nothing.
- Over (FENCED, CLOSED): nothing leads back. A writer that gave way is not let in again under its old name.

What can never happen, and why:

- Two majorities hold different transactions of one txid. An epoch is granted by a majority, each node listens to none
  older than the one it promised last, and two majorities share a node.
- A segment begins while the one before is not settled. READY is reached by SEALED or FINALIZED, which a majority did,
  or by a majority that holds no segment.
- A transaction is acknowledged and lost. APPENDED needs a majority that holds it on disk; recovery asks a majority,
  and one of its nodes has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from journal.errors import JournalError, JournalInUseError
from journal.quorum.errors import JournalClosedError, WriterFencedError, WriterStateError


class Phase(Enum):
    """Where a writer stands. From PREPARING on it has an epoch that a majority of the nodes has promised itself to."""

    IDLE = "has no epoch"
    ASKING = "asks what the nodes have promised"
    PROPOSING = "proposes its epoch"
    PREPARING = "asks what the nodes hold of the newest segment"
    ACCEPTING = "has the nodes agree on one copy of it"
    SEALING = "has them finalize it"
    READY = "holds the epoch, no segment is open"
    STARTING = "begins a segment"
    WRITING = "has a segment open"
    APPENDING = "waits for transactions to be durable"
    FINALIZING = "ends its segment"
    LOST = "does not know what the nodes hold"
    FENCED = "has given way to a later writer"
    CLOSED = "is closed"


class Event(Enum):
    """What moves a writer on: a caller's wish, or what a majority answered."""

    FORMAT = "format"
    RECOVER = "recover"
    PROMISED = "a majority reported its promises"
    GRANTED = "a majority promised itself, there is a segment"
    GRANTED_EMPTY = "a majority promised itself, there is no segment"
    PREPARED = "a majority reported what it holds, one copy was chosen"
    PREPARED_EMPTY = "a majority holds nothing of the segment"
    ACCEPTED = "a majority has the chosen copy"
    SEALED = "a majority finalized it"
    START = "start a segment"
    STARTED = "a majority began the segment"
    APPEND = "append transactions"
    APPENDED = "a majority holds them"
    FINALIZE = "finalize the segment"
    FINALIZED = "a majority finalized the segment"
    ABORT = "abandon the segment"
    PURGE = "purge"
    LOSE = "no majority answered"
    FENCE = "a node reported a later writer, and no majority answered"
    CLOSE = "close"


def _in_flight(success: Mapping[Event, Phase]) -> Mapping[Event, Phase]:
    """A phase in which a call to all nodes is under way."""
    return {**success, Event.LOSE: Phase.LOST, Event.FENCE: Phase.FENCED, Event.CLOSE: Phase.CLOSED}


_BETWEEN_SEGMENTS = {Event.FORMAT: Phase.IDLE, Event.RECOVER: Phase.ASKING, Event.CLOSE: Phase.CLOSED}

TRANSITIONS: Mapping[Phase, Mapping[Event, Phase]] = MappingProxyType(
    {
        Phase.IDLE: _BETWEEN_SEGMENTS,
        Phase.ASKING: _in_flight({Event.PROMISED: Phase.PROPOSING}),
        Phase.PROPOSING: _in_flight({Event.GRANTED: Phase.PREPARING, Event.GRANTED_EMPTY: Phase.READY}),
        Phase.PREPARING: _in_flight({Event.PREPARED: Phase.ACCEPTING, Event.PREPARED_EMPTY: Phase.READY}),
        Phase.ACCEPTING: _in_flight({Event.ACCEPTED: Phase.SEALING}),
        Phase.SEALING: _in_flight({Event.SEALED: Phase.READY}),
        Phase.READY: {**_BETWEEN_SEGMENTS, Event.START: Phase.STARTING, Event.PURGE: Phase.READY},
        Phase.STARTING: _in_flight({Event.STARTED: Phase.WRITING, Event.PURGE: Phase.STARTING}),
        Phase.WRITING: {
            Event.APPEND: Phase.APPENDING,
            Event.FINALIZE: Phase.FINALIZING,
            Event.ABORT: Phase.LOST,
            Event.PURGE: Phase.WRITING,
            Event.CLOSE: Phase.CLOSED,
        },
        Phase.APPENDING: _in_flight({Event.APPENDED: Phase.WRITING, Event.PURGE: Phase.APPENDING}),
        Phase.FINALIZING: _in_flight({Event.FINALIZED: Phase.READY, Event.PURGE: Phase.FINALIZING}),
        Phase.LOST: _BETWEEN_SEGMENTS,
        Phase.FENCED: {Event.CLOSE: Phase.CLOSED},
        Phase.CLOSED: {},
    }
)

_SEGMENT_OPEN = (Phase.STARTING, Phase.WRITING, Phase.APPENDING, Phase.FINALIZING)


def refusal(phase: Phase, event: Event) -> JournalError:
    """Why `event` cannot be in `phase`."""
    problem = f"cannot {event.value}: the writer {phase.value}"
    if phase is Phase.CLOSED:
        return JournalClosedError(problem)
    if phase is Phase.FENCED:
        return WriterFencedError(problem)
    if phase in _SEGMENT_OPEN and event in (Event.START, Event.RECOVER, Event.FORMAT):
        return JournalInUseError(problem, hint="End its segment first.")
    return WriterStateError(problem)
