"""Reads the files of a JSON journal, and checks that each file contains exactly the transactions in its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from hadoop_common.file_faults import error_text
from journal.binary_codec import check_layout
from journal.errors import EditsTextError, JournalStorageError, SegmentError, TransactionGapError
from journal.json_records import JsonRecord, decode_record
from journal.json_segments import FileRun, JsonFile
from journal.operation import EditOp

_MAX_LINE = 1 << 30


@dataclass(frozen=True, slots=True)
class JsonSegment:
    """A segment at the time of its listing (`ReadableSegment`).

    Attributes:
        default_layout: layout version of files that do not name one; None if it is unknown.
    """

    run: FileRun
    default_layout: int | None

    @property
    def first(self) -> int:
        return self.run.first

    @property
    def last(self) -> int:
        return self.run.last

    @property
    def in_progress(self) -> bool:
        return self.run.in_progress

    @property
    def name(self) -> str:
        first, *others = self.run.files
        return f"{first.path} .. {others[-1].path.name}" if others else str(first.path)

    @property
    def layout_version(self) -> int | None:
        """The layout version of the transactions; None if it is unknown. Raises the same errors as `read`."""
        record = next(read_records(self.run.files[0]))
        return self.default_layout if record.layout_version is None else record.layout_version

    def read(self, from_txid: int) -> Iterator[EditOp]:
        for file in self.run.files:
            if file.last >= from_txid:
                yield from (record.op for record in read_records(file) if record.op.txid >= from_txid)


def read_records(file: JsonFile) -> Iterator[JsonRecord]:
    """Yield the transactions of `file`; check that the txids match the file's name.

    Raises:
        EditsTextError: a line is not a transaction; the error names file, line and txid.
        TransactionGapError: a transaction is missing, or out of order.
        SegmentError: the file ends before its last transaction, or continues after it.
        UnsupportedEditsLayoutError: the layout version of the file is unknown.
        JournalStorageError: the file cannot be read.
    """
    path = file.path
    expected = file.first
    try:
        with path.open("rb") as source:
            for number, line in _lines(source, path, expected):
                place = f"{path}, line {number}"
                record = _record(line, path, number, expected)
                if record.op.txid != expected:
                    raise TransactionGapError(expected, record.op.txid, file=place)
                if expected > file.last:
                    raise SegmentError(f"the file continues after txid {file.last}", file=place, txid=expected)
                if record.layout_version is not None:
                    _check_layout(record.layout_version, place, is_first=expected == file.first)
                yield record
                expected += 1
    except OSError as error:
        raise JournalStorageError(
            f"the file cannot be read: {error_text(error, path)}", file=str(path), txid=expected
        ) from error
    if expected <= file.last:
        problem = f"the file ends before txid {expected}; according to its name, it ends with txid {file.last}"
        raise SegmentError(problem, file=str(path), txid=expected)


def _lines(source: BufferedReader, path: Path, txid: int) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of each line that is not blank."""
    number = 0
    while line := source.readline(_MAX_LINE + 1):
        number += 1
        if len(line) > _MAX_LINE:
            raise EditsTextError("the line is longer than any transaction", file=str(path), line=number, txid=txid)
        if line.strip():
            yield number, line


def _record(line: bytes, path: Path, number: int, expected: int) -> JsonRecord:
    try:
        return decode_record(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise EditsTextError(f"not UTF-8: {error}", file=str(path), line=number, txid=expected) from None
    except EditsTextError as error:
        raise error.in_file(str(path), line=number, txid=expected) from None


def _check_layout(layout_version: int, place: str, *, is_first: bool) -> None:
    if not is_first:
        problem = "a later transaction names a layout version; only the first transaction of a file may name one"
        raise SegmentError(problem, file=place)
    check_layout(layout_version, file=place)
