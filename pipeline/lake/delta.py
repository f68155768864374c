"""A Delta table of the lake. The library `deltalake` makes the commits, without Java. This module adds the file list,
typed errors, and durable commits on local disks.

    LAKE/TABLE/cluster=C/txid=N/part-….parquet        a table of an image: inodes, directories, snapshots, …
    LAKE/edits/cluster=C/day=YYYY-MM-DD/part-….parquet   transactions
    LAKE/images/part-….parquet                        a row for each complete image

Readers see a commit whole or not at all. A commit names its application transaction. If two concurrent commits have the
same name, one commit fails, so content never appears twice. A killed append leaves files that no commit names;
vacuuming removes them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from hadoop_common.durable import fsync_directory, fsync_file
from hadoop_common.file_faults import FULL_DISK_HINT
from pipeline import source_files
from pipeline.errors import LakeConflictError, LakeError
from pipeline.source_files import is_local

if TYPE_CHECKING:
    import pyarrow.fs

LOG = "_delta_log"
_REPLACEMENT = "replacement"
_RETAINED_HOURS = 168
_DECODED = re.compile(r"%[0-9A-Fa-f]{2}|\\")
"""Parts of local paths that `deltalake` replaces: it decodes `%20`, and reads a backslash as a slash."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""A control sequence of terminals, which the messages of `deltalake` contain."""
_STATISTICS = ("num_records", "min.txid", "max.txid")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A Parquet file of a table.

    Attributes:
        path: path relative to the table.
        partition: values of the partition columns.
        txids: smallest and largest value of the `txid` column; None if the table does not have this column.
        added: time of the commit, in ms since 1970; 0 before the commit.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str]
    txids: tuple[int, int] | None = None
    added: int = 0

    def action(self, *, data_change: bool = True) -> AddAction:
        """Return the action that adds the file; `data_change` is False for rows that were already in the table."""
        statistics: dict[str, Any] = {"numRecords": self.rows}
        if self.txids is not None:
            first, last = self.txids
            statistics |= {"minValues": {"txid": first}, "maxValues": {"txid": last}, "nullCount": {"txid": 0}}
        now = time.time_ns() // 1_000_000
        return AddAction(self.path, self.size, dict(self.partition), now, data_change, json.dumps(statistics))


