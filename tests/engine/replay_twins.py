"""Replays operations twice, one by one and with kernels from an encoded segment, and compares the results."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from pathlib import Path
from unittest import mock

from engine.loaded_image import load_image
from engine.replay import replay
from engine.replay.compiled import CompiledReplay
from engine.settings import ReplayRules
from hadoop_common.errors import HdfsError
from image_format.array_allocator import ArrayAllocator
from image_format.index_arrays import IndexArrays
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from journal.binary_codec import decode_op, encode_op
from journal.errors import JournalError
from journal.ops import OPERATIONS, CreateSnapshotOp, DeleteSnapshotOp, EditOp, RenameSnapshotOp
from journal.segment_file import SegmentTransactions
from journal.segment_format import SegmentCursor, encode_header
from tests.depth import deep


class EncodedOps(SegmentTransactions):
    """Operations in the bytes of one segment."""

    def __init__(self, segment: bytes, first_txid: int) -> None:
        super().__init__((), first_txid)
        self.octets = segment
        self._first = first_txid

    def cursors(self) -> Iterator[SegmentCursor]:
        yield SegmentCursor(self.octets, file="segment", first_txid=self._first)


def encoded(ops: Sequence[EditOp], layout_version: int) -> EncodedOps | None:
    """Return the operations as a segment; None if an edit log of this layout cannot contain them."""
    out = bytearray(encode_header(layout_version))
    if any(op.opcode not in OPERATIONS for op in ops):
        return None
    for op in ops:
        try:
            record = encode_op(op, layout_version)
            same = decode_op(record, 0, layout_version)[0] == as_held(op, layout_version)
        except JournalError:
            return None
        if not same:
            return None
        out += record
    return EncodedOps(bytes(out), ops[0].txid) if ops else None


def as_held(op: EditOp, layout_version: int) -> EditOp:
    """Return the operation without a snapshot's time if the layout lacks the field, because replay ignores the time."""
    if isinstance(op, CreateSnapshotOp | DeleteSnapshotOp | RenameSnapshotOp):
        (mtime,) = [field for field in op.fields if field.name == "mtime"]
        if not mtime.present_in(layout_version):
            op = copy(op)
            op.mtime = mtime.default
    return op


def check_twins(
    path: Path, ops: Sequence[EditOp], rules: ReplayRules | None, plainly: bytes | HdfsError, *, ignored: int = 0
) -> None:
    """Replay numbered operations with kernels, and compare the result with the image or the error of plain replay.

    All arrays are in files, as if they exceeded a memory limit. The check replays half of the segments `in_pieces`, and
    all segments in the deep tier.

    Args:
        ignored: number of operations without effect in plain replay.
    """
    with ImageFile.open(path) as image:
        segment = encoded(ops, image.layout_version)
    if segment is None:
        return
    chance = random.Random(zlib.crc32(segment.octets))
    ways = (False, True) if deep() else (chance.random() < 0.5,)
    for cut in ways:
        with in_pieces(chance) if cut else nullcontext():
            check_segment(path, segment, rules, plainly, ignored)


@contextmanager
def in_pieces(chance: random.Random) -> Iterator[None]:
    """Make kernels return after a few operations, and let Python apply some of the following operations."""
    run = CompiledReplay.run

    def run_in_pieces(self: CompiledReplay, cursor: SegmentCursor, limit: int, checked: int) -> int:
        done, plainly = 0, False
        while done < limit and not plainly:
            piece = min(chance.choice((1, 1, 2, 3, 5, 8)), limit - done)
            applied = run(self, cursor, piece, checked)
            done += applied
            plainly = applied < piece or chance.random() < 0.3
        return done

    with mock.patch.object(CompiledReplay, "run", run_in_pieces):
        yield


def check_segment(
    path: Path, segment: EncodedOps, rules: ReplayRules | None, plainly: bytes | HdfsError, ignored: int
) -> None:
    """Replay a segment with kernels, and compare the result with plain replay, as `check_twins` does."""
    with ImageFile.open(path) as image:
        loaded = load_image(image, rules, ArrayAllocator(0, smallest=0))
        out = bytearray()
        failure = None
        try:
            replay(loaded.namespace, segment)
            update = loaded.write(out.extend, codec="")
        except HdfsError as error:
            failure = error
    if failure is not None or isinstance(plainly, HdfsError):
        assert (type(failure), str(failure)) == (type(plainly), str(plainly))
        return
    assert loaded.namespace.ignored == ignored
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "compiled", Path(folder) / "plain"
        ours.write_bytes(out)
        theirs.write_bytes(plainly)
        with ImageFile.open(ours, verify_md5=False) as a, ImageFile.open(theirs, verify_md5=False) as b:
            found = [str(each) for each in ImageComparison(a, b).differences()]
            check_update(update(), IndexArrays.scan(a))
    assert found == []


def check_update(ours: IndexArrays | None, scanned: IndexArrays) -> None:
    """Check that the adapted index equals an index from a scan of the new image."""
    if ours is None:
        # allowed only if an inode with an id below the highest was added
        assert scanned.slots.size
        return
    for name in ("slots", "type_quota_ids", "directory_ids", "directory_offsets"):
        assert getattr(ours, name).tolist() == getattr(scanned, name).tolist(), name
    for name in ("ids", "offsets"):
        assert getattr(ours, name).all().tolist() == getattr(scanned, name).all().tolist(), name
