"""Storage directories with given operations, and the content of restored directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hadoop_common.names import image_name, segment_name
from journal.ops import EditOp, EndLogSegmentOp, StartLogSegmentOp
from journal.segment_output import write_ops
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder, Saved, numbered
from tests.engine.op_makers import add, close, mkdir

VERSION = (
    "#Sat Nov 28 04:00:00 UTC 2026\nnamespaceID=7\nclusterID=CID-1\ncTime=0\nstorageType=NAME_NODE\n"
    f"blockpoolID=BP-1\nlayoutVersion={HADOOP3}\n"
)
PREPARED = (mkdir("/d", 16386), mkdir("/d/sub", 16387), add("/d/sub/f", 16388), close("/d/sub/f"), mkdir("/e", 16389))
FOLLOWING = BASE_TXID + 1 + len(PREPARED) + 1
"""The transaction after `PREPARED` in the same segment."""


def storage(folder: Path, builder: ImageBuilder | None = None) -> Path:
    """Create a storage directory with an image of transaction `BASE_TXID`; return the directory."""
    current = folder / "current"
    (builder or ImageBuilder(HADOOP3)).save(current)
    (current / "VERSION").write_text(VERSION)
    (current / "seen_txid").write_text(f"{BASE_TXID}\n")
    return folder


def segment(directory: Path, after: int, *ops: EditOp, markers: bool = True, layout: int = HADOOP3) -> int:
    """Write a finalized segment after transaction `after`; return its last transaction."""
    whole: Sequence[EditOp] = [StartLogSegmentOp(txid=0), *ops, EndLogSegmentOp(txid=0)] if markers else list(ops)
    numbered(whole, after)
    path = directory / "current" / segment_name(after + 1, whole[-1].txid)
    write_ops(path, whole, layout)
    return whole[-1].txid


def saved(directory: Path, txid: int) -> Saved:
    """Return the image of a restored storage directory."""
    return Saved((directory / "current" / image_name(txid)).read_bytes())
