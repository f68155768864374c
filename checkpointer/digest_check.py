"""Verifies an image's digest in a thread while edits are replayed."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from hadoop_common.errors import HdfsError
from hadoop_common.priority import let_others_go_first
from image_format.reader import ImageFile

__all__ = ["DigestCheck"]


class DigestCheck:
    """Digest check of an open image, from `start` on; a context manager that ends before the image is closed.

    Where the body fails on an image whose digest is wrong, the digest's error takes the place of the body's: it
    says why.
    """

    def __init__(self, image: ImageFile) -> None:
        self._image = image
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._verify, name="image-digest", daemon=True)

    def _verify(self) -> None:
        try:
            # the new image's digest above all
            let_others_go_first()
            self._image.verify_md5()
        except Exception as fault:
            self._fault = fault

    def start(self) -> None:
        """Begin; from here on it takes one core."""
        if self._thread.ident is None:
            self._thread.start()

    def confirm(self) -> None:
        """Wait for the verdict.

        Raises:
            DigestMismatchError: the file is not the one its digest file names, or there is none.
            ImageStorageError: it cannot be read.
        """
        self.start()
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, HdfsError):
            self.start()
        if self._thread.ident is not None:
            self._thread.join()
        if self._fault is not None and error is not self._fault and isinstance(error, HdfsError):
            raise self._fault from error
