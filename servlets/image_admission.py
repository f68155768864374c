"""Checks before a checkpoint upload is accepted, in Hadoop's order (ImageServlet.doPut)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hadoop_common.errors import HdfsError
from hadoop_common.names import ImageKind, image_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import UNLIMITED
from servlets.errors import AlreadyHaveImageError, NotActiveError, StorageMismatchError
from servlets.received_files import ReceivedFile

DEFAULT_CHUNK_SIZE = 65536


class ImageStore(Protocol):
    """The process behind the transfer servlet; called from many threads."""

    def storage_info(self) -> StorageInfo:
        """Return the namespace of this process; raise an HdfsError if there is none yet (the response is then 403)."""

    def find_image(self, txid: int) -> Path | None:
        """Return `fsimage_TXID` or `fsimage_rollback_TXID`, or None if missing."""

    def latest_image(self) -> Path | None:
        """Return the newest `fsimage_TXID`, or None if there is none."""

    def find_segment(self, first: int, last: int) -> Path | None:
        """Return the finalized segment with exactly these transaction ids, or None if missing."""

    def image_directories(self) -> list[Path]:
        """Return the directories that contain images (`.../current`)."""

    def is_active(self) -> bool:
        """Return whether checkpoints may be uploaded to this node (in Hadoop 3, to an active or observer NameNode)."""

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """Return the reason why a checkpoint is not accepted now (e.g. too recent), or None if it is accepted."""

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        """Record an image of `size` bytes, which every directory that accepted it stores under the final name."""


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """Limits of the servlet: bytes per second over all transfers of one direction (0 = off), and minimum bytes per
    step.

    `bandwidth` is dfs.image.transfer.bandwidthPerSec. `bootstrap_bandwidth`, for a standby that bootstraps, is
    dfs.image.transfer-bootstrap-standby.bandwidthPerSec. `chunk_size` is dfs.image.transfer.chunksize.
    """

    bandwidth: int = UNLIMITED
    bootstrap_bandwidth: int = UNLIMITED
    chunk_size: int = DEFAULT_CHUNK_SIZE


class UploadReservations:
    """Uploads in progress; an upload may start if its image is newer than all others of its kind in progress.

    Hadoop reserves a transaction id for all kinds of images (ImageServlet). After 409, Hadoop's clients assume that the
    NameNode has the image. A rollback image that is offered during the upload of an ordinary image would therefore
    never arrive. Here, each kind of image has separate reservations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[tuple[int, ImageKind]] = set()

    @property
    def held(self) -> tuple[tuple[int, ImageKind], ...]:
        """The uploads in progress, in ascending order."""
        with self._lock:
            return tuple(sorted(self._held))

    @property
    def txids(self) -> tuple[int, ...]:
        """The transaction ids of the uploads in progress."""
        return tuple(txid for txid, _ in self.held)

    @contextmanager
    def reserve(self, txid: int, kind: ImageKind = ImageKind.IMAGE) -> Iterator[None]:
        """Reserve `txid`, and release it at the end of the context.

        Raises:
            AlreadyHaveImageError: an upload of this kind with this or a higher transaction id is in progress.
        """
        with self._lock:
            newest = max((held for held, held_kind in self._held if held_kind is kind), default=-1)
            if newest >= txid:
                raise AlreadyHaveImageError(
                    f"an upload of {kind} at txid {newest} is in progress; txid {txid} is not higher",
                    hint="Upload a newer checkpoint, or wait until the other upload has ended.",
                )
            self._held.add((txid, kind))
        try:
            yield
        finally:
            with self._lock:
                self._held.discard((txid, kind))


_LOG = logging.getLogger(__name__)


class ImageAdmission:
    """The checks of uploads that both protocols share, for one store and its reservations."""

    def __init__(self, store: ImageStore, reservations: UploadReservations) -> None:
        self._store = store
        self._reservations = reservations

    def namespace(self) -> StorageInfo:
        """Return the namespace of this side.

        Raises:
            StorageMismatchError: there is no namespace yet.
        """
        try:
            return self._store.storage_info()
        except HdfsError as fault:
            raise StorageMismatchError(f"this process has no namespace yet: {fault}", hint=fault.hint) from fault

    def check_storage(self, theirs: str) -> StorageInfo:
        """Return the namespace of this side if it matches `theirs` (`layout:namespaceID:cTime:clusterID`).

        Raises:
            StorageMismatchError: the namespace differs, or the storage has no namespace yet.
        """
        info = self.namespace()
        if theirs != info.colon_string():
            # do not reveal the namespace of this side to foreign callers
            raise StorageMismatchError(
                f"storageInfo {theirs[:200]!a} is not the namespace of this side",
                hint="Configure both sides for the same cluster; after an upgrade, restart the checkpointer.",
            )
        return info

    @contextmanager
    def admitted(self, txid: int, kind: ImageKind) -> Iterator[None]:
        """Check and reserve an upload, and release the reservation at the end of the context.

        Raises:
            NotActiveError: this side does not accept checkpoints now.
            AlreadyHaveImageError: the image is already stored, is being received, or is too recent to be accepted.
        """
        if not self._store.is_active():
            raise NotActiveError(
                f"this node is not active, so it does not accept the image at txid {txid}",
                hint="Upload to the active NameNode.",
            )
        with self._reservations.reserve(txid, kind):
            self._check_wanted(txid, kind)
            yield

    def received(self, txid: int, kind: ImageKind, image: ReceivedFile, seconds: float) -> str:
        """Report a stored image to the store and the log; return the sentence for the response."""
        for fault in image.failures:
            _LOG.error("%s at txid %d was not stored everywhere: %s", kind, txid, fault, extra={"txid": txid})
        self._store.image_received(txid, kind, image.md5, image.size)
        name = image.paths[0].name
        _LOG.info(
            "received %s, %d bytes in %.1f s, md5 %s",
            name,
            image.size,
            seconds,
            image.md5,
            extra={"txid": txid, "kind": kind.value, "bytes": image.size, "seconds": round(seconds, 3)},
        )
        return f"stored {name}, {image.size} bytes, MD5 {image.md5}"

    def _check_wanted(self, txid: int, kind: ImageKind) -> None:
        reason = self._store.checkpoint_rejection(txid, kind)
        if reason is not None:
            raise AlreadyHaveImageError(reason)
        name = image_name(txid, kind.rollback)
        if any((directory / name).exists() for directory in self._store.image_directories()):
            raise AlreadyHaveImageError(
                f"{name} is stored here already, expected an image of another txid",
                hint="Nothing needs to be done; do not upload the image again.",
            )
