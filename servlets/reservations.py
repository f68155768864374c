"""Which checkpoints are being uploaded right now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from servlets.errors import AlreadyHaveImageError

__all__ = ["UploadReservations"]


class UploadReservations:
    """Txids of the uploads in progress; one that is newer than all of them may start beside them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._txids: set[int] = set()

    @property
    def txids(self) -> tuple[int, ...]:
        """What is being uploaded now, in ascending order."""
        with self._lock:
            return tuple(sorted(self._txids))

    @contextmanager
    def reserve(self, txid: int) -> Iterator[None]:
        """Hold `txid` for the body of the `with`, however that ends.

        Raises:
            AlreadyHaveImageError: an upload with this or a higher txid is in progress.
        """
        with self._lock:
            newest = max(self._txids, default=-1)
            if newest >= txid:
                raise AlreadyHaveImageError(
                    f"an upload of txid {newest} is in progress, expected a higher one than {txid}",
                    hint="Upload a newer checkpoint, or wait until the other upload has ended.",
                )
            self._txids.add(txid)
        try:
            yield
        finally:
            with self._lock:
                self._txids.discard(txid)
