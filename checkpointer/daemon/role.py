"""What a service asks of a role, and the values that go between them: progress, upload targets, outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from checkpointer.merge import MergeResult, Observer
from checkpointer.transfer import UploadResult

__all__ = ["CheckpointRole", "Progress", "Target", "Upload"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the node stands: newest own image, newest finalized transaction in the journal."""

    image_txid: int
    journal_txid: int

    @property
    def behind(self) -> int:
        """Transactions that no image has yet."""
        return max(0, self.journal_txid - self.image_txid)


@dataclass(frozen=True, slots=True)
class Upload:
    """Outcome of offering one image to one NameNode: `UploadResult` name or "failed", then with an error."""

    address: str
    result: str
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """A NameNode that gets our images, and how that went last.

    Attributes:
        txid: newest image that need not be offered there any more.
        result: of the last offer, "never" before the first.
        at: when that was, seconds since the epoch.
        failures: transfers that failed in a row.
        not_before: reading of the role's monotonic clock, in seconds, before which only a forced offer is made.
    """

    address: str
    txid: int = -1
    result: str = "never"
    error: str = ""
    at: float | None = None
    failures: int = 0
    not_before: float = 0.0

    def due(self, txid: int, now: float, *, force: bool) -> bool:
        """Whether to offer the image at `txid` at `now`; `force` does not wait."""
        return self.txid < txid and (force or now >= self.not_before)

    def answered(self, txid: int, result: UploadResult, *, at: float, not_before: float) -> Target:
        """After an answer: taken and not wanted settle this image, one who is not active may want it later."""
        settled = self.txid if result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE else txid
        return Target(self.address, settled, result.name, at=at, not_before=not_before)

    def failed(self, error: str, *, at: float, not_before: float) -> Target:
        """After a transfer that did not come to an answer."""
        failures = self.failures + 1
        return replace(self, result="failed", error=error, at=at, failures=failures, not_before=not_before)


class CheckpointRole(Protocol):
    """What can make and upload images; one thread at a time works, any thread may observe."""

    @property
    def targets(self) -> Sequence[Target]:
        """The NameNodes that get images, as they are now."""

    def storage(self) -> Mapping[str, str]:
        """State of each storage directory by its path: "in use", or why it was dropped."""

    def progress(self) -> Progress:
        """Where the node stands.

        Raises:
            HdfsError: storage or journal cannot be read.
        """

    def prepare(self) -> None:
        """Called before each attempt: leave failed storage directories out, try dropped ones again."""

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Make an image of all finalized edits.

        Raises:
            HdfsError: nothing was written.
        """

    def upload(self, cancelled: Callable[[], bool], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to the targets that are due.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
