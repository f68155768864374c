"""Verifies an image while other work goes on: its digest, then whether a NameNode loads it.

It is not begun, runs, or has its verdict. Only `confirm` gives the verdict, and it begins what was not begun: nothing
that asked for it goes on with an image whose digest is wrong. The thread ends before the image is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from engine.errors import CheckpointCancelledError
from engine.settings import ReplayRules
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.priority import let_others_go_first
from image_format.known_digests import FileIdentity, identity_at
from image_format.md5_file import md5_path
from image_format.reader import ImageFile

CheckKey = tuple[FileIdentity | None, FileIdentity | None, ReplayRules]


def check_key(path: Path, rules: ReplayRules) -> CheckKey:
    """What the verdict on an image depends on: its file and its digest file, as they are now, and the rules."""
    return identity_at(path), identity_at(md5_path(path)), rules


class ImageVerification:
    """Check of an open image; a context manager that ends before the image is closed.

    It goes on in a thread from `start` on.

    Attributes:
        then: what else is checked once the digest is right; it raises HdfsError. Now and then it calls its argument,
            which raises CheckpointCancelledError where nobody waits for the verdict any more.
        fault: what was found wrong, None where nothing was so far.

    Where the body fails on an image that is wrong, the error of the check takes the place of the body's: it
    says why. A fault of a directory, or a cancellation, is not explained by that: it does not begin the check, and ends
    it early.
    """

    def __init__(self, image: ImageFile) -> None:
        self._image = image
        self.fault: Exception | None = None
        self.then: Callable[[Callable[[], None]], None] | None = None
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._verify_beside, name="image-digest", daemon=True)

    def _verify_beside(self) -> None:
        try:
            # the new image's digest above all
            let_others_go_first()
            self._image.verify_md5(self._check_wanted)
            if self.then is not None:
                self.then(self._check_wanted)
        except Exception as fault:
            self.fault = fault
        except BaseException as fault:
            # a thread that ends without a verdict has found nothing right
            self.fault = RuntimeError(f"the check of {self._image.path} ended: {fault!r}")

    def _check_wanted(self) -> None:
        if self._unwanted.is_set():
            raise CheckpointCancelledError("nobody waits for the verdict on the image")

    def start(self) -> None:
        """Begin; from here on it takes one core."""
        if self._thread.ident is None:
            self._thread.start()

    def confirm(self) -> None:
        """Wait for the verdict.

        Raises:
            DigestMismatchError: the file is not the one its digest file names, or there is none.
            RecordError: no NameNode loads it.
            ImageStorageError: it cannot be read.
            ShrunkFileError: it became shorter since it was opened.
        """
        self.start()
        self._thread.join()
        if self.fault is not None:
            raise self.fault
        self._image.check_whole()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        explains = isinstance(error, HdfsError) and not isinstance(error, StorageError | CheckpointCancelledError)
        if explains:
            self.start()
        else:
            self._unwanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        if explains and isinstance(self.fault, HdfsError) and error is not self.fault:
            raise self.fault from error
