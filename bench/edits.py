"""Writes edits that follow a generated image, in several mixes; the same seed produces the same bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from bench.changes import attribute_operations, delete_operations, snapshot_operations
from bench.edit_state import EditState
from bench.image import BaseImage
from bench.jobs import job_operations
from bench.snapshots import choose_directories
from hadoop_common.names import segment_name
from image_format.layout import NEWEST_LAYOUT
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
_REPORTED = 1 << 12

Progress = Callable[[int], None]


def write_edits(
    base: BaseImage,
    transactions: int,
    mix: str,
    *,
    seed: int = 2,
    segment: int = _SEGMENT,
    progress: Progress | None = None,
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
    return write_segments(base.path, base.txid, _operations(base, mix, seed), transactions, segment, progress)


def write_segments(
    image: Path,
    image_txid: int,
    operations: Iterator[ops.EditOp],
    transactions: int,
    segment: int,
    progress: Progress | None = None,
) -> list[Path]:
    """Write `operations` to finalized segments next to an image; see `write_edits` for the arguments."""
    paths: list[Path] = []
    done, end = image_txid, image_txid + transactions
    while done < end:
        # a segment must not consist of one transaction
        last = end if end - done <= segment + 1 else done + segment
        paths.append(image.with_name(segment_name(done + 1, last)))
        with paths[-1].open("wb") as out:
            out.write(encode_header(NEWEST_LAYOUT) + encode_op(ops.StartLogSegmentOp(txid=done + 1), NEWEST_LAYOUT))
            for txid in range(done + 2, last):
                op = next(operations)
                op.txid = txid
                out.write(encode_op(op, NEWEST_LAYOUT))
                if progress is not None and txid % _REPORTED == 0:
                    progress(txid - image_txid)
            out.write(encode_op(ops.EndLogSegmentOp(txid=last), NEWEST_LAYOUT))
        if progress is not None:
            progress(last - image_txid)
        done = last
    return paths


def _operations(base: BaseImage, mix: str, seed: int) -> Iterator[ops.EditOp]:
    state = EditState(base, seed)
    directories = base.snapshottable or choose_directories(base.tree) or (1,)
    steps = (
        job_operations(state),
        delete_operations(state),
        attribute_operations(state),
        snapshot_operations(state, directories),
    )
    shares = list(accumulate(MIXES[mix]))
    while True:
        yield from next(steps[bisect_right(shares, state.random.randrange(100))])
