"""What a service asks of a role, and the values that go between them: progress, upload targets, jobs, outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from checkpointer.transfer import UploadResult
from checkpointer.transfer.refusals import has_image, too_recent
from engine.merge import MergeResult, Observer
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from journal.segment_file import EditLogSegment
from servlets.node_state import RoleDetails
from servlets.parameters import ImageKind
from servlets.transfer_counter import TransferCounter
from site_config.checkpoint_config import CheckpointConfig

# how far apart two clocks may tell the end of one upload, in seconds
_SAME_UPLOAD_SECONDS = 5.0
# the result of a target that was asked for its state and so got no image
STANDBY = "standby"
# the state of a storage directory that was not dropped
IN_USE = "in use"
_REJECTIONS = (UploadResult.OLD_TRANSACTION_ID_FAILURE, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the node stands: newest own image, newest transaction it can get without a roll.

    `image_at` is when that image was written, in seconds since the epoch, None where there is none, or no checkpoint.
    `urgent` says why an image is due at once, whatever period and transaction count say; "" as a rule.
    """

    image_txid: int
    journal_txid: int
    image_at: float | None
    urgent: str = ""

    @property
    def behind(self) -> int:
        """Transactions that no image has yet."""
        return max(0, self.journal_txid - self.image_txid)


@dataclass(frozen=True, slots=True)
class Upload:
    """Outcome of offering one image to one NameNode: `UploadResult` name or "failed", then with an error.

    `seconds` it took, `size` bytes of the image that went out, `status` of an HTTP answer that was an error. `refusal`
    says why it was refused by a NameNode that does not have it, "" where it was not.
    """

    address: str
    result: str
    error: str = ""
    seconds: float = 0.0
    size: int = 0
    txid: int = -1
    kind: ImageKind = ImageKind.IMAGE
    status: int | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class UploadTarget:
    """A NameNode that gets our images, and how that went last (StandbyCheckpointer.CheckpointReceiverEntry).

    Attributes:
        settled: for each kind the newest image that need not be offered there any more.
        refused: for each kind the newest image that it refused and does not have.
        result: of the last offer, "never" before the first, "standby" when it was asked and is not active.
        error: why it did not take the last one, "" where it has it.
        at: when that was, seconds since the epoch.
        failures: transfers that failed in a row.
        not_before: reading of the uploader's monotonic clock, in seconds, before which only a forced offer is made.
        primary: whether it took the last image, so that we are the one who serves it.
        uploaded: reading of the same clock when it last took one.
        sent, total: bytes of the image that is on its way there, and how many it has; None while none is.
    """

    address: str
    settled: Mapping[ImageKind, int] = field(default_factory=dict)
    refused: Mapping[ImageKind, int] = field(default_factory=dict)
    result: str = "never"
    error: str = ""
    at: float | None = None
    failures: int = 0
    not_before: float = 0.0
    primary: bool = True
    uploaded: float | None = None
    sent: int | None = None
    total: int | None = None

    @property
    def txid(self) -> int:
        """Newest checkpoint that need not be offered there any more, -1 before the first."""
        return self.settled.get(ImageKind.IMAGE, -1)

    def has(self, txid: int, kind: ImageKind) -> bool:
        """Whether it is known to have the image at `txid`, or a newer one."""
        return self.settled.get(kind, -1) >= txid > self.refused.get(kind, -1)

    def due(self, txid: int, kind: ImageKind, now: float, *, quiet_period: float, force: bool) -> bool:
        """Whether to offer the image at `txid` at `now`; `force` does not wait.

        Who turned the last image down has another checkpointer: it is left alone for `quiet_period` seconds from
        the last image it took. A rollback image is for everyone.
        """
        if self.settled.get(kind, -1) >= txid:
            return False
        if force:
            return True
        if now < self.not_before:
            return False
        waits = not self.primary and self.uploaded is not None and now - self.uploaded < quiet_period
        return kind.rollback or not waits

    def holds(self, txid: int, kind: ImageKind) -> UploadTarget:
        """It has that image, as it came from there."""
        return replace(self, settled={**self.settled, kind: txid}, refused=_without(self.refused, kind))

    def answered(
        self,
        txid: int,
        kind: ImageKind,
        result: UploadResult,
        *,
        at: float,
        now: float,
        quiet_period: float,
        said: str = "",
    ) -> UploadTarget:
        """After an answer: taken and not wanted settle this image, one who is not active may want it later.

        `said` is why it was refused. Hadoop takes no image of a txid that it once refused as too recent, so that one is
        settled too, and a newer one has to follow.
        """
        inactive = result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE
        taken = result is UploadResult.SUCCESS
        has = taken or has_image(said, txid)
        now_refused = self.refused
        if not inactive:
            now_refused = _without(self.refused, kind) | ({} if has else {kind: txid})
        return UploadTarget(
            self.address,
            self.settled if inactive else {**self.settled, kind: txid},
            now_refused,
            result.name,
            "" if has else said,
            at=at,
            not_before=now + quiet_period if inactive else now,
            primary=self.primary if kind.rollback or self._still_primary(said, now) else result not in _REJECTIONS,
            uploaded=now if taken and not kind.rollback else self.uploaded,
        )

    def _still_primary(self, said: str, now: float) -> bool:
        """Whether a refusal as too recent is because of our own last image."""
        recent = too_recent(said)
        return (
            recent is not None
            and self.uploaded is not None
            and recent.age + _SAME_UPLOAD_SECONDS >= now - self.uploaded
        )

    def stands_by(self, *, at: float) -> UploadTarget:
        """After it said that it is not active: nothing was sent, and asking again costs nothing."""
        return replace(self, result=STANDBY, error="", at=at, failures=0, not_before=0.0)

    def failed(self, error: str, *, at: float, not_before: float) -> UploadTarget:
        """After a transfer that did not come to an answer."""
        failures = self.failures + 1
        return replace(self, result="failed", error=error, at=at, failures=failures, not_before=not_before)


