"""Which checkpoints are being uploaded right now.

A txid is reserved before it is asked whether the image is wanted, and until the upload ended, however it did. A newer
image of the kind may come beside it; the same and an older one may not, so that two uploads never write the same
unfinished file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from servlets.errors import AlreadyHaveImageError
from servlets.parameters import ImageKind


class UploadReservations:
    """Uploads in progress; one that is newer than all others of its kind may start beside them.

    Hadoop reserves a txid whatever the kind of the image is (ImageServlet), and its clients take the 409 for
    "has it already": a rollback image that meets an ordinary upload would never arrive. Here each kind is apart.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[tuple[int, ImageKind]] = set()

    @property
    def held(self) -> tuple[tuple[int, ImageKind], ...]:
        """What is being uploaded now, in ascending order."""
        with self._lock:
            return tuple(sorted(self._held))

    @property
    def txids(self) -> tuple[int, ...]:
        """The txids of `held`."""
        return tuple(txid for txid, _ in self.held)

    @contextmanager
    def reserve(self, txid: int, kind: ImageKind = ImageKind.IMAGE) -> Iterator[None]:
        """Hold `txid` for the body of the `with`, however that ends.

        Raises:
            AlreadyHaveImageError: an upload of this kind with this or a higher txid is in progress.
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
