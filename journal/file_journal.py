"""A journal in one storage directory with the layout of a NameNode (FileJournalManager)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from hadoop_common.durable import fsync_directory, remove_durably, write_atomically
from hadoop_common.names import SEEN_TXID, VERSION, parse_image, parse_segment
from hadoop_common.path_status import exists, is_directory
from hadoop_common.seen_txid import read_seen_txid
from hadoop_common.storage_info import JOURNAL_NODE, NAME_NODE, StorageInfo, format_version, read_version
from hadoop_common.storage_lock import StorageLock
from journal.errors import JournalError, JournalExistsError, SegmentError
from journal.file_segments import FileSegment, FolderView
from journal.journal import RecordBatch
from journal.journal_directory import WriterLock, check_same_namespace, journal_faults, remove_files
from journal.recovery import recover_in_progress
from journal.segment_copies import SegmentCopies, chain_listed
from journal.segment_file import list_segments
from journal.segment_stream import SegmentStream
from journal.segment_writer import JournalLifecycle, StoreWriter

# Files that a recovery, a failover or a rollback has moved aside (FileJournalManager, EditLogFile.moveAside…).
_ASIDE = re.compile(r"edits_(?:inprogress_)?([0-9]{1,19})(?:-[0-9]{1,19})?\.(?:empty|corrupt|stale|trash)")


class FileJournal:
    """The journal in the `current` folder of a storage directory (`Journal`).

    Readers do not need a lock. A writer holds the storage directory's in_use.lock from `recover` until `close`. The
    lock excludes other processes and other objects of this process as writers.

    Args:
        folder: `<storage directory>/current`; `format` creates it.
        lock: the lock of the storage directory, if the caller already holds it; `close` does not release this lock.
    """

    def __init__(self, folder: Path, *, lock: StorageLock | None = None) -> None:
        self.folder = folder.absolute()
        self._lock = WriterLock(self.folder.parent, lock)
        self._lifecycle: JournalLifecycle[StorageInfo, StoreWriter[_SegmentFile]] = JournalLifecycle(str(self.folder))
        self._view = FolderView(self.folder, self._written_here)

    @property
    def location(self) -> str:
        return self.folder.parent.as_uri()

    def is_formatted(self) -> bool:
        with journal_faults(self.folder, "cannot be read"):
            return is_directory(self.folder) and any(_is_of_a_journal(path.name) for path in self.folder.iterdir())

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Create an empty journal; VERSION is removed first and written last.

        Images in the folder stay. If the folder contains images, seen_txid also stays, because it shows which
        transaction the edits must reach.
        """
        with self._lifecycle.lock, journal_faults(self.folder, "cannot be formatted"):
            self._lifecycle.refuse_while_writing()
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock.held_for_now():
                if not force and self.is_formatted():
                    raise JournalExistsError("a journal already exists", file=str(self.folder))
                self._clear()
                if not (self.holds_images() and exists(self.folder / SEEN_TXID)):
                    write_atomically(self.folder / SEEN_TXID, b"0\n")
                write_atomically(self.folder / VERSION, format_version(namespace, datetime.now(UTC)))
            fsync_directory(self.folder.parent)
            self._lifecycle.recovered = None

    def holds_images(self) -> bool:
        """Return whether the folder also contains images."""
        with journal_faults(self.folder, "cannot be read"):
            return is_directory(self.folder) and any(
                parse_image(path.name) is not None for path in self.folder.iterdir()
            )

    def raise_seen_txid(self, txid: int) -> None:
        """Record that the journal must reach `txid`; otherwise, a NameNode does not start from this directory."""
        path = self.folder / SEEN_TXID
        with self._lifecycle.lock, journal_faults(self.folder, "cannot be written"):
            if not exists(path) or read_seen_txid(path) < txid:
                write_atomically(path, b"%d\n" % txid)

    def recover(self, namespace: StorageInfo) -> None:
        with self._lifecycle.lock, journal_faults(self.folder, "cannot be recovered"):
            self._lifecycle.refuse_while_writing()
            self._lock.take()
            self._check_namespace(namespace)
            recover_in_progress(self.folder)
            self._lifecycle.recovered = namespace

    def start_segment(self, first_txid: int, layout_version: int) -> StoreWriter[_SegmentFile]:
        with self._lifecycle.lock, journal_faults(self.folder, f"cannot begin segment {first_txid}"):
            self._lifecycle.require_recovered(first_txid)
            self._check_follows(first_txid)
            stream = SegmentStream.create(self.folder, first_txid, layout_version)
            writer = StoreWriter(self._lifecycle, _SegmentFile(stream), first_txid, str(stream.path))
            return self._lifecycle.opened(writer)

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        return chain_listed(lambda: self.files(in_progress=in_progress), from_txid)

    def files(self, *, in_progress: bool = False) -> list[FileSegment]:
        """Return all segment files, including copies of a segment and files after a gap.

        Raises:
            JournalError: the files cannot be listed.
        """
        with journal_faults(self.folder, "cannot be listed"):
            return self._view.segments(in_progress=in_progress)

    def purge(self, min_txid_to_keep: int) -> None:
        with journal_faults(self.folder, "cannot be listed"):
            # The oldest segments are removed first, so that a kill leaves no gap.
            paths = sorted(path for path in self.folder.iterdir() if _ends_before(path.name, min_txid_to_keep))
        remove_files(self.folder, paths, "segments")

    def close(self) -> None:
        with self._lifecycle.lock:
            self._lifecycle.close()
            self._lock.release()

    def _written_here(self, first_txid: int) -> int | None:
        writer = self._lifecycle.writer
        return writer.last_txid if writer is not None and writer.first_txid == first_txid else None

    def _check_follows(self, first_txid: int) -> None:
        for segment in list_segments(self.folder):
            if segment.last is None or segment.last >= first_txid:
                reach = "" if segment.last is None else f" and reaches txid {segment.last}"
                raise SegmentError(
                    f"segment {first_txid} cannot begin: {segment.path.name} exists{reach}",
                    file=str(segment.path),
                    txid=first_txid,
                    hint="Recover the journal. Move the file away only if its transactions are not needed.",
                )

    def _check_namespace(self, namespace: StorageInfo) -> None:
        path = self.folder / VERSION
        # This raises an error if the folder is missing, because its disk might not be mounted.
        if not any(each.name == VERSION for each in self.folder.iterdir()):
            hint = "Copy VERSION from another directory of the same NameNode. Format a directory only if it is empty."
            raise JournalError("the journal is not formatted: VERSION is missing", file=str(self.folder), hint=hint)
        found = read_version(path, of=(JOURNAL_NODE, NAME_NODE))
        check_same_namespace(namespace, found, path)

    def _clear(self) -> None:
        """Delete all edits; VERSION is deleted first, so that a kill does not leave a formatted journal."""
        remove_durably(self.folder / VERSION)
        for path in list(self.folder.iterdir()):
            if parse_segment(path.name) is not None or _ASIDE.fullmatch(path.name):
                path.unlink(missing_ok=True)


class _SegmentFile:
    """`edits_inprogress_FIRST` of a journal (`SegmentStore`)."""

    allows_empty: ClassVar[bool] = True

    def __init__(self, stream: SegmentStream) -> None:
        self._stream = stream

    def append(self, batch: RecordBatch) -> None:
        self._stream.append(batch.records)

    def finalize(self, last_txid: int) -> None:
        self._stream.finalize(last_txid)

    def abort(self) -> None:
        self._stream.abort()


def _is_of_a_journal(name: str) -> bool:
    return name == VERSION or parse_segment(name) is not None


def _ends_before(name: str, txid: int) -> bool:
    """Return whether all transactions of a segment file, which may have been moved aside, are older than `txid`."""
    segment = parse_segment(name)
    if segment is not None:
        return segment.last is not None and segment.last < txid
    aside = _ASIDE.fullmatch(name)
    return aside is not None and int(aside[1]) < txid
