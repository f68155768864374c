"""Calls to all nodes of a quorum as values, and procedures: steps of the protocol that ask and get answers; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from hadoop_rpc.errors import JournalNotFormattedError
from hadoop_rpc.qjournal_values import QJournal, RequestInfo
from journal.quorum.decisions import is_fenced
from journal.quorum.errors import QuorumError, WriterFencedError
from journal.quorum.tally import Tally, Verdict

RECOVER_AGAIN = "Bring a majority of the JournalNodes back, then recover the journal."

T = TypeVar("T")


class Kind(Enum):
    """How a writer's call goes together with the state of the node's channel.

    ORDERED does not depend on it; START brings the node back in sync; WRITE and FINALIZE are not sent to a node
    that is out of sync, and a WRITE that fails makes it so.
    """

    ORDERED = "ordered"
    START = "start"
    WRITE = "write"
    FINALIZE = "finalize"


@dataclass(frozen=True, slots=True)
class ReadCall(Generic[T]):
    """A call that goes beside the writer's, and may be dropped once nobody waits for it."""

    name: str
    perform: Callable[[QJournal], T]


def _nobody(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Peer:
    """A node that a writer's call is performed on; `request` is made when it is sent, as its serial has to rise."""

    name: str
    node: QJournal
    request: RequestInfo


@dataclass(frozen=True, slots=True)
class WriterCall(Generic[T]):
    """A call that each node gets in order behind those before it.

    Attributes:
        size: bytes of records, which count towards the limit of the node's queue.
        last_txid: newest transaction in them.
        leave_out: why a node, which has answered all calls before or failed, is not to get this one; "" where it is.
    """

    name: str
    perform: Callable[[Peer], T]
    kind: Kind = Kind.ORDERED
    size: int = 0
    last_txid: int = 0
    leave_out: Callable[[str], str] = _nobody


def _never(_: Tally[Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """A call to all nodes and how long to wait.

    Attributes:
        need: answers that decide it.
        timeout: seconds.
        linger: seconds to go on waiting for the rest, once it is decided by numbers.
        enough: whether the answers so far settle it, however many they are.
        hint: what to do where too few nodes answer, if that is more than to try again.
    """

    call: ReadCall[T] | WriterCall[T]
    need: int
    timeout: float
    linger: float = 0.0
    enough: Callable[[Tally[T]], bool] = _never
    hint: str = ""

    def decided(self, tally: Tally[T]) -> bool:
        return tally.verdict is not Verdict.OPEN or self.enough(tally)

    def complete(self, tally: Tally[T]) -> bool:
        """Nothing more is worth waiting for."""
        return tally.complete or self.enough(tally)


Procedure = Generator[Ask[Any], Tally[Any], T]
"""Steps of the protocol: yields what to ask, is sent the tally once it is decided or time is up, returns a result."""


def reached(ask: Ask[T], *, txid: int | None = None) -> Procedure[Tally[T]]:
    """The tally with `ask.need` answers or more; later ones are still added.

    Raises:
        QuorumError: too few in time; `WriterFencedError` where a node said that another writer has taken over.
    """
    tally: Tally[T] = yield ask
    if tally.verdict is Verdict.REACHED:
        return tally
    raise quorum_error(ask, tally, txid)


def answers_to(ask: Ask[T], *, txid: int | None = None) -> Procedure[dict[str, T]]:
    """The answers by node; raises as `reached`."""
    tally = yield from reached(ask, txid=txid)
    return dict(tally.answers)


def quorum_error(ask: Ask[T], tally: Tally[T], txid: int | None) -> QuorumError:
    """Says which nodes failed how, and which did not answer within the time."""
    told = [f"{node}: {fault}" for node, fault in tally.faults.items()]
    if tally.silent and tally.verdict is Verdict.OPEN:
        told.append(f"no answer within {ask.timeout:g} s from {', '.join(tally.silent)}")
    counted = f"{len(tally.answers)} of {len(tally.nodes)} JournalNodes answered, {ask.need} are needed"
    kind = WriterFencedError if any(map(is_fenced, tally.faults.values())) else QuorumError
    unformatted = [fault for fault in tally.faults.values() if isinstance(fault, JournalNotFormattedError)]
    hint = "" if kind is WriterFencedError else ask.hint
    return kind(
        f"{ask.call.name}: {counted}; {'; '.join(told)}",
        answered=tuple(tally.answers),
        faults=tally.faults,
        txid=txid,
        hint="See on these JournalNodes that the disk of dfs.journalnode.edits.dir is mounted; only a journal that is "
        "new is formatted."
        if len(unformatted) > len(tally.nodes) - ask.need
        else hint,
    )
