"""Checks before a checkpoint upload is accepted, in Hadoop's order (ImageServlet.doPut)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from servlets.errors import AlreadyHaveImageError, NotActiveError, StorageMismatchError
from servlets.image_receiver import ReceivedFile
from servlets.image_store import ImageStore
from servlets.parameters import ImageKind
from servlets.reservations import UploadReservations

_LOG = logging.getLogger(__name__)


class ImageAdmission:
    """The upload checks that both protocols share, with one store and its reservations."""

    def __init__(self, store: ImageStore, reservations: UploadReservations) -> None:
        self._store = store
        self._reservations = reservations

    def namespace(self) -> StorageInfo:
        """Return the namespace of this side.

        Raises:
            StorageMismatchError: there is none yet.
        """
        try:
            return self._store.storage_info()
        except HdfsError as fault:
            raise StorageMismatchError(f"this side holds no namespace yet: {fault}", hint=fault.hint) from fault

    def check_storage(self, theirs: str) -> StorageInfo:
        """Return the namespace of this side if it matches `theirs` (`layout:namespaceID:cTime:clusterID`).

        Raises:
            StorageMismatchError: it is another one, or there is none yet.
        """
        info = self.namespace()
        if theirs != info.colon_string():
            # the namespace of this side is not revealed to foreign callers
            raise StorageMismatchError(
                f"storageInfo {theirs[:200]!a} is not the namespace of this side",
                hint="Configure both sides for the same cluster; after an upgrade, restart the checkpointer.",
            )
        return info

    @contextmanager
    def admitted(self, txid: int, kind: ImageKind) -> Iterator[None]:
        """Hold the reservation of a wanted upload inside the `with`, however that ends.

        Raises:
            NotActiveError: this side accepts no checkpoints now.
            AlreadyHaveImageError: the image is stored, being received, or not wanted yet.
        """
        if not self._store.is_active():
            raise NotActiveError(
                f"this NameNode is not active, expected the active one for txid {txid}",
                hint="Upload to the active NameNode.",
            )
        with self._reservations.reserve(txid, kind):
            self._check_wanted(txid, kind)
            yield

    def received(self, txid: int, kind: ImageKind, image: ReceivedFile, seconds: float) -> str:
        """Report a stored image to store and log; return the sentence that answers its upload."""
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