def _without(txids: Mapping[ImageKind, int], kind: ImageKind) -> dict[ImageKind, int]:
    return {each: txid for each, txid in txids.items() if each is not kind}


@dataclass(frozen=True, slots=True)
class Job:
    """What a role does beside its checkpoints: `run` every `seconds`; True from it asks for a poll at once.

    It is not run by two threads at once. `run` handles its own errors.
    """

    name: str
    seconds: float
    run: Callable[[], bool]


class CheckpointRole(Protocol):
    """What can make and upload images; one thread at a time works, any thread may observe."""

    @property
    def name(self) -> str:
        """The role as `--role` names it."""

    @property
    def counter(self) -> TransferCounter:
        """Bytes of images and segments that the role sent and received; the process adds what it serves."""

    @property
    def refusals(self) -> Refusals:
        """What peers of the process were refused."""

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool]) -> None:
        """Take the storage and whatever else the role needs.

        Raises:
            HdfsError: it cannot work; nothing is held.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def close(self) -> None:
        """End jobs that run at a safe point, and let go of everything."""

    def jobs(self) -> Sequence[Job]:
        """What has to be run now and then, from when the role is open until it is closed."""

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new settings; only those in `daemon.reload.RELOADABLE` differ from the old ones."""

    # ---- what it holds -------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        """The namespace it holds; an HdfsError says why there is none yet."""

    def image_folders(self) -> list[Path]:
        """`current` folders of the storage directories that work."""

    def latest_image(self) -> Path:
        """The newest image; a StorageError says why there is none."""

    def segments(self) -> list[EditLogSegment]:
        """The segments of edits it can serve; an HdfsError says why it has none."""

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> Sequence[UploadTarget]:
        """The NameNodes that get images, as they are now."""

    def storage(self) -> Mapping[str, str]:
        """State of each storage directory by its path: "in use", or why it was dropped."""

    def alarms(self) -> Sequence[str]:
        """What an operator has to see to, a sentence each; while there is one the daemon is not ready."""

    def space_shortage(self) -> str:
        """Why the next image finds no room in any storage directory, "" where it finds some."""

    def details(self) -> RoleDetails:
        """How the edits are followed, and what else the role tells of itself."""

    def progress(self) -> Progress:
        """Where the node stands.

        Raises:
            HdfsError: storage or journal cannot be read.
        """

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Called before each attempt: leave failed storage directories out, try dropped ones again."""

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Called at each poll while another daemon makes the checkpoints: have here what the next one begins with.

        Raises:
            HdfsError: that cannot be had now.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Make an image of all edits there are; one that is not forced may do with those up to a recent roll.

        Raises:
            HdfsError: nothing was written.
        """

    def upload(self, cancelled: Callable[[], bool], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to the targets that are due.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
