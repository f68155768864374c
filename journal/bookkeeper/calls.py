"""What procedures on ledgers ask of bookies and of ZooKeeper, as values; a driver does it and tells what came of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from journal.bookkeeper.errors import BookKeeperError
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.messages import Request, Response

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to one bookie."""

    bookie: str
    request: Request


Outcome = Response | BookKeeperError
"""A bookie's answer, or why there is none: no connection, or no answer in time."""


class Answers:
    """What came of requests, by their place in `asked`; late answers are noted too."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.outcomes: dict[int, Outcome] = {}

    def note(self, number: int, outcome: Outcome) -> None:
        self.outcomes.setdefault(number, outcome)

    @property
    def complete(self) -> bool:
        return len(self.outcomes) == len(self.asked)


@dataclass(frozen=True, slots=True)
class Ask:
    """Requests to bookies, and how long to wait; nothing is sent back but what `answers` holds.

    Attributes:
        answers: of these requests, and of earlier ones whose answers may still come.
        enough: whether it need not be waited any longer.
        timeout: seconds.
    """

    answers: Answers
    requests: Sequence[Asked]
    timeout: float
    enough: Callable[[], bool] = field(default=lambda: False)

    def decided(self) -> bool:
        return self.answers.complete or self.enough()


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """Sent back: the metadata and the znode's version. Thrown: NoLedgerError, ZooKeeperError."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """Sent back: the new version. Thrown: BadVersionError, which may be our own success; NoLedgerError; ZooKeeperError
    where it is not known whether it was done.
    """

    ledger_id: int
    metadata: LedgerMetadata
    version: int


@dataclass(frozen=True, slots=True)
class ListBookies:
    """Sent back: the bookies that take writes, a frozenset. Thrown: ZooKeeperError."""


Step = Ask | GetMetadata | SetMetadata | ListBookies
Procedure = Generator[Step, Any, T]
"""Steps that ask and get answers; returns a result."""
