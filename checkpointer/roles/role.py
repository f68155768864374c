"""Interface of a role, and the values that it exchanges with the service: progress, upload targets, jobs, uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from checkpointer.transfer import UploadResult
from checkpointer.transfer.image_acceptance import has_image, too_recent
from engine.merge import MergeResult, Observer
from engine.warm_namespace import WarmNamespace
from hadoop_common.names import ImageKind
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from journal.operation import EditOp
from journal.segment_file import EditLogSegment
from node_state.state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig

# maximum difference in seconds between the readings of two clocks at the end of the same upload
_SAME_UPLOAD_SECONDS = 5.0
# result for a NameNode that received no image because it reported that it is not active
STANDBY = "standby"
# seconds until a refused rollback image is offered again
_ROLLBACK_RETRY_SECONDS = 300.0
# state of a storage directory that was not dropped
IN_USE = "in use"
_REJECTIONS = (UploadResult.OLD_TRANSACTION_ID_FAILURE, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE)


@dataclass(frozen=True, slots=True)
class Progress:
    """State of image and edits: the newest own image, and the newest transaction that is available without a roll.

    Attributes:
        image_at: time when that image was written, in seconds since the epoch; None if there is no image or it is not
            a checkpoint.
        urgent: reason why an image is due immediately, regardless of period and transaction count; usually "".
    """

    image_txid: int
    journal_txid: int
    image_at: float | None
    urgent: str = ""

    @property
    def behind(self) -> int:
        """Number of transactions that are not in an image yet."""
        return max(0, self.journal_txid - self.image_txid)


@dataclass(frozen=True, slots=True)
class Upload:
    """Result of offering one image to one NameNode.

    Attributes:
        result: name of an `UploadResult`, or "failed" with an `error`.
        seconds: duration; `size`: bytes sent; `status`: HTTP status of an error response.
        refusal: reason why a NameNode without the image refused it, "" if it did not.
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
    """A NameNode that receives our images, and the last results (StandbyCheckpointer.CheckpointReceiverEntry).

    Attributes:
        settled: newest image of each kind that no longer needs to be offered.
        refused: newest image of each kind that the NameNode refused and does not have.
        held: newest checkpoint that the NameNode is known to have, -1 if none is known.
        result: result of the last offer; "never" before the first, "standby" if the NameNode reported that it is not
            active.
        error: reason why the NameNode did not accept the last image, "" if it has that image.
        at: time of the last offer, in seconds since the epoch.
        failures: number of consecutive failed transfers.
        not_before: time on the uploader's monotonic clock, in seconds, before which only a forced offer is made.
        rollback_after: the same for a rollback image that the NameNode refused, or whose transfer failed.
        primary: whether the NameNode accepted the last image, so that this checkpointer serves it.
        uploaded: time on the same clock when the NameNode last accepted an image.
        sent, total: bytes sent and size of the image that is being transferred; None if there is no transfer.
    """

    address: str
    settled: Mapping[ImageKind, int] = field(default_factory=dict)
    refused: Mapping[ImageKind, int] = field(default_factory=dict)
    result: str = "never"
    error: str = ""
    at: float | None = None
    failures: int = 0
    not_before: float = 0.0
    rollback_after: float = 0.0
    primary: bool = True
    uploaded: float | None = None
    sent: int | None = None
    total: int | None = None
    held: int = -1

    @property
    def txid(self) -> int:
        """Newest checkpoint that no longer needs to be offered, -1 if there is none."""
        return self.settled.get(ImageKind.IMAGE, -1)

    def has(self, txid: int, kind: ImageKind) -> bool:
        """Return whether the NameNode is known to have the image at `txid`, or a newer one."""
        return self.settled.get(kind, -1) >= txid > self.refused.get(kind, -1)

    def due(self, txid: int, kind: ImageKind, now: float, *, quiet_period: float, force: bool) -> bool:
        """Return whether to offer the image at `txid` at `now`; a forced offer does not wait.

        A NameNode that rejected our last image is served by another checkpointer. We offer it no image for
        `quiet_period` seconds after the last one that it accepted. A rollback image is offered to every NameNode.
        """
        if self.settled.get(kind, -1) >= txid:
            return False
        if force:
            return True
        if now < self.not_before or (kind.rollback and now < self.rollback_after):
            return False
        waits = not self.primary and self.uploaded is not None and now - self.uploaded < quiet_period
        return kind.rollback or not waits

    def holds(self, txid: int, kind: ImageKind) -> UploadTarget:
        """Return the target after an image was fetched from it."""
        refused = _without(self.refused, kind)
        return replace(self, settled={**self.settled, kind: txid}, refused=refused, held=self._held(txid, kind))

    def _held(self, txid: int, kind: ImageKind) -> int:
        return self.held if kind.rollback else max(self.held, txid)

    def answered(
        self,
        txid: int,
        kind: ImageKind,
        result: UploadResult,
        *,
        at: float,
        now: float,
        quiet_period: float,
        refusal: str = "",
    ) -> UploadTarget:
        """Return the target after a response. Acceptance and rejection settle the image; an inactive NameNode may need
        the image later.

        `refusal` is the reason why the image was refused. Hadoop never accepts an image at a txid that it refused as
        too recent. Therefore an image refused as too recent is settled too, and only a newer one can follow. A rollback
        image has no successor. A refused one is offered again, because the upload that prevented it may have failed.
        """
        inactive = result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE
        taken = result is UploadResult.SUCCESS
        has = taken or has_image(refusal, txid)
        is_pending = inactive or (kind.rollback and not has)
        now_refused = self.refused
        if not inactive:
            now_refused = _without(self.refused, kind) | ({} if has else {kind: txid})
        return UploadTarget(
            self.address,
            self.settled if is_pending else {**self.settled, kind: txid},
            now_refused,
            result.name,
            "" if has else refusal,
            at=at,
            not_before=now + quiet_period if inactive else now,
            rollback_after=now + _ROLLBACK_RETRY_SECONDS if kind.rollback and is_pending else self.rollback_after,
            primary=self.primary if kind.rollback or self._still_primary(refusal, now) else result not in _REJECTIONS,
            uploaded=now if taken and not kind.rollback else self.uploaded,
            held=self._held(txid, kind) if has else self.held,
        )

    def _still_primary(self, refusal: str, now: float) -> bool:
        """Return whether our own last image caused a refusal as too recent."""
        recent = too_recent(refusal)
        return (
            recent is not None
            and self.uploaded is not None
            and recent.age + _SAME_UPLOAD_SECONDS >= now - self.uploaded
        )

    def stands_by(self, *, at: float) -> UploadTarget:
        """Return the target after it reported that it is not active. Nothing was sent, so another query is cheap."""
        return replace(self, result=STANDBY, error="", at=at, failures=0, not_before=0.0)

    def failed(self, kind: ImageKind, error: str, *, at: float, now: float, wait: float) -> UploadTarget:
        """Return the target after a transfer without a response; nothing is offered for `wait` seconds.

        A rollback image waits twice as long, so that the newest image is offered in between.
        """
        return replace(
            self,
            result="failed",
            error=error,
            at=at,
            failures=self.failures + 1,
            not_before=now + wait,
            rollback_after=now + 2 * wait if kind.rollback else self.rollback_after,
        )


