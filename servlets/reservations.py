"""Checkpoint uploads in progress.

A transaction id is reserved before the check whether the image is wanted, until the upload has ended. A newer image of
the same kind may be uploaded at the same time, but not the same or an older one, so that two uploads never write the
same unfinished file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from servlets.errors import AlreadyHaveImageError
from servlets.parameters import ImageKind


class UploadReservations:
    """Uploads in progress; an upload may start if it is newer than all others of its kind.

    Hadoop reserves a transaction id for all kinds of images (ImageServlet), and its clients interpret the 409 as "has
    it already": a rollback image that meets an ordinary upload would never arrive. Here each kind is separate.
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
        """The transaction ids of `held`."""
        return tuple(txid for txid, _ in self.held)

    @contextmanager
    def reserve(self, txid: int, kind: ImageKind = ImageKind.IMAGE) -> Iterator[None]:
        """Hold `txid` inside the `with`, however that ends.

        Raises:
            AlreadyHaveImageError: an upload of this kind with this or a higher transaction id is in progress.
        """
        with self._lock:
            newest = max((held for held, held_kind in self._held if held_kind is kind), default=-1)
            if newest >= txid:
                raise AlreadyHaveImageError(
                    f"an upload of {kind} at txid {newest} is in progress, expected a higher one than {txid}",
                    hint="Upload a newer checkpoint, or wait until the other upload has ended.",
                )
            self._held.add((txid, kind))
        try:
            yield
        finally:
            with self._lock:
                self._held.discard((txid, kind))
