"""A journal of JSON files: one line per transaction, and one file per flushed buffer, named after its txids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from hadoop_common.durable import fsync_directory
from hadoop_common.path_status import is_directory
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from journal.binary_codec import check_layout, decode_op
from journal.errors import JournalError, JournalExistsError, SegmentError, TransactionGapError
from journal.journal import RecordBatch
from journal.journal_directory import WriterLock, check_same_namespace, journal_faults, remove_files
from journal.json_folder import JsonFolder, JsonManifest
from journal.json_reading import JsonSegment, read_records
from journal.json_segments import FileRun, JsonFile, group_files
from journal.operation import EditOp
from journal.segment_copies import SegmentCopies, chain_listed
from journal.segment_writer import JournalLifecycle, StoreWriter


class JsonJournal:
    """The JSON journal (`Journal`) in the directory `folder`.

    A directory without `journal.json` can be read; all its segments count as finalized. Readers do not need a lock. A
    writer holds in_use.lock from `recover` until `close`.

    Args:
        folder: directory of the journal; `format` creates it.
        lock: the lock of the directory, if the caller already holds it; `close` does not release this lock.
    """

    def __init__(self, folder: Path, *, lock: StorageLock | None = None) -> None:
        self.folder = folder.absolute()
        self._files = JsonFolder(self.folder)
        self._lock = WriterLock(self.folder, lock)
        self._lifecycle: JournalLifecycle[JsonManifest, StoreWriter[_BatchFiles]] = JournalLifecycle(str(self.folder))

    @property
    def location(self) -> str:
        return f"json://{quote(str(self.folder))}"

    def namespace(self) -> StorageInfo | None:
        """Return the namespace of the transactions; None if `journal.json` is missing.

        Raises:
            JournalError: the manifest cannot be read.
        """
        with journal_faults(self.folder, "cannot be read"):
            manifest = self._files.manifest()
        return None if manifest is None else manifest.namespace

    def is_formatted(self) -> bool:
        with journal_faults(self.folder, "cannot be read"):
            return is_directory(self.folder) and (self._files.manifest() is not None or bool(self._files.files()))

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Create an empty journal; `journal.json` is removed first and written last. Other files remain."""
        with self._lifecycle.lock, journal_faults(self.folder, "cannot be formatted"):
            self._lifecycle.refuse_while_writing()
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock.held_for_now():
                if not force and self.is_formatted():
                    raise JournalExistsError("a journal already exists", file=str(self.folder))
                self._files.remove_journal()
                self._files.write_manifest(JsonManifest(namespace))
            fsync_directory(self.folder.parent)
            self._lifecycle.recovered = None

    def recover(self, namespace: StorageInfo) -> None:
        """Recover as `Journal.recover` does, and check that the files of the segment in progress are complete."""
        with self._lifecycle.lock, journal_faults(self.folder, "cannot be recovered"):
            self._lifecycle.refuse_while_writing()
            self._lock.take()
            manifest = self._checked_manifest(namespace)
            self._files.remove_temporary()
            runs = group_files(self._files.files(), manifest.ends)
            ends = {end for end in manifest.ends if runs and end >= runs[0].first}
            if runs and runs[-1].in_progress:
                _check_whole(runs[-1], runs[-2].last if len(runs) > 1 else None)
                ends.add(runs[-1].last)
            self._lifecycle.recovered = self._written(replace(manifest, ends=frozenset(ends)), manifest)

    def start_segment(self, first_txid: int, layout_version: int) -> StoreWriter[_BatchFiles]:
        with self._lifecycle.lock, journal_faults(self.folder, f"cannot begin segment {first_txid}"):
            self._lifecycle.require_recovered(first_txid)
            check_layout(layout_version)
            for file in self._files.files():
                if file.last >= first_txid:
                    hint = "Move the file away only if its transactions are not needed."
                    problem = f"segment {first_txid} cannot begin: {file.path.name} exists"
                    raise SegmentError(problem, file=str(file.path), txid=first_txid, hint=hint)
            place = f"{self.folder}, segment {first_txid}"
            store = _BatchFiles(self._files, layout_version, place, self._record_end)
            return self._lifecycle.opened(StoreWriter(self._lifecycle, store, first_txid, place))

    def close(self) -> None:
        with self._lifecycle.lock:
            self._lifecycle.close()
            self._lock.release()

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        return chain_listed(lambda: self._listed(in_progress=in_progress), from_txid)

    def _listed(self, *, in_progress: bool) -> list[JsonSegment]:
        with journal_faults(self.folder, "cannot be listed"):
            writer = self._lifecycle.writer
            durable = None if writer is None else writer.last_txid
            files = [file for file in self._files.files() if durable is None or file.last <= durable]
            # The manifest is read after the files, so that it is not older than the files.
            manifest = self._files.manifest()
            # A directory without journal.json has no writer.
            ends = {max((file.last for file in files), default=0)} if manifest is None else manifest.ends
            runs = group_files(files, ends)
        layout = None if manifest is None else manifest.namespace.layout_version
        return [JsonSegment(run, layout) for run in runs if in_progress or not run.in_progress]

    def purge(self, min_txid_to_keep: int) -> None:
        """Purge as `Journal.purge` does; remove the oldest files first, so that a kill does not leave a gap."""
        with journal_faults(self.folder, "cannot be listed"):
            paths = [
                file.path
                for segment in self._listed(in_progress=False)
                if segment.last < min_txid_to_keep
                for file in segment.run.files
            ]
        remove_files(self.folder, paths, "files")

    def _record_end(self, file: JsonFile) -> None:
        with self._lifecycle.lock:
            manifest = self._lifecycle.recovered
            if manifest is not None and not file.closes:
                self._lifecycle.recovered = self._written(replace(manifest, ends=manifest.ends | {file.last}), manifest)

    def _written(self, manifest: JsonManifest, before: JsonManifest) -> JsonManifest:
        if manifest != before:
            self._files.write_manifest(manifest)
        return manifest

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


