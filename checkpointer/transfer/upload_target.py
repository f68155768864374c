"""A NameNode that receives images, and the results of uploads to it; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from checkpointer.transfer import UploadResult
from checkpointer.transfer.image_acceptance import has_image, too_recent
from hadoop_common.names import ImageKind

# maximum difference in seconds between the times at which two hosts record the end of the same upload
_SAME_UPLOAD_SECONDS = 5.0
# result for a NameNode to which nothing was sent, because it reported that it is not active
STANDBY = "standby"
# seconds until a refused rollback image is offered again
_ROLLBACK_RETRY_SECONDS = 300.0
_REJECTIONS = (UploadResult.OLD_TRANSACTION_ID_FAILURE, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE)


@dataclass(frozen=True, slots=True)
class Upload:
    """Result of offering one image to one NameNode.

    Attributes:
        result: name of an `UploadResult`, or "failed" with an `error`.
        seconds: duration. `size` is the number of bytes sent, and `status` the HTTP status of an error response.
        refusal: reason why a NameNode that lacks the image refused it, "" if it did not refuse the image.
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
    """A NameNode that receives our images, and the results of the last uploads
    (StandbyCheckpointer.CheckpointReceiverEntry).

    Attributes:
        settled: newest image of each kind that no longer needs to be offered.
        refused: newest image of each kind that the NameNode refused and does not have.
        held: newest checkpoint that the NameNode is known to have; -1 if unknown.
        result: result of the last offer; "never" before the first offer, "standby" if the NameNode reported that it is
            not active.
        error: reason why the NameNode did not accept the last image, "" if it has that image.
        at: time of the last offer, in seconds since the epoch.
        failures: number of consecutive failed transfers.
        not_before: time on the uploader's monotonic clock, in seconds, before which the uploader makes only forced
            offers.
        rollback_after: time on the same clock before which the uploader does not offer a rollback image that the
            NameNode refused, or whose transfer failed.
        primary: whether the NameNode accepted the last image, so that this checkpointer serves it.
        uploaded: time on the same clock when the NameNode last accepted an image.
        sent, total: bytes sent and size of the image that is being transferred; None if no image is being transferred.
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
        """Newest checkpoint that no longer needs to be offered; -1 if there is none."""
        return self.settled.get(ImageKind.IMAGE, -1)

    def has(self, txid: int, kind: ImageKind) -> bool:
        """Return whether the NameNode is known to have the image at `txid` or a newer image."""
        return self.settled.get(kind, -1) >= txid > self.refused.get(kind, -1)

    def due(self, txid: int, kind: ImageKind, now: float, *, quiet_period: float, force: bool) -> bool:
        """Return whether to offer the image at `txid` at the time `now`; a forced offer does not wait.

        Another checkpointer serves a NameNode that rejected our last image. For `quiet_period` seconds after the last
        image that this NameNode accepted, offer nothing to it. Offer a rollback image to every NameNode.
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
        """Return the new state of the target after its NameNode was found to have an image."""
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
        """Return the target after a response. Acceptance and rejection settle the image, but an inactive NameNode may
        need it later.

        `refusal` is the reason why the NameNode refused the image. Hadoop never accepts an image at a txid that it
        refused as too recent. Therefore, an image refused as too recent is also settled, and only a newer image can
        follow. A rollback image has no successor, so the uploader offers a refused rollback image again. The concurrent
        upload that caused the refusal may have failed.
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
        """Return whether the NameNode refused an image as too recent because of our last image."""
        recent = too_recent(refusal)
        return (
            recent is not None
            and self.uploaded is not None
            and recent.age + _SAME_UPLOAD_SECONDS >= now - self.uploaded
        )

    def reported_standby(self, *, at: float) -> UploadTarget:
        """Return the new state of the target after its NameNode reported that it is not active.

        Do not delay the next query, which is cheap.
        """
        return replace(self, result=STANDBY, error="", at=at, failures=0, not_before=0.0)

    def failed(self, kind: ImageKind, error: str, *, at: float, now: float, wait: float) -> UploadTarget:
        """Return the target after a failed transfer; offer nothing for `wait` seconds.

        A rollback image waits twice as long, so that the newest image can be offered in between.
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
