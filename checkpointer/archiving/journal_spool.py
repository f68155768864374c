"""Copies of a shared journal's edits as segment files for an archive.

JournalNodes or bookies store the journal. The spool reads its operations in order and splits them where the NameNode
did: before OP_START_LOG_SEGMENT and after OP_END_LOG_SEGMENT. The spool ignores the segment boundaries that the journal
reports, because the caches of JournalNodes do not record them.

Each update re-reads the journal from the last identifying operation of the copies, and compares the operations with
their copies. If the journal was set back, the spool copies the whole journal again. Therefore, a file never mixes
operations of two pasts.

The spool removes archived files, except the files that the next comparison needs to recognise the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from checkpointer.roles.standby.edit_source import EditSource
from engine.txn_runs import is_identifying
from hadoop_common.names import inprogress_name, segment_name
from journal.binary_codec import encode_op
from journal.errors import TransactionGapError
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_format import encode_header

# limits the operations after the last identifying operation in an idle cluster, which writes only START and END
# operations
_MAX_TAIL = 256


@dataclass(slots=True)
class _OpenFile:
    """The file that is being written; its first transaction is `first`."""

    first: int
    path: Path
    out: BinaryIO
    layout_version: int
    identifying: bool = False


class JournalSpool:
    """Copies of the journal's edits as segment files in `folder`, which must be empty at first; not thread-safe."""

    def __init__(self, source: EditSource, folder: Path) -> None:
        self._source = source
        self.folder = folder
        self._next: int | None = None
        self._open: _OpenFile | None = None
        # finalized files, and whether each has an identifying transaction
        self._finished: list[tuple[Path, bool]] = []
        # the last identifying operation, and the operations that follow
        self._tail: list[EditOp] = []

    @property
    def next_txid(self) -> int | None:
        """The first transaction that has not been copied yet; None before `begin`."""
        return self._next

    @property
    def finished_txid(self) -> int:
        """The last transaction of the last finished file, or -1 if there is none."""
        return int(self._finished[-1][0].name.rpartition("-")[2]) if self._finished else -1

    def begin(self, txid: int) -> None:
        """Remove all files, and continue with transaction `txid`."""
        self.close()
        for path in self.folder.iterdir():
            path.unlink()
        self._finished, self._tail = [], []
        self._next = txid

    def oldest(self) -> int:
        """Return the oldest transaction of the journal.

        Raises:
            HdfsError: the journal cannot be read.
        """
        try:
            self._source.view(0, in_progress=False)
        except TransactionGapError as gap:
            return gap.expected if gap.found is None else gap.found
        return 0

    def newest(self) -> int:
        """Return the newest finalized transaction, or -1 if there is none; raise the same errors as `oldest`."""
        self._source.update_finalized(0)
        return self._source.finalized_txid()

    def update(self, layout_version: int) -> None:
        """Copy the journal's new transactions, and skip transactions that the journal has purged.

        Args:
            layout_version: layout version of new files.

        Raises:
            HdfsError: the journal cannot be read.
            OSError: the folder cannot be written.
        """
        try:
            self._update(layout_version)
        except OSError:
            # the file may end with an incomplete operation
            self._next = None
            raise

    def _update(self, layout_version: int) -> None:
        if self._open is not None:
            # write out operations that were copied before the journal failed
            self._open.out.flush()
        if not self._has_news():
            return
        begin = self._tail[0].txid if self._tail else self._begin
        while True:
            try:
                view = self._source.view(begin, in_progress=True)
            except TransactionGapError as gap:
                if gap.found is None or gap.found <= begin:
                    raise
                begin = self._skip_to(gap.found)
                continue
            segments = (*view.segments, *([view.tail] if view.tail is not None else []))
            if not all(self._copy(each.read(begin), layout_version) for each in segments):
                begin = self.oldest()
                self.begin(begin)
                continue
            if not view.more or view.last_txid < begin:
                break
            begin = view.last_txid + 1
        if self._open is not None:
            self._open.out.flush()

    def _has_news(self) -> bool:
        """Return whether the journal may have new operations. If a comparison reads only one segment, return True
        without a query.
        """
        if not self._tail or (self._open is not None and self._open.first <= self._tail[0].txid):
            return True
        try:
            return self._source.view(self._begin, in_progress=True).last_txid >= self._begin
        except TransactionGapError:
            return True

    def _skip_to(self, txid: int) -> int:
        """Continue at the oldest transaction of a journal that has purged earlier transactions. Return the first
        transaction to read.
        """
        self._tail = [each for each in self._tail if each.txid >= txid]
        if self._tail:
            return txid
        if txid == self._begin and self._finished:
            # without a common operation, it is unknown whether the journal continues the copies
            self.begin(txid)
        self._finish()
        self._next = txid
        return txid

    def archived(self, txid: int) -> None:
        """Remove finished files with transactions up to `txid` that are not needed to recognise the history."""
        while len(self._finished) > 1 and any(identifying for _, identifying in self._finished[1:]):
            path, _ = self._finished[0]
            if int(path.name.rpartition("-")[2]) > txid:
                return
            path.unlink(missing_ok=True)
            del self._finished[0]

    def close(self) -> None:
        """Close the file that is being written."""
        if self._open is not None:
            self._open.out.close()
            self._open = None

    @property
    def _begin(self) -> int:
        assert self._next is not None
        return self._next

    def _copy(self, ops: Iterator[EditOp], layout_version: int) -> bool:
        """Append new operations; return False if an operation differs from its earlier copy."""
        for op in ops:
            if op.txid < self._begin:
                if op != self._tail[op.txid - self._tail[0].txid]:
                    return False
                continue
            if isinstance(op, StartLogSegmentOp):
                self._finish()
            if self._open is None:
                self._open = self._created(op.txid, layout_version)
            self._open.out.write(encode_op(op, self._open.layout_version))
            if is_identifying(op):
                self._open.identifying = True
                self._tail = []
            self._tail = [*self._tail[-_MAX_TAIL:], op]
            self._next = op.txid + 1
            if isinstance(op, EndLogSegmentOp):
                self._finish()
        return True

    def _created(self, txid: int, layout_version: int) -> _OpenFile:
        path = self.folder / inprogress_name(txid)
        out = path.open("wb")
        out.write(encode_header(layout_version))
        return _OpenFile(txid, path, out, layout_version)

    def _finish(self) -> None:
        """Close the file that is being written, and rename it as a finalized segment."""
        done, self._open = self._open, None
        if done is None:
            return
        done.out.close()
        path = done.path.rename(self.folder / segment_name(done.first, self._begin - 1))
        self._finished.append((path, done.identifying))