class LakeTable:
    """A table of the lake at `root`; the table may be missing until `create` is called. Every method raises LakeError
    if the storage fails.

    Args:
        root: a local path or a URI of a file system that `deltalake` supports, such as hdfs:// and s3://.
        schema: all columns, including the partition columns.
    """

    def __init__(self, root: str, name: str, schema: pa.Schema, partitions: Sequence[str]) -> None:
        self.name = name
        self.uri = f"{local_path(root) or root.rstrip('/')}/{name}"
        if _DECODED.search(local_path(root)):
            raise LakeError(
                f"{root} cannot contain a lake, because the `deltalake` library reads its percent sign or backslash as "
                "another path",
                hint="Specify a directory without these characters.",
            )
        self.schema = schema
        self._partitions = list(partitions)
        self._table: DeltaTable | None = None
        self.reload()

    def reload(self) -> None:
        """Read the newest version."""
        with lake_errors(self.uri):
            try:
                self._table = DeltaTable(self.uri)
            except TableNotFoundError:
                self._table = None
                return
            features = self._table.protocol().reader_features
        if features:
            raise LakeError(
                f"{self.uri} uses features of Delta that plain Parquet readers ignore: {', '.join(features)}",
                hint="Another program changed the table: append to a new lake.",
            )

    def create(self) -> bool:
        """Create and read the table if it is missing; return whether it was missing.

        Another process may create the table, and append to it, before this process reads it. The method refuses a
        directory with other files, because `vacuum` would delete these files.
        """
        if self._table is not None:
            return False
        if foreign := self._foreign():
            raise LakeError(
                f"{self.uri} is not a table of a lake, but contains {foreign[0]}",
                hint="Specify a directory for the lake that no other program uses.",
            )
        with lake_errors(self.uri):
            try:
                DeltaTable.create(self.uri, self.schema, mode="ignore", partition_by=self._partitions or None)
            except CommitFailedError:
                # another process created the table at the same time, or the storage failed
                if not is_delta_table(self.uri):
                    raise
        self.reload()
        return True

    def files(self) -> list[LakeFile]:
        """Return the files of the version that was read; an empty list for a missing table."""
        if self._table is None:
            return []
        with lake_errors(self.uri):
            rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [self._file(row) for row in rows]

    def _file(self, row: Mapping[str, Any]) -> LakeFile:
        count, first, last = (row.get(name) for name in _STATISTICS)
        values = {name: str(row[f"partition.{name}"]) for name in self._partitions}
        rows, added = -1 if count is None else count, row["modification_time"]
        return LakeFile(row["path"], row["size_bytes"], rows, values, _pair(first, last), added)

    def read(self, columns: Sequence[str], files: Sequence[LakeFile] | None = None) -> pa.Table:
        """Return columns of the given files (default: all files); partition columns are not available."""
        chosen = self.files() if files is None else files
        fields = pa.schema([self.schema.field(name) for name in columns])
        with lake_errors(self.uri):
            parts = [self._read(file, columns) for file in chosen]
        return pa.concat_tables([fields.empty_table(), *(part.cast(fields) for part in parts)])

    def _read(self, file: LakeFile, columns: Sequence[str]) -> pa.Table:
        import pyarrow.parquet as pq

        return pq.ParquetFile(file_system(self.uri).open_input_file(file.path)).read(list(columns))

    def batches(self, file: LakeFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, without the partition columns."""
        import pyarrow.parquet as pq

        with lake_errors(self.uri):
            yield from pq.ParquetFile(file_system(self.uri).open_input_file(file.path)).iter_batches()

    def uris(self, files: Sequence[LakeFile]) -> list[str]:
        """Return the URIs of files for Spark."""
        return [f"{self.spark_uri()}/{file.path}" for file in files]

    def spark_uri(self) -> str:
        """Return the URI of the table for Spark, unquoted because Hadoop's Path does not decode URIs."""
        return f"file://{self.uri}" if is_local(self.uri) else self.uri

    # ---- changes -------------------------------------------------------------------------------------------------

    def commit(self, files: Sequence[LakeFile], transaction: str, version: int) -> None:
        """Add files that are already written to the version that was read; then read the new version.

        Args:
            transaction: name of the application transaction; `version` is its number.

        Raises:
            LakeConflictError: another process changed the table after that version, usually with the same application
                transaction.
        """
        self._commit([file.action() for file in files], transaction, version)

    def replace(self, old: Sequence[LakeFile], new: Sequence[LakeFile]) -> None:
        """Replace files in one commit.

        All replacements in a table share one application transaction. Without this transaction, as in the compaction of
        `deltalake`, two concurrent compactions of the same files would both succeed and duplicate the rows.

        Raises:
            LakeConflictError: another process replaced files after the version that was read.
        """
        now = time.time_ns() // 1_000_000
        same_rows = sum(file.rows for file in old) == sum(file.rows for file in new)
        removed = [RemoveAction(each.path, not same_rows, now, each.size, dict(each.partition)) for each in old]
        self._commit([*removed, *(file.action(data_change=not same_rows) for file in new)], _REPLACEMENT, now)

    def _commit(self, actions: list[AddAction | RemoveAction], transaction: str, version: int) -> None:
        assert self._table is not None, self.uri
        base = self._table.version()
        properties = CommitProperties(app_transactions=[Transaction(transaction, version)])
        with lake_errors(self.uri):
            try:
                self._table.create_write_transaction(
                    actions, "append", self.schema, self._partitions or None, commit_properties=properties
                )
            except CommitFailedError as error:
                raise self._failure(error, base) from None
            self.reload()
            self._flush_log()

    def _failure(self, error: CommitFailedError, base: int) -> LakeError:
        """Return the error of a commit on version `base`: a conflict only if `base` is no longer the newest version."""
        if DeltaTable(self.uri).version() == base:
            hint = "If another program changed the table, append to a new lake; otherwise repeat the command."
            return LakeError(f"{self.uri} cannot be changed: {error}", hint=hint)
        return LakeConflictError(
            f"another process changed {self.uri} at the same time: {error}", hint="Repeat the command."
        )

    def _flush_log(self) -> None:
        """Make the newest commit durable on a local disk."""
        if is_local(self.uri) and self._table is not None:
            log = Path(self.uri) / LOG
            commit = log / f"{self._table.version():020d}.json"
            if commit.exists():
                fsync_file(commit)
            fsync_directory(log)

    def vacuum(self, hours: int | None = None) -> int:
        """Delete files that no version of the last `hours` (default: 168) refers to; return their number.

        With fewer hours, uncommitted files remain, because a running append may commit them. They also remain if the
        directory contains files of another program, because the method cannot distinguish the two kinds.
        """
        if self._table is None:
            return 0
        with lake_errors(self.uri):
            full = (hours is None or hours >= _RETAINED_HOURS) and not self._foreign()
            removed = self._table.vacuum(hours, dry_run=False, enforce_retention_duration=hours is None, full=full)
        return len(removed)

    def _foreign(self) -> list[str]:
        """Return the names of other programs' files in the table's directory, except hidden files."""
        from pyarrow.fs import FileSelector

        if (path := local_path(self.uri)) and not Path(path).exists():
            return []
        own = f"{self._partitions[0]}=" if self._partitions else "part-"
        with lake_errors(self.uri):
            found = file_system(self.uri).get_file_info(FileSelector("", allow_not_found=True))
        return sorted(each.base_name for each in found if not each.base_name.startswith((own, ".", "_")))


def _pair(first: int | None, last: int | None) -> tuple[int, int] | None:
    return None if first is None or last is None else (first, last)


def local_path(root: str) -> str:
    """Return the path of a local lake, or "" for another file system."""
    return str(source_files.local_path(root).absolute()) if is_local(root) else ""


def file_system(uri: str) -> pyarrow.fs.FileSystem:
    """Return a file system whose paths are relative to a table."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(uri))


def is_delta_table(uri: str) -> bool:
    """Return whether a Delta table exists at `uri`; False for a file system that `deltalake` does not support."""
    if path := local_path(uri):
        return (Path(path) / LOG).is_dir()
    try:
        return bool(DeltaTable.is_deltatable(uri))
    except (DeltaError, OSError, ValueError):
        return False


@contextmanager
def lake_errors(where: str) -> Iterator[None]:
    """Raise failures of the library and of the storage as LakeError."""
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        reason = " ".join(_COLOUR.sub("", str(error)).split())
        hint = "Check the path, its permissions, and the settings of its file system (for hdfs:// HADOOP_CONF_DIR)."
        if os.strerror(errno.ENOSPC) in reason:
            hint = FULL_DISK_HINT
        raise LakeError(f"{where}: {reason}", hint=hint) from error