class _BatchFiles:
    """`SegmentStore` of a JSON journal: each batch becomes a file.

    Args:
        record_end: called with the last file of the finalized segment; raises OSError on failure.
    """

    allows_empty: ClassVar[bool] = True

    def __init__(
        self, files: JsonFolder, layout_version: int, place: str, record_end: Callable[[JsonFile], None]
    ) -> None:
        self._files = files
        self._layout_version = layout_version
        self._place = place
        self._record_end = record_end
        self._last: JsonFile | None = None

    def append(self, batch: RecordBatch) -> None:
        ops = _decoded(batch, self._layout_version, self._place)
        self._last = self._files.write_ops(ops, batch.first, batch.last, self._layout_version)

    def finalize(self, last_txid: int) -> None:
        if self._last is not None:
            self._record_end(self._last)

    def abort(self) -> None:
        self._last = None


def _check_whole(run: FileRun, before: int | None) -> None:
    """Read the segment in progress, which follows txid `before`.

    Raises:
        JournalError: the segment is damaged, or its beginning is missing.
    """
    if before is not None and run.first > before + 1 and not run.files[0].opens:
        raise TransactionGapError(before + 1, run.first, file=str(run.files[0].path))
    for file in run.files:
        for _ in read_records(file):
            pass


def _decoded(batch: RecordBatch, layout_version: int, place: str) -> Iterator[EditOp]:
    """Yield the operations of a batch; check that they have the txids of the batch.

    Raises:
        TransactionGapError, SegmentError: the operations have other txids.
        CorruptOpError: an operation cannot be decoded.
    """
    position = 0
    expected = batch.first
    while position < len(batch.records):
        op, position = decode_op(batch.records, position, layout_version, file=place)
        if op.txid != expected:
            raise TransactionGapError(expected, op.txid, file=place)
        yield op
        expected += 1
    if expected != batch.last + 1:
        raise SegmentError(f"a batch up to txid {batch.last} ends with {expected - 1}", file=place, txid=batch.first)
