"""Verifies an image's digest while other work goes on."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.priority import let_others_go_first
from image_format.digests.paired_md5 import PairedMd5, pairs_are_quick
from image_format.reader import ImageFile

__all__ = ["DigestCheck"]


class DigestCheck:
    """Digest check of an open image; a context manager that ends before the image is closed.

    It goes on in a thread from `start` on, or together with the digest of a stream that `paired` takes.

    Where the body fails on an image whose digest is wrong, the digest's error takes the place of the body's: it
    says why. A fault of a directory is not explained by that, and does not begin it.
    """

    def __init__(self, image: ImageFile) -> None:
        self._image = image
        self._paired: PairedMd5 | None = None
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._verify_beside, name="image-digest", daemon=True)

    def _verify_beside(self) -> None:
        try:
            # the new image's digest above all
            let_others_go_first()
            self._verify()
        except Exception as fault:
            self._fault = fault

    def _verify(self) -> None:
        if self._paired is None:
            self._image.verify_md5()
        else:
            self._image.compare_md5(self._paired.digest_beside())

    def start(self) -> None:
        """Begin; from here on it takes one core."""
        if self._thread.ident is None:
            self._thread.start()

    def can_be_paired(self) -> bool:
        """Whether `paired` gives a digest for the next stream."""
        return self._thread.ident is None and self._paired is None and pairs_are_quick()

    def paired(self) -> PairedMd5 | None:
        """A digest for one stream that takes the image's on the way; None if that is begun, or would be no quicker."""
        if not self.can_be_paired():
            return None
        self._paired = PairedMd5(self._image.file_bytes())
        return self._paired

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
        explains = isinstance(error, HdfsError) and not isinstance(error, StorageError)
        if explains:
            self.start()
        if self._thread.ident is not None:
            self._thread.join()
        if explains and self._fault is not None and error is not self._fault:
            raise self._fault from error
