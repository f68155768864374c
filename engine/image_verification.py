"""Verifies an image in parallel with other work: its digest, then whether a NameNode can load it.

A verification has three states: not started, running, and finished. `confirm` starts it if necessary and waits for the
result, so its caller never continues with an image whose digest is wrong. The thread ends before the image is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from engine.errors import CheckpointCancelledError
from engine.settings import ReplayRules
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.process_tuning import lower_thread_priority
from image_format.index import ImageIndex
from image_format.known_digests import FileIdentity, identity_at, remember_loadable
from image_format.md5_file import md5_path, read_md5_file
from image_format.reader import BegunDigest, ImageFile
from image_tools.loadable import InodePieces, check_loadable

CheckKey = tuple[FileIdentity | None, FileIdentity | None, ReplayRules]


def check_key(path: Path, rules: ReplayRules) -> CheckKey:
    """Return all inputs of a verification: the identities of the image file and its digest file, and the rules."""
    return identity_at(path), identity_at(md5_path(path)), rules


def verify_loadable(
    image: ImageFile,
    converted: ImageFile,
    index: ImageIndex | None,
    inodes: InodePieces | None,
    before_section: Callable[[], None],
) -> None:
    """Raise RecordError if a NameNode cannot load the image; `converted` is the image in the layout of its index.

    Args:
        inodes: results of a check of the INODE records; None if the records are not checked yet.
    """
    check_loadable(converted, index, before_section, inodes)
    remember_loadable(image.identity, whole=index is not None)


def _expected_digest(path: Path) -> bytes | HdfsError:
    """Return the contents of an image's digest file, or the error that prevents reading the file."""
    try:
        return read_md5_file(path)
    except HdfsError as fault:
        return fault


class ImageVerification:
    """Verification of an open image, as a context manager that must exit before the image is closed.

    The verification runs in a thread that `start` starts.

    Attributes:
        then: further check after the digest; it raises HdfsError for a bad image. It regularly calls its argument,
            which raises CheckpointCancelledError when the result is no longer needed.
        begun: digest of the beginning of the file, if known.
        fault: the error; None if none has been found so far.

    If the body fails and the image is wrong, the verification's error replaces the body's error, because the image is
    the cause. A storage fault or a cancellation has a different cause, and ends the verification early.
    """

    def __init__(self, image: ImageFile) -> None:
        self._image = image
        # Read now, because the files of a rollback image are renamed when the rolling upgrade ends.
        self._expected = _expected_digest(image.path)
        self.fault: Exception | None = None
        self.begun: BegunDigest | None = None
        self.then: Callable[[Callable[[], None]], None] | None = None
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._verify_beside, name="image-digest", daemon=True)

    def _verify_beside(self) -> None:
        try:
            # The digest of the new image is more urgent.
            lower_thread_priority(self._image.size)
            if isinstance(self._expected, HdfsError):
                raise self._expected
            self._image.verify_md5(self._check_wanted, self.begun, self._expected)
            if self.then is not None:
                self.then(self._check_wanted)
        except Exception as fault:
            self.fault = fault
        except BaseException as fault:
            # A thread that ends without a result has verified nothing.
            self.fault = RuntimeError(f"the verification of {self._image.path} ended: {fault!r}")
        finally:
            # Release the index and the types of the inodes.
            self.then = self.begun = None

    def _check_wanted(self) -> None:
        if self._unwanted.is_set():
            raise CheckpointCancelledError("the result for the image is no longer needed")

    def start(self) -> None:
        """Start the verification, which uses one core."""
        if self._thread.ident is None:
            self._thread.start()

    def confirm(self) -> None:
        """Wait for the result.

        Raises:
            DigestMismatchError: the digest file contains a different digest, or does not exist.
            RecordError: a NameNode cannot load the image.
            ImageStorageError: the image cannot be read.
            ShrunkFileError: the image has become shorter since it was opened.
        """
        self.start()
        self._thread.join()
        if self.fault is not None:
            raise self.fault
        self._image.check_whole()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        explains = isinstance(error, HdfsError) and not isinstance(error, StorageError | CheckpointCancelledError)
        if explains:
            self.start()
        else:
            self._unwanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        if explains and isinstance(self.fault, HdfsError) and error is not self.fault:
            raise self.fault from error
