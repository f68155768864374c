"""Collects decompressed bytes: small ones in memory, large ones in an unlinked, mapped temporary file."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from hadoop_common.file_faults import told
from image_format.errors import ImageStorageError

SPOOL_LIMIT = 64 * 1024 * 1024


class Spool:
    """Takes bytes until `finish`, which gives them back as one read-only array.

    Args:
        directory: for the temporary file; None is the system's default. The file has no name in it.
        limit: bytes kept in memory before the file is made.
    """

    def __init__(self, directory: Path | None = None, limit: int = SPOOL_LIMIT) -> None:
        self._directory = directory
        self._limit = limit
        self._memory = bytearray()
        self._file: BinaryIO | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        self._memory = bytearray()

    def write(self, chunk: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            ImageStorageError: the temporary file cannot be made or written.
        """
        try:
            if self._file is None and len(self._memory) + len(chunk) > self._limit:
                # closed by __exit__; the mapping made by `finish` outlives it
                self._file = cast(BinaryIO, tempfile.TemporaryFile(dir=self._directory))  # noqa: SIM115
                self._file.write(self._memory)
                self._memory = bytearray()
            if self._file is None:
                self._memory += chunk
            else:
                self._file.write(chunk)
        except OSError as error:
            raise self._failure(error) from error

    def finish(self) -> npt.NDArray[np.uint8]:
        """All bytes written; they stay valid as long as the array lives.

        Raises:
            ImageStorageError: the temporary file cannot be written or mapped.
        """
        if self._file is None:
            array = np.frombuffer(self._memory, np.uint8)
            array.flags.writeable = False
            self._memory = bytearray()
            return array
        try:
            self._file.flush()
            return np.frombuffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> ImageStorageError:
        where = self._directory or tempfile.gettempdir()
        hint = "Free space there or choose another spool directory."
        return ImageStorageError(f"cannot spool a decompressed section to {where}: {told(error)}", hint=hint)
