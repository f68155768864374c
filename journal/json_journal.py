"""A journal of JSON files: one line per transaction, one file per flushed buffer, named by its first and last txid."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from hadoop_common.durable import fsync_directory
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from journal.binary_codec import check_layout
from journal.errors import JournalError, JournalExistsError, JournalInUseError, SegmentError, TransactionGapError
from journal.journal_directory import WriterLock, check_same_namespace, journal_faults, remove_files
from journal.json_folder import JsonFolder
from journal.json_manifest import JsonManifest
from journal.json_reading import JsonSegment, read_records
from journal.json_segments import FileRun, JsonFile, group_files
from journal.json_writer import JsonSegmentWriter
from journal.segment_copies import SegmentCopies, chain_segments, count_transactions


class JsonJournal:
    """The JSON journal in directory `folder` (`Journal`).

    A directory without `journal.json` can be read; all its segments count as finalized. Readers need no lock. A writer
    holds in_use.lock from `recover` until `close`.

    Args:
        folder: `format` creates it.
        lock: the lock of the directory, if the caller holds it already; the caller keeps it.
    """

    def __init__(self, folder: Path, *, lock: StorageLock | None = None) -> None:
        self.folder = folder.absolute()
        self._files = JsonFolder(self.folder)
        self._lock = WriterLock(self.folder, lock)
        self._guard = threading.RLock()
        self._recovered: JsonManifest | None = None
        self._writer: JsonSegmentWriter | None = None

    @property
    def location(self) -> str:
        return f"json://{quote(str(self.folder))}"

    def namespace(self) -> StorageInfo | None:
        """Return the namespace of the transactions; None without `journal.json`.

        Raises:
            JournalError: it cannot be read.
        """
        with self._failing("cannot be read"):
            manifest = self._files.manifest()
        return None if manifest is None else manifest.namespace

    def is_formatted(self) -> bool:
        with self._failing("cannot be read"):
            return self.folder.is_dir() and (self._files.manifest() is not None or bool(self._files.files()))

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Create an empty journal; `journal.json` is removed first and written last. Other files remain."""
        with self._guard, self._failing("cannot be formatted"):
            self._refuse_while_writing()
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock.held_for_now():
                if not force and self.is_formatted():
                    raise JournalExistsError("a journal exists already", file=str(self.folder))
                self._files.remove_journal()
                self._files.write_manifest(JsonManifest(namespace))
            fsync_directory(self.folder.parent)
            self._recovered = None

    def recover(self, namespace: StorageInfo) -> None:
        """Create an empty journal; `journal.json` is removed first and written last. Other files remain."""
        with self._guard, self._failing("cannot be recovered"):
            self._refuse_while_writing()
            self._lock.take()
            manifest = self._checked_manifest(namespace)
            self._files.remove_temporary()
            runs = group_files(self._files.files(), manifest.ends)
            ends = {end for end in manifest.ends if runs and end >= runs[0].first}
            if runs and runs[-1].in_progress:
                _check_whole(runs[-1], runs[-2].last if len(runs) > 1 else None)
                ends.add(runs[-1].last)
            self._recovered = self._written(replace(manifest, ends=frozenset(ends)), manifest)

    def start_segment(self, first_txid: int, layout_version: int) -> JsonSegmentWriter:
        with self._guard, self._failing(f"cannot begin segment {first_txid}"):
            self._refuse_while_writing()
            if self._recovered is None:
                hint = "Call recover first; it keeps all synced transactions."
                raise JournalError("the journal was not recovered", file=str(self.folder), txid=first_txid, hint=hint)
            check_layout(layout_version)
            for file in self._files.files():
                if file.last >= first_txid:
                    hint = "Move the file away only if its transactions are not needed."
                    problem = f"segment {first_txid} cannot begin: {file.path.name} exists"
                    raise SegmentError(problem, file=str(file.path), txid=first_txid, hint=hint)
            self._writer = JsonSegmentWriter(self._files, first_txid, layout_version, self._ended)
            return self._writer

    def close(self) -> None:
        with self._guard:
            if self._writer is not None:
                self._writer.abort()
            self._recovered = None
            self._lock.release()

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        try:
            return chain_segments(self._listed(in_progress=in_progress), from_txid)
        except TransactionGapError:
            # A concurrent rename may hide a file from a listing.
            return chain_segments(self._listed(in_progress=in_progress), from_txid)

    def count(self, from_txid: int, *, in_progress: bool = False) -> int:
        return count_transactions(self.segments(from_txid, in_progress=in_progress), from_txid)

    def _listed(self, *, in_progress: bool) -> list[JsonSegment]:
        with self._failing("cannot be listed"):
            writer = self._writer
            durable = None if writer is None else writer.last_txid
            files = [file for file in self._files.files() if durable is None or file.last <= durable]
            # Read after the files, so that it is not older than they are.
            manifest = self._files.manifest()
            # A directory without journal.json has no writer.
            ends = {max((file.last for file in files), default=0)} if manifest is None else manifest.ends
            runs = group_files(files, ends)
        layout = None if manifest is None else manifest.namespace.layout_version
        return [JsonSegment(run, layout) for run in runs if in_progress or not run.in_progress]

    def purge(self, min_txid_to_keep: int) -> None:
        """Purge as `Journal.purge`; the oldest file goes first, so that a kill leaves no gap."""
        with self._failing("cannot be listed"):
            paths = [
                file.path
                for segment in self._listed(in_progress=False)
                if segment.last < min_txid_to_keep
                for file in segment.run.files
            ]
        remove_files(self.folder, paths, "files")

    def _ended(self, file: JsonFile | None, whole: bool) -> None:
        with self._guard:
            self._writer = None
            manifest, self._recovered = self._recovered, None
            if not whole or manifest is None:
                return
            new = manifest
            if file is not None and not file.closes:
                new = replace(manifest, ends=manifest.ends | {file.last})
            self._recovered = self._written(new, manifest)

    def _written(self, manifest: JsonManifest, before: JsonManifest) -> JsonManifest:
        if manifest != before:
            self._files.write_manifest(manifest)
        return manifest

    def _refuse_while_writing(self) -> None:
        if self._writer is not None:
            first = self._writer.first_txid
            raise JournalInUseError(f"segment {first} is being written", file=str(self.folder), txid=first)

    def _checked_manifest(self, namespace: StorageInfo) -> JsonManifest:
        manifest = self._files.manifest()
        if manifest is None:
            hint = (
                "Convert its transactions into a new journal with `checkpointer edits convert`. Format a directory "
                "only if it is empty."
            )
            raise JournalError(
                "the journal is not formatted: journal.json is missing", file=str(self.folder), hint=hint
            )
        check_same_namespace(namespace, manifest.namespace, self.folder)
        return manifest

    def _failing(self, what: str) -> AbstractContextManager[None]:
        return journal_faults(self.folder, what)


def _check_whole(run: FileRun, before: int | None) -> None:
    """Read the segment in progress, which follows txid `before`.

    Raises:
        JournalError: it is damaged, or its beginning is missing.
    """
    if before is not None and run.first > before + 1 and not run.files[0].opens:
        raise TransactionGapError(before + 1, run.first, file=str(run.files[0].path))
    for file in run.files:
        for _ in read_records(file):
            pass
