"""Writes a segment from encoded operations: appends them durably in several directories, and finalizes the segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hadoop_common.durable import remove_durably
from hadoop_common.file_faults import FileFaultError
from hadoop_common.names import SegmentName
from journal.errors import JournalStorageError
from journal.segment_stream import SegmentStream


class RawSegmentWriter:
    """The segment that begins with `first_txid` and is in progress in each directory; not thread-safe.

    A directory that fails is dropped and reported, and its segment stays in progress. When no directory is left, the
    segment ends with its last durable transaction.

    Args:
        directories: existing directories that do not contain a segment in progress with this first txid.
        layout_version: layout version of the encoded records.
        on_directory_failure: called for every dropped directory.

    Raises:
        JournalStorageError: all directories failed.
        UnsupportedEditsLayoutError: the layout is unknown.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        first_txid: int,
        layout_version: int,
        *,
        on_directory_failure: Callable[[Path, OSError], None],
    ) -> None:
        self.first_txid = first_txid
        self.layout_version = layout_version
        self._last_txid = first_txid - 1
        self._on_directory_failure = on_directory_failure
        self._streams: list[SegmentStream] = []
        failure: FileFaultError | None = None
        for directory in directories:
            try:
                self._streams.append(SegmentStream.create(directory, first_txid, layout_version))
            except OSError as error:
                failure = FileFaultError(error, error.filename or directory, "cannot be written")
                on_directory_failure(directory, error)
        self._require_streams(failure)

    @property
    def last_txid(self) -> int:
        """Newest durable transaction; `first_txid - 1` while the segment is empty."""
        return self._last_txid

    @property
    def path(self) -> Path:
        """File in the first directory that has not failed."""
        return self._streams[0].path

    def append(self, records: bytes, last_txid: int) -> None:
        """Make `records`, the operations up to `last_txid`, durable.

        Raises:
            JournalStorageError: all directories failed; some may contain a part of the records.
        """
        self._on_each(lambda stream: stream.append(records))
        self._last_txid = last_txid

    def finish(self) -> SegmentName | None:
        """Close the segment and rename it to its final name, with the last durable txid; remove an empty segment.

        Return the name, or None if the segment was empty or no directory is left.

        Raises:
            JournalStorageError: all directories failed.
        """
        if not self._streams:
            return None
        if self._last_txid < self.first_txid:
            self._on_each(_remove)
            self._streams = []
            return None
        self._on_each(lambda stream: stream.finalize(self._last_txid))
        self._streams = []
        return SegmentName(self.first_txid, self._last_txid)

    def abandon(self) -> None:
        """Close the files, and leave them in progress; recovery finalizes them at the next start."""
        for stream in self._streams:
            stream.abort()
        self._streams = []

    def _on_each(self, action: Callable[[SegmentStream], object]) -> None:
        kept: list[SegmentStream] = []
        failure: FileFaultError | None = None
        for stream in self._streams:
            try:
                action(stream)
                kept.append(stream)
            except OSError as error:
                stream.abort()
                failure = FileFaultError(error, stream.path, "cannot be written")
                self._on_directory_failure(stream.directory, error)
        self._streams = kept
        self._require_streams(failure)

    def _require_streams(self, failure: FileFaultError | None) -> None:
        if not self._streams:
            reason = "none is configured" if failure is None else failure.message
            problem = f"no edits directory is left to write to: {reason}"
            raise JournalStorageError(problem, txid=self._last_txid) from failure


def _remove(stream: SegmentStream) -> None:
    stream.abort()
    remove_durably(stream.path)
