"""Receivers of files, which write to all directories in parallel and rename the complete file."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.durable import rename_durably
from hadoop_common.file_faults import error_text
from hadoop_common.lifetimes import Closeable
from hadoop_common.names import checkpoint_name, image_name
from image_format.array_allocator import BufferPool
from image_format.errors import ImageFormatError, ImageStorageError, UnsupportedCodecError
from image_format.known_digests import remember_digest
from image_format.output import DigestingFileSet
from image_format.publish import place_image
from image_format.reader import ImageFile
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import audit_image
from image_tools.verify.findings import Findings
from servlets.errors import ImageRejectedError

_LOG = logging.getLogger(__name__)

# received data is passed to the writing threads in large slices, because each hand-over costs a context switch
_SLICE = 1 << 20


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A stored file: its path in each directory that accepted it, its digest (hexadecimal), and the failures."""

    paths: tuple[Path, ...]
    md5: str
    size: int
    failures: tuple[str, ...]

    def missing_in(self, folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
        """Yield each of `folders` that could not store the file, with the reason."""
        holding = {path.parent for path in self.paths}
        for folder in folders:
            if folder not in holding:
                yield folder, "; ".join(each for each in self.failures if each.startswith(f"{folder}/"))


class FileReceiver(Closeable):
    """A receiver that writes to `temporary` in each directory; `commit` makes it durable and renames it to `final`.

    As a context manager, it removes uncommitted files. It drops a directory that fails, and raises an error if all
    directories fail.

    Raises:
        ImageRejectedError: there is no directory.
        ImageStorageError: no directory accepts the file.
    """

    def __init__(self, directories: Sequence[Path], temporary: str, final: str) -> None:
        if not directories:
            raise ImageRejectedError(
                f"there is no directory to store {final} in, expected at least one",
                hint="Check the storage directories of this side.",
            )
        self._final = final
        self._complete: list[Path] = []
        self._pool = BufferPool(_SLICE)
        self._slice = self._pool.take()
        # this starts threads, so the code that follows must not fail
        self._files = DigestingFileSet([directory / temporary for directory in directories])
        self._filled = 0
        self.size = 0

    def room(self, most: int = _SLICE) -> memoryview:
        """Return a buffer for the next 1 to `most` bytes; `took` appends them."""
        return self._slice[self._filled : self._filled + most]

    def took(self, count: int) -> None:
        """Append the first `count` bytes of `room` in every directory.

        Raises:
            ImageStorageError: no directory accepts the bytes.
        """
        self._filled += count
        self.size += count
        if self._filled == len(self._slice):
            self._flush()
            self._slice = self._pool.take()

    def commit(self, *, size: int, md5: str | None) -> ReceivedFile:
        """Check the length and the digest, then rename the file to its final name. If `md5` is None, do not check the
        digest.

        Raises:
            ImageRejectedError: length, digest or content is wrong.
            ImageStorageError: no directory could store the file.
        """
        if self.size != size:
            raise ImageRejectedError(
                f"{self._final} ended after {self.size} bytes, expected {size}", hint="Transfer it again."
            )
        self._flush()
        written = self._files.close()
        self._complete = list(written.paths)
        if md5 is not None and written.md5.hex() != md5.lower():
            raise ImageRejectedError(
                f"{self._final} arrived with MD5 {written.md5.hex()}, expected {md5.lower()}",
                hint="The file was damaged in transit or on the other side's disk. Check the original there, then "
                "retry.",
            )
        for path in self._complete:
            self._check(path)
        failures = [f"{failure.path}: {error_text(failure.error, failure.path)}" for failure in written.failures]
        placed = []
        for path in self._complete:
            try:
                placed.append(self._place(path, written.md5))
            except OSError as fault:
                failures.append(f"{path}: {error_text(fault, path)}")
        if not placed:
            raise ImageStorageError(
                f"{self._final} could not be stored anywhere: {'; '.join(failures)}",
                hint="Check the space and the permissions of the storage directories.",
            )
        return ReceivedFile(tuple(placed), written.md5.hex(), size, tuple(failures))

    def close(self) -> None:
        """Remove files that were not committed."""
        self._files.abort()
        for path in self._complete:
            path.unlink(missing_ok=True)

    def _flush(self) -> None:
        # the slice must not change while the writing threads use it
        self._files.write(self._slice[: self._filled].toreadonly())
        self._filled = 0

    def _check(self, path: Path) -> None:
        """Check a complete file before it is renamed; subclasses override this."""

    def _place(self, path: Path, md5: bytes) -> Path:
        target = path.with_name(self._final)
        rename_durably(path, target)
        return target


class ImageReceiver(FileReceiver):
    """Receiver of an fsimage as `fsimage.ckpt_[rollback_]TXID`, which it renames if the file is an image of this txid.

    Args:
        verified: whether to verify the whole image instead of only its identity.
    """

    def __init__(
        self, directories: Sequence[Path], txid: int, *, rollback: bool = False, verified: bool = False
    ) -> None:
        super().__init__(directories, checkpoint_name(txid, rollback), image_name(txid, rollback))
        self._txid = txid
        self._verified = verified

    def _check(self, path: Path) -> None:
        try:
            with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
                found = image.txid
        except UnsupportedCodecError as fault:
            # magic and summary are valid; the codec is needed only to load the image
            _LOG.warning("%s is stored unchecked: %s", self._final, fault)
            return
        except ImageFormatError as fault:
            problem = f"the data received for {self._final} is not an image: {fault}"
            raise ImageRejectedError(problem, hint=fault.hint) from fault
        if found != self._txid:
            raise ImageRejectedError(
                f"the image received for {self._final} is at txid {found}, expected {self._txid}",
                hint="Transfer it with its own txid.",
            )
        if self._verified and path == self._complete[0]:
            self._verify(path)

    def _verify(self, path: Path) -> None:
        """Verify one copy; all copies have the same digest."""
        findings = audit_image(path, Findings(1), None, outer=False).findings
        if not findings.valid:
            first = next(each for each in findings.listed if each.severity is Severity.ERROR)
            raise ImageRejectedError(
                f"the image received for {self._final} is inconsistent: {first}",
                hint="Verify it at its source (checkpointer image verify), and make another image.",
            )

    def _place(self, path: Path, md5: bytes) -> Path:
        target = path.with_name(self._final)
        place_image(path, target, md5)
        remember_digest(target, md5)
        return target
