"""The open segment in one directory: creates its file, appends to the file durably, and finalizes the file.

The segment is in progress, then finalized or abandoned. After a crash, the directory contains either the finalized file
or `edits_inprogress_FIRST`. This file has all operations up to the last sync, and perhaps a part of later operations.
The two files never exist together, because a rename turns one into the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EEXIST
from io import FileIO
from pathlib import Path

from hadoop_common.durable import fsync_directory, rename_durably
from hadoop_common.names import inprogress_name, segment_name
from hadoop_common.path_status import exists
from journal.segment_format import encode_header


class SegmentStream:
    """The file `edits_inprogress_FIRST` in one directory."""

    def __init__(self, directory: Path, first_txid: int, file: FileIO) -> None:
        self.directory = directory
        self.first_txid = first_txid
        self._file = file

    @property
    def path(self) -> Path:
        return self.directory / inprogress_name(self.first_txid)

    @classmethod
    def create(cls, directory: Path, first_txid: int, layout_version: int) -> SegmentStream:
        """Create the file with its header; both are durable.

        Raises:
            OSError: the file already exists, or cannot be written; a created file is removed.
        """
        header = encode_header(layout_version)
        path = directory / inprogress_name(first_txid)
        stream = cls(directory, first_txid, FileIO(path, "xb"))
        try:
            stream.append(header)
            fsync_directory(directory)
        except OSError:
            stream.abort()
            path.unlink(missing_ok=True)
            raise
        return stream

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write `data` at the end and sync the file.

        Raises:
            OSError: a part of the data may have been written.
        """
        with memoryview(data) as rest:
            written = 0
            while written < len(rest):
                written += self._file.write(rest[written:]) or 0
        os.fsync(self._file.fileno())

    def finalize(self, last_txid: int) -> Path:
        """Close the file and durably rename it to its final name.

        Raises:
            OSError: closing or renaming failed, or a segment of the final name exists; that segment is unchanged.
        """
        self._file.close()
        target = self.directory / segment_name(self.first_txid, last_txid)
        if exists(target):
            raise FileExistsError(EEXIST, "a finalized segment of this name exists", str(target))
        rename_durably(self.path, target)
        return target

    def abort(self) -> None:
        """Close the file in its current state; ignore errors, because another error is already being reported."""
        with suppress(OSError):
            self._file.close()
