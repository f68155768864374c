"""Calls to all nodes of a quorum as values, tallies of the responses, and procedures that consist of calls; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from hadoop_rpc.errors import JournalNotFormattedError, KerberosError, NotAuthorizedError
from hadoop_rpc.qjournal_values import QJournal, RequestInfo
from journal.quorum.decisions import is_fenced
from journal.quorum.errors import QuorumError, WriterFencedError

RECOVER_AGAIN = "Make a majority of the JournalNodes available again, then recover the journal."

T = TypeVar("T")


class TallyState(Enum):
    """Conclusion from the responses that have arrived."""

    OPEN = "open"
    REACHED = "reached"
    MISSED = "missed"


def majority(nodes: int) -> int:
    """Return the size of the smallest majority; any two majorities have a common node."""
    return nodes // 2 + 1


class Tally(Generic[T]):
    """The responses to one call; `need` responses decide the call. Only the first response of each node counts.

    Attributes:
        nodes: all nodes that were asked.
        answers, faults: responses and faults by node, in the order of arrival; late responses and faults are included.
    """

    def __init__(self, nodes: Sequence[str], need: int) -> None:
        self.nodes = tuple(nodes)
        self.need = need
        self.answers: dict[str, T] = {}
        self.faults: dict[str, Exception] = {}
        self.abandoned = False

    def answer(self, node: str, value: T) -> None:
        if not self._has_answered(node):
            self.answers[node] = value

    def fail(self, node: str, fault: Exception) -> None:
        if not self._has_answered(node):
            self.faults[node] = fault

    def abandon(self) -> None:
        """Record that no caller is waiting, so that unsent calls need not be sent."""
        self.abandoned = True

    @property
    def verdict(self) -> TallyState:
        """The conclusion; MISSED once too few nodes remain to decide the call."""
        if len(self.answers) >= self.need:
            return TallyState.REACHED
        if len(self.nodes) - len(self.faults) < self.need:
            return TallyState.MISSED
        return TallyState.OPEN

    @property
    def complete(self) -> bool:
        """Whether every node has answered or failed."""
        return len(self.answers) + len(self.faults) == len(self.nodes)

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes that have not answered."""
        return tuple(node for node in self.nodes if not self._has_answered(node))

    def _has_answered(self, node: str) -> bool:
        return node in self.answers or node in self.faults


class CallKind(Enum):
    """Kind of a writer's call, by its dependence on the state of the node's channel.

    ORDERED does not depend on this state. START makes a node in sync again. WRITE and FINALIZE are not sent to a node
    that is out of sync, and a failed WRITE makes the node out of sync.
    """

    ORDERED = "ordered"
    START = "start"
    WRITE = "write"
    FINALIZE = "finalize"


@dataclass(frozen=True, slots=True)
class ReadCall(Generic[T]):
    """A call that runs in parallel with the writer's calls, and is dropped once its response is no longer needed."""

    name: str
    perform: Callable[[QJournal], T]


@dataclass(frozen=True, slots=True)
class CallTarget:
    """A node for a writer's call; `request` is created when the call is sent, so that its serial number rises."""

    name: str
    node: QJournal
    request: RequestInfo


@dataclass(frozen=True, slots=True)
class WriterCall(Generic[T]):
    """A call that each node receives in order, after all earlier calls.

    Attributes:
        size: size of the records in bytes, which counts towards the limit of the node's queue.
        last_txid: newest transaction in the records.
        leave_out: returns the reason why a node must not receive this call, or "" if the node may receive it; called
            after the node has answered or failed all earlier calls.
    """

    name: str
    perform: Callable[[CallTarget], T]
    kind: CallKind = CallKind.ORDERED
    size: int = 0
    last_txid: int = 0
    leave_out: Callable[[str], str] = lambda node: ""


@dataclass(frozen=True, slots=True)
class QuorumRound(Generic[T]):
    """A call to all nodes, and the time to wait for responses.

    Attributes:
        need: number of responses that decide the call.
        timeout: maximum wait in seconds.
        linger: seconds to wait for the remaining responses after `need` responses have arrived.
        enough: returns whether the responses so far decide the call, regardless of their number.
        hint: next step if too few nodes answer; "" for a retry.
    """

    call: ReadCall[T] | WriterCall[T]
    need: int
    timeout: float
    linger: float = 0.0
    enough: Callable[[Tally[T]], bool] = lambda tally: False
    hint: str = ""

    def decided(self, tally: Tally[T]) -> bool:
        return tally.verdict is not TallyState.OPEN or self.enough(tally)

    def complete(self, tally: Tally[T]) -> bool:
        """Return whether no further response is needed."""
        return tally.complete or self.enough(tally)


Procedure = Generator[QuorumRound[Any], Tally[Any], T]
"""Generator that yields rounds, receives their tallies, and returns a result."""


def reached(ask: QuorumRound[T], *, txid: int | None = None) -> Procedure[Tally[T]]:
    """Return the tally with at least `ask.need` responses; later responses are also added to the tally.

    Raises:
        QuorumError: too few responses arrived in time; `WriterFencedError` if a node reported a later writer.
    """
    tally: Tally[T] = yield ask
    if tally.verdict is TallyState.REACHED:
        return tally
    raise quorum_error(ask, tally, txid)


def answers_to(ask: QuorumRound[T], *, txid: int | None = None) -> Procedure[dict[str, T]]:
    """Return the responses by node; raise the same errors as `reached`."""
    tally = yield from reached(ask, txid=txid)
    return dict(tally.answers)


def quorum_error(ask: QuorumRound[T], tally: Tally[T], txid: int | None) -> QuorumError:
    """Return an error with the failure of each node, and the nodes that did not answer in time."""
    # in the order of the nodes, because the order of arrival would make each repetition of a fault a new message
    reasons = [f"{node}: {tally.faults[node]}" for node in tally.nodes if node in tally.faults]
    if tally.silent and tally.verdict is TallyState.OPEN:
        reasons.append(f"no answer within {ask.timeout:g} s from {', '.join(tally.silent)}")
    counted = f"{len(tally.answers)} of {len(tally.nodes)} JournalNodes answered, but {ask.need} are needed"
    kind = WriterFencedError if any(map(is_fenced, tally.faults.values())) else QuorumError
    unformatted = [fault for fault in tally.faults.values() if isinstance(fault, JournalNotFormattedError)]
    # nodes that refuse our login are available
    refused = [each.hint for each in tally.faults.values() if isinstance(each, NotAuthorizedError | KerberosError)]
    hint = refused[0] if refused and len(tally.answers) + len(refused) >= ask.need else ask.hint
    hint = "" if kind is WriterFencedError else hint
    return kind(
        f"{ask.call.name}: {counted}; {'; '.join(reasons)}",
        faults=tally.faults,
        txid=txid,
        hint="Check that dfs.journalnode.edits.dir is mounted on these JournalNodes. Format new journals only."
        if len(unformatted) > len(tally.nodes) - ask.need
        else hint,
    )
