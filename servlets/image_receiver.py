"""A file that arrives in pieces is written to every directory at once and gets its name when it is whole."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hadoop_common.durable import rename_durably
from hadoop_common.file_faults import told
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

# what comes is handed to the writing threads in slices of so many bytes: each hand-over costs a switch
_SLICE = 1 << 20


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file in place: one path a directory that took it, its digest (hexadecimal), and what failed."""

    paths: tuple[Path, ...]
    md5: str
    size: int
    failures: tuple[str, ...]


class FileReceiver:
    """Writes to `temporary` in each directory; `commit` makes it durable and renames it to `final`.

    A context manager: unless it was committed, its end removes what was written. A directory that fails is
    left out, all of them failing is an error.

    Raises:
        ImageRejectedError: there is no directory.
        ImageStorageError: no directory takes the file.
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
        # it starts threads, so nothing here may fail after it
        self._files = DigestingFileSet([directory / temporary for directory in directories])
        self._filled = 0
        self.size = 0

    def room(self, most: int = _SLICE) -> memoryview:
        """Where to receive the next bytes, 1 to `most` of them; `took` appends them."""
        return self._slice[self._filled : self._filled + most]

    def took(self, count: int) -> None:
        """Append the first `count` bytes of `room` everywhere.

        Raises:
            ImageStorageError: no directory takes them.
        """
        self._filled += count
        self.size += count
        if self._filled == len(self._slice):
            self._flush()
            self._slice = self._pool.take()

    def write(self, chunk: bytes) -> None:
        """Append `chunk` everywhere.

        Raises:
            ImageStorageError: no directory takes it.
        """
        rest = memoryview(chunk)
        while rest:
            room = self.room(len(rest))
            room[:] = rest[: len(room)]
            self.took(len(room))
            rest = rest[len(room) :]

    def commit(self, *, size: int, md5: str | None) -> ReceivedFile:
        """Check length and digest, then put the file in place; `md5` None skips the digest check.

        Raises:
            ImageRejectedError: length, digest or content is wrong.
            ImageStorageError: no directory could store it.
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
                hint="It was damaged on the way or on the other side's disk; check it there, then retry.",
            )
        for path in self._complete:
            self._check(path)
        failures = [f"{failure.path}: {told(failure.error, failure.path)}" for failure in written.failures]
        placed = []
        for path in self._complete:
            try:
                placed.append(self._place(path, written.md5))
            except OSError as fault:
                failures.append(f"{path}: {told(fault, path)}")
        if not placed:
            raise ImageStorageError(
                f"{self._final} could not be stored anywhere: {'; '.join(failures)}",
                hint="Check the space and the permissions of the storage directories.",
            )
        return ReceivedFile(tuple(placed), written.md5.hex(), size, tuple(failures))

    def close(self) -> None:
        """Remove what was written and did not get its name."""
        self._files.abort()
        for path in self._complete:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flush(self) -> None:
        # the writing threads keep the slice for a while, and it must not change under them
        self._files.write(self._slice[: self._filled].toreadonly())
        self._filled = 0

    def _check(self, path: Path) -> None:
        """Look into a complete file before it gets its name; for kinds of files that can be checked."""

    def _place(self, path: Path, md5: bytes) -> Path:
        target = path.with_name(self._final)
        rename_durably(path, target)
        return target


class ImageReceiver(FileReceiver):
    """Receives an fsimage as `fsimage.ckpt_[rollback_]TXID`; it is named when it reads as an image of that txid.

    Args:
        verified: whether all of it has to be consistent, not only what says which image it is.
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
            # magic and summary were right; who loads the image needs the codec, who stores it does not
            _LOG.warning("%s is stored unchecked: %s", self._final, fault)
            return
        except ImageFormatError as fault:
            said = f"what arrived for {self._final} is not an image: {fault}"
            raise ImageRejectedError(said, hint=fault.hint) from fault
        if found != self._txid:
            raise ImageRejectedError(
                f"the image that arrived for {self._final} is of txid {found}, expected {self._txid}",
                hint="Transfer it under its own txid.",
            )
        if self._verified and path == self._complete[0]:
            self._verify(path)

    def _verify(self, path: Path) -> None:
        """The copies have one digest, so that one of them stands for all."""
        findings = audit_image(path, Findings(1), None, outer=False).findings
        if not findings.valid:
            first = next(each for each in findings.listed if each.severity is Severity.ERROR)
            raise ImageRejectedError(
                f"what arrived for {self._final} is no consistent image: {first}",
                hint="Verify it where it comes from (checkpointer image verify), and make another.",
            )

    def _place(self, path: Path, md5: bytes) -> Path:
        target = path.with_name(self._final)
        place_image(path, target, md5)
        remember_digest(target, md5)
        return target