def _without(txids: Mapping[ImageKind, int], kind: ImageKind) -> dict[ImageKind, int]:
    return {each: txid for each, txid in txids.items() if each is not kind}


@dataclass(frozen=True, slots=True)
class Job:
    """Work of a role besides its checkpoints: `run` is called every `seconds`, in one thread at a time.

    A result of True requests an immediate poll. `run` handles its own errors.
    """

    name: str
    seconds: float
    run: Callable[[], bool]


class CheckpointRole(Protocol):
    """A role that makes and uploads images. Only one thread may work at a time; any thread may observe."""

    @property
    def name(self) -> str:
        """Name of the role, as in `--role`."""

    @property
    def counter(self) -> TransferCounter:
        """Bytes of images and segments that the role sent and received; the process adds the bytes that it serves."""

    @property
    def refusals(self) -> Refusals:
        """Counts of peers' requests that the process refused or ended."""

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool]) -> None:
        """Lock the storage and acquire everything else that the role needs.

        Raises:
            HdfsError: the role cannot work; nothing stays locked.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def close(self) -> None:
        """Stop running jobs at a safe point, and release everything."""

    def jobs(self) -> Sequence[Job]:
        """Return the jobs to run while the role is open."""

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings; only those in `daemon.reload.RELOADABLE` differ from the old ones."""

    # ---- contents -----------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        """Return the namespace of the storage; an HdfsError explains why there is none yet."""

    def confirm_image(self) -> Path:
        """Return the newest image after a check that it belongs to the cluster's present past.

        Called by the thread that makes checkpoints.

        Raises:
            HdfsError: no image exists, it does not belong to that past, or the past is unknown now.
        """

    def image_folders(self) -> list[Path]:
        """Return the `current` folders of the storage directories that work."""

    def latest_image(self) -> Path:
        """Return the newest image; a StorageError explains why there is none."""

    def segments(self) -> list[EditLogSegment]:
        """Return the segments of edits that the role can serve; an HdfsError explains why it has none."""

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        """Yield the operations `first` to `last` of the edits that the role follows.

        Raises:
            HdfsError: the edits cannot be read.
        """

    @property
    def warm_namespace(self) -> WarmNamespace | None:
        """The namespace that follows the edits, None if the role keeps none; others may only read it."""

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> Sequence[UploadTarget]:
        """The NameNodes that get images, in their present state."""

    def storage(self) -> Mapping[str, str]:
        """Return the state of each storage directory by its path: "in use", or the reason why it was dropped."""

    def alarms(self) -> Sequence[str]:
        """Return the problems that need an operator, one sentence each; the daemon is not ready while there is an
        alarm.
        """

    def space_shortage(self) -> str:
        """Return the reason why the next image fits into no storage directory, "" if it fits."""

    def details(self) -> RoleDetails:
        """Return the state of the tailing of edits, and other details of the role."""

    def progress(self) -> Progress:
        """Return the positions of image and edits.

        Raises:
            HdfsError: storage or journal cannot be read.
        """

    # ---- work ----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Drop failed storage directories and retry dropped ones. Called before each attempt."""

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Keep the data for the next checkpoint up to date. Called at each poll while another daemon makes the
        checkpoints.

        Raises:
            HdfsError: the data is not available now.
            CheckpointCancelledError: `cancelled()` became true.
        """

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Make an image of all present edits; unless `forced`, edits up to a recent roll suffice.

        Raises:
            HdfsError: nothing was written.
        """

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to the targets that are due; the thread of each transfer calls `began` first.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
