"""Writes edits that follow a generated image, in several mixes; the same seed produces the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.image import BaseImage
from bench.kernels.changes import MOST_MADE, ROOT_FIELDS, fill
from bench.kernels.jobs import SLOT_FIELDS, SLOTS, WRITER_FIELDS, WRITERS
from bench.kernels.names import PATH_ROOM
from bench.kernels.operations import BLOCK, INODE, NOW, SEED, STAMP, STICKY, TXID, EditState
from bench.kernels.records import CLOCK
from bench.sections import LAYOUT
from bench.snapshots import choose_directories
from hadoop_common.names import segment_name
from journal import ops
from journal.binary_codec import encode_op
from journal.segment_format import encode_header

MIXES = {
    "jobs": (100, 0, 0, 0),
    "deletes": (0, 100, 0, 0),
    "attributes": (0, 0, 100, 0),
    "snapshots": (0, 0, 0, 100),
    "mixed": (70, 8, 17, 5),
}
"""Percentages of job operations, deletions, attribute changes, and snapshots with changes below them."""
_SEGMENT = 1_000_000
_OUT = 8 << 20


def write_edits(
    base: BaseImage,
    transactions: int,
    mix: str,
    *,
    seed: int = 2,
    segment: int = _SEGMENT,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write finalized segments next to an image; `transactions` includes the markers at both ends of the segments.

    Args:
        mix: one of MIXES.
        segment: limit on the transactions of a segment.
        progress: called with the number of transactions written.

    Raises:
        ValueError: fewer than two transactions, or an unknown mix.
    """
    if transactions < 2 or mix not in MIXES:
        raise ValueError(f"{transactions} transactions of {mix!r}: at least 2, of {', '.join(MIXES)}, are required")
    state = _start(base, seed)
    shares = np.cumsum(MIXES[mix])
    room = np.empty(PATH_ROOM, np.uint8), np.empty(PATH_ROOM, np.uint8), np.empty(_OUT, np.uint8)
    paths: list[Path] = []
    end = base.txid + transactions
    while (done := int(state.numbers[TXID])) < end:
        # a segment must not consist of one transaction
        last = end if end - done <= segment + 1 else done + segment
        paths.append(base.path.with_name(segment_name(done + 1, last)))
        with paths[-1].open("wb") as out:
            for chunk in _segment(base, state, shares, last, room):
                out.write(chunk)
                if progress is not None:
                    progress(int(state.numbers[TXID]) - base.txid)
    return paths


def _segment(
    base: BaseImage, state: EditState, shares: npt.NDArray[np.int64], last: int, room: tuple[npt.NDArray[np.uint8], ...]
) -> Iterator[bytes | memoryview]:
    numbers = state.numbers
    numbers[TXID] += 1
    yield encode_header(LAYOUT) + encode_op(ops.StartLogSegmentOp(txid=int(numbers[TXID])), LAYOUT)
    while numbers[TXID] < last - 1:
        size = fill(base.tree.arrays, state, shares, last - 1, *room)
        yield room[-1].data[:size]
    numbers[TXID] += 1
    yield encode_op(ops.EndLogSegmentOp(txid=last), LAYOUT)


def _start(base: BaseImage, seed: int) -> EditState:
    """Return the state at the end of the image, with a bit for each inode and a byte for each directory."""
    tree = base.tree
    numbers = np.zeros(16, np.int64)
    numbers[[TXID, INODE, BLOCK, STAMP]] = base.txid, base.last_inode, base.last_block, base.last_genstamp
    numbers[[NOW, STICKY, SEED]] = CLOCK + 1_000_000, -1, seed
    chosen = base.snapshottable or choose_directories(tree) or (1,)
    roots = np.zeros((len(chosen), ROOT_FIELDS), np.int64)
    roots[:, 0] = chosen
    return EditState(
        numbers=numbers,
        gone=np.zeros(tree.inodes // 8 + 1, np.uint8),
        dead=np.zeros(tree.directories, np.uint8),
        slots=np.zeros((SLOTS, SLOT_FIELDS), np.int64),
        writers=np.zeros((SLOTS, WRITERS, WRITER_FIELDS), np.int64),
        outputs=np.zeros((SLOTS + 1, PATH_ROOM), np.uint8),
        made=np.zeros((MOST_MADE, 2), np.int64),
        roots=roots,
        levels=tree.levels,
    )
