"""The life cycle of a writer of a quorum journal, as a table of phases and possible events.

A writer is always in one `Phase`. `TRANSITIONS` lists the possible `Event`s of each phase, with the next phase. There
are four kinds of phases.

- At rest (IDLE, READY, WRITING): the next event is a request from the caller.
- In flight (ASKING to SEALING, STARTING, APPENDING, FINALIZING): a call to all nodes is in flight. The phase ends with
  the response of a majority, or with LOSE or FENCE. Until then, the only possible requests are CLOSE and, while a
  segment is open, PURGE.
- Unknown (LOST): a call may have taken effect on some nodes, but not on others. RECOVER determines these nodes; FORMAT
  starts with an empty journal.
- Ended (FENCED, CLOSED): final. A fenced writer cannot continue in its old epoch.

Faults that cannot occur, with the reasons:

- Two majorities with different transactions for one txid. A majority grants an epoch, each node refuses epochs older
  than its last promise, and two majorities have a common node.
- A segment that begins before the earlier segment is recovered. READY follows only SEALED or FINALIZED, which a
  majority confirms, or a majority's report that no segment exists.
- A transaction that is acknowledged and lost. APPENDED requires a majority with the transaction on disk. Recovery also
  asks a majority, and at least one of these nodes has the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from journal.errors import JournalError, JournalInUseError
from journal.quorum.errors import JournalClosedError, WriterFencedError, WriterStateError


class Phase(Enum):
    """Phase of a writer. In the phases PREPARING to FINALIZING, a majority has promised the writer's epoch."""

    IDLE = "has no epoch"
    ASKING = "asks for the promised epochs"
    PROPOSING = "proposes its epoch"
    PREPARING = "asks for the copies of the newest segment"
    ACCEPTING = "distributes the chosen copy of the segment"
    SEALING = "finalizes the recovered segment"
    READY = "has the epoch and no open segment"
    STARTING = "begins a segment"
    WRITING = "has an open segment"
    APPENDING = "waits until transactions are durable"
    FINALIZING = "finalizes its segment"
    LOST = "does not know which transactions the nodes have"
    FENCED = "was fenced by a later writer"
    CLOSED = "is closed"


class Event(Enum):
    """Event of a writer: a request from the caller, or the response of a majority."""

    FORMAT = "format"
    RECOVER = "recover"
    PROMISED = "a majority reported its promises"
    GRANTED = "a majority promised the epoch, and a segment exists"
    GRANTED_EMPTY = "a majority promised the epoch, and the journal is empty"
    PREPARED = "a majority reported its copies, and one copy was chosen"
    PREPARED_EMPTY = "a majority lacks the segment"
    ACCEPTED = "a majority has the chosen copy"
    SEALED = "a majority finalized the chosen copy"
    START = "start a segment"
    STARTED = "a majority began the segment"
    APPEND = "append transactions"
    APPENDED = "a majority has the transactions"
    FINALIZE = "finalize the segment"
    FINALIZED = "a majority finalized the segment"
    ABORT = "abandon the segment"
    PURGE = "purge"
    LOSE = "too few nodes answered"
    FENCE = "a node reported a later writer, and too few answered"
    CLOSE = "close"


def _in_flight(success: Mapping[Event, Phase]) -> Mapping[Event, Phase]:
    """Return the transitions of a phase in which a call to all nodes is in flight."""
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
    """Return the error for an `event` that is impossible in `phase`."""
    problem = f"cannot {event.value}: the writer {phase.value}"
    if phase is Phase.CLOSED:
        return JournalClosedError(problem)
    if phase is Phase.FENCED:
        return WriterFencedError(problem)
    if phase in _SEGMENT_OPEN and event in (Event.START, Event.RECOVER, Event.FORMAT):
        return JournalInUseError(problem, hint="End its segment first.")
    return WriterStateError(problem)
