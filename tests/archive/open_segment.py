"""A segment that a NameNode is writing, and its archived operations."""

from __future__ import annotations

from pathlib import Path

from archive.adding import FoundFiles, find_files
from archive.archive import Archive
from archive.fetching import fetch_segment
from archive.moments import chain, view_of
from hadoop_common.names import inprogress_name, segment_name
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_file import read_ops
from journal.segment_output import write_ops
from tests.engine.image_builder import BASE_TXID, HADOOP3, numbered
from tests.engine.op_makers import mkdir

FIRST = BASE_TXID + 1


class Writer:
    """A NameNode's open segment: `write` appends operations, and `finish` finalizes the segment."""

    def __init__(self, directory: Path, after: int = BASE_TXID) -> None:
        self.current = directory / "current"
        self.after = after
        self.ops: list[EditOp] = [StartLogSegmentOp(txid=0)]
        self._write()

    @property
    def path(self) -> Path:
        return self.current / inprogress_name(self.after + 1)

    @property
    def last(self) -> int:
        return self.after + len(self.ops)

    def write(self, *ops: EditOp) -> int:
        self.ops += ops
        self._write()
        return self.last

    def finish(self) -> int:
        self.write(EndLogSegmentOp(txid=0))
        content = self.path.read_bytes().rstrip(b"\xff")
        (self.current / segment_name(self.after + 1, self.last)).write_bytes(content)
        self.path.unlink()
        return self.last

    def _write(self) -> None:
        numbered(self.ops, self.after)
        whole = self.current / "whole"
        write_ops(whole, self.ops, HADOOP3)
        # the same file grows in place; preallocated bytes follow its operations
        with self.path.open("rb+" if self.path.exists() else "wb") as out:
            out.write(whole.read_bytes() + b"\xff" * 4096)
        whole.unlink()


def found(nn: Path) -> FoundFiles:
    return find_files(nn, in_progress=True)


def parts(archive: Archive) -> list[tuple[int, int, bool]]:
    return [(each.first, each.last, each.finalized) for each in archive.catalogue().edits]


def op_of(txid: int) -> EditOp:
    return mkdir(f"/d{txid}", 16385 + txid)


def ops_of(archive: Archive, branch: str, folder: Path) -> list[EditOp]:
    """Return the archived operations of a branch."""
    view = view_of(archive.catalogue(), branch)
    pieces, gap = chain(view.pieces, FIRST, view.last_txid)
    assert gap is None
    return [op for each in pieces for op in read_ops(fetch_segment(archive, each.record, folder, each.last))]
