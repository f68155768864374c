"""Requests of ledger procedures to bookies and ZooKeeper, as values; a driver performs them and returns the results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from journal.bookkeeper.errors import BookKeeperError
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.messages import BookieRequest, BookieResponse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AddressedRequest:
    bookie: str
    request: BookieRequest


BookieOutcome = BookieResponse | BookKeeperError
"""A bookie's response, or an error: no connection, or no response in time."""


class RoundAnswers:
    """Outcomes of requests by their index in `asked`; late responses are also recorded."""

    def __init__(self) -> None:
        self.asked: list[AddressedRequest] = []
        self.outcomes: dict[int, BookieOutcome] = {}

    def note(self, number: int, outcome: BookieOutcome) -> None:
        self.outcomes.setdefault(number, outcome)

    @property
    def complete(self) -> bool:
        return len(self.outcomes) == len(self.asked)


@dataclass(frozen=True, slots=True)
class BookieRound:
    """Requests to bookies, and the time to wait for responses; the results are stored only in `answers`.

    Attributes:
        answers: responses to these requests, and late responses to earlier requests.
        enough: returns whether the wait can end.
        timeout: maximum wait in seconds.
    """

    answers: RoundAnswers
    requests: Sequence[AddressedRequest]
    timeout: float
    enough: Callable[[], bool] = field(default=lambda: False)

    def decided(self) -> bool:
        return self.answers.complete or self.enough()


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """Request for a ledger's metadata and the znode's version. It raises NoLedgerError or MetadataStoreError."""

    ledger_id: int


@dataclass(frozen=True, slots=True)
class SetMetadata:
    """Change of a ledger's metadata; its result is the new version.

    It raises NoLedgerError if the ledger is missing, and MetadataStoreError if the outcome is unknown. It raises
    ZnodeVersionError if the version differs, perhaps because an earlier attempt at this change succeeded.
    """

    ledger_id: int
    metadata: LedgerMetadata
    version: int


@dataclass(frozen=True, slots=True)
class ListBookies:
    """Request for the frozenset of writable bookies. It raises MetadataStoreError."""


LedgerStep = BookieRound | GetMetadata | SetMetadata | ListBookies
Procedure = Generator[LedgerStep, Any, T]
"""Generator that yields requests, receives their results, and returns the procedure's result."""
