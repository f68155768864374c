"""The open segment of a JSON journal: each batch becomes a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_common.file_faults import told
from journal.binary_codec import decode_op
from journal.errors import JournalError, JournalStorageError, SegmentError, TransactionGapError
from journal.journal import RecordBatch
from journal.json_folder import JsonFolder
from journal.json_segments import JsonFile
from journal.operation import EditOp


class JsonSegmentWriter:
    """`SegmentWriter` of a JSON journal; the first batch creates the segment's first file.

    Args:
        ended: called at the end, with the last file (None if the segment is empty or stays in progress) and whether it
        is
            complete. Raises OSError if the end cannot be recorded.

    Attributes:
        last_txid: newest durable transaction; `first_txid - 1` while the segment is empty.
    """

    def __init__(
        self, files: JsonFolder, first_txid: int, layout_version: int, ended: Callable[[JsonFile | None, bool], None]
    ) -> None:
        self._files = files
        self._layout_version = layout_version
        self._ended = ended
        self._open = True
        self._last_file: JsonFile | None = None
        self.first_txid = first_txid
        self.last_txid = first_txid - 1

    def append(self, batch: RecordBatch) -> None:
        self._check_open(batch.first)
        if batch.first != self.last_txid + 1:
            raise TransactionGapError(self.last_txid + 1, batch.first, file=self._place)
        with self._failing("cannot be written", batch.first):
            ops = _decoded(batch, self._layout_version, self._place)
            self._last_file = self._files.write_ops(ops, batch.first, batch.last, self._layout_version)
        self.last_txid = batch.last

    def finalize(self, last_txid: int) -> None:
        self._check_open(last_txid)
        if last_txid != self.last_txid:
            problem = f"the segment cannot end with txid {last_txid}: its last txid is {self.last_txid}"
            raise SegmentError(problem, file=self._place, txid=last_txid)
        with self._failing("cannot be finalized", last_txid):
            self._ended(self._last_file, True)
        self._open = False

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._ended(None, False)

    @property
    def _place(self) -> str:
        return f"{self._files.path}, segment {self.first_txid}"

    def _check_open(self, txid: int) -> None:
        if not self._open:
            hint = "Recover the journal, then begin another segment."
            raise JournalError("the segment was abandoned", file=self._place, txid=txid, hint=hint)

    @contextmanager
    def _failing(self, what: str, txid: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abort()
            raise JournalStorageError(f"the segment {what}: {told(error)}", file=self._place, txid=txid) from error
        except BaseException:
            self.abort()
            raise


def _decoded(batch: RecordBatch, layout_version: int, place: str) -> Iterator[EditOp]:
    """Yield the operations of a batch, checked against its txids.

    Raises:
        TransactionGapError, SegmentError: the batch has other operations.
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
