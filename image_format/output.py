"""Writes one stream to several files in parallel, with its MD5: the I/O behind `ImageWriter`."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.file_faults import error_text, hint_for
from image_format.codecs import Buffer
from image_format.direct_file import DirectFile
from image_format.errors import ImageStorageError

_SLICE = 1024 * 1024
_QUEUED_SLICES = 6
_HINT = "Free space on the failing disks, or replace them, and try again."


@dataclass(frozen=True, slots=True)
class FileFailure:
    path: Path
    error: Exception


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Result of `DigestingFileSet.close`: digest (16 bytes), size in bytes, complete files and failures."""

    md5: bytes
    size: int
    paths: tuple[Path, ...]
    failures: tuple[FileFailure, ...]


class DigestingFileSet:
    """Sink of `ImageWriter` with one writing thread for each file, and another thread that computes the MD5.

    A failed file is removed; the stream continues while at least one file remains. Existing files are overwritten. The
    context manager aborts unless `close` was called.

    Raises:
        ImageStorageError: no file could be created.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise ValueError("no file to write")
        self._size = 0
        self._done = False
        self._digest = _DigestWorker()
        self._files = [_FileWorker(path) for path in paths]
        self._workers: list[_Worker] = [self._digest, *self._files]
        for worker in self._workers:
            worker.start()
        self._check_alive()

    def __enter__(self) -> DigestingFileSet:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()

    def __call__(self, buffer: Buffer) -> None:
        self.write(buffer)

    @property
    def failures(self) -> tuple[FileFailure, ...]:
        """The files that failed so far."""
        return tuple(FileFailure(f.path, f.error) for f in self._files if f.error is not None)

    def write(self, buffer: Buffer) -> None:
        """Queue bytes for all files; a read-only buffer is not copied and must not change until `close`.

        Raises:
            ImageStorageError: all files have failed.
        """
        if self._done:
            raise ValueError("the files are closed")
        view = memoryview(buffer)
        for start in range(0, len(view), _SLICE):
            part = view[start : start + _SLICE]
            # The caller may reuse a writable buffer.
            queued = part if part.readonly else memoryview(bytes(part))
            for worker in self._workers:
                worker.put(queued)
        self._size += view.nbytes
        self._check_alive()

    def close(self, confirm: Callable[[], object] | None = None) -> WrittenFiles:
        """Write the queued bytes, fsync and close every file.

        Args:
            confirm: called when all bytes are digested, while files are synced, unless all files failed; an exception
                aborts.

        Raises:
            ImageStorageError: all files failed and were removed.
            Exception: raised by `confirm`; the files were removed.
        """
        self._end()
        if confirm is not None:
            try:
                self._digest.join()
                # If all disks failed, their error is raised instead.
                if len(self.failures) < len(self._files):
                    confirm()
            except BaseException:
                self._give_up()
                raise
        self._join()
        self._check_alive()
        if self._digest.error is not None:
            self._remove_all()
            raise self._digest.error
        complete = tuple(worker.path for worker in self._files if worker.error is None)
        return WrittenFiles(self._digest.digest(), self._size, complete, self.failures)

    def abort(self) -> None:
        """Stop and remove all files; do nothing after `close`.

        Raises:
            ImageStorageError: a file cannot be removed.
        """
        if not self._done:
            self._end()
            self._give_up()

    def _give_up(self) -> None:
        for worker in self._workers:
            worker.abandon()
        self._join()
        self._remove_all()

    def _end(self) -> None:
        if self._done:
            raise ValueError("the files are closed")
        self._done = True
        for worker in self._workers:
            worker.end()

    def _join(self) -> None:
        for worker in self._workers:
            worker.join()

    def _remove_all(self) -> None:
        whole = [worker for worker in self._files if worker.error is None]
        for worker in whole:
            worker.guard(worker.remove)
        if left := [worker for worker in whole if worker.error is not None]:
            reasons = "; ".join(f"{worker.path}: {error_text(worker.error)}" for worker in left)
            raise ImageStorageError(f"unfinished files could not be removed: {reasons}", hint=_HINT)

    def _check_alive(self) -> None:
        failures = self.failures
        if len(failures) < len(self._files):
            return
        if not self._done:
            self._end()
            self._join()
        reasons = "; ".join(f"{failure.path}: {error_text(failure.error, failure.path)}" for failure in failures)
        hint = hint_for(failures[0].error, _HINT)
        raise ImageStorageError(f"the file could not be written in any directory: {reasons}", hint=hint)


class _Worker(threading.Thread):
    """Consumer of slices from a bounded queue; after an error, it only empties the queue, so that `put` never hangs."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.error: Exception | None = None
        self._queue: queue.Queue[memoryview | None] = queue.Queue(_QUEUED_SLICES)
        self._abandoned = False

    def put(self, part: memoryview) -> None:
        if self.error is None:
            self._queue.put(part)

    def end(self) -> None:
        """Record that no more slices follow."""
        self._queue.put(None)

    def abandon(self) -> None:
        """Discard the queued slices."""
        self._abandoned = True

    def run(self) -> None:
        while (part := self._queue.get()) is not None:
            if not self._abandoned:
                self.guard(self.take, part)
        self.guard(self.complete)

    def guard(self, step: Callable[..., None], *arguments: memoryview) -> None:
        """Run a step unless an earlier step failed; store its exception in `error`."""
        if self.error is None:
            try:
                step(*arguments)
            except Exception as error:
                self.error = error
                self.failed(error)

    def take(self, part: memoryview) -> None:
        raise NotImplementedError

    def complete(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


class _DigestWorker(_Worker):
    """Worker that computes the MD5 of the stream."""

    def __init__(self) -> None:
        super().__init__("image-md5")
        self._md5 = hashlib.md5(usedforsecurity=False)

    def take(self, part: memoryview) -> None:
        self._md5.update(part)

    def digest(self) -> bytes:
        return self._md5.digest()


class _FileWorker(_Worker):
    def __init__(self, path: Path) -> None:
        super().__init__(f"image-write-{path}")
        self.path = path
        self._file: DirectFile | None = None
        self.guard(self.create)

    def create(self) -> None:
        self._file = DirectFile(self.path)

    def take(self, part: memoryview) -> None:
        assert self._file is not None
        self._file.write(part)

    def complete(self) -> None:
        assert self._file is not None
        if not self._abandoned:
            self._file.sync()
        self._close()

    def failed(self, error: Exception) -> None:
        try:
            self.remove()
            self._close()
        except OSError as second:
            error.add_note(f"and it could not be removed: {second}")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
