"""The segment a command was given: its operations by what its name promises."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.names import SegmentName, parse_segment
from journal.primitives import Buffer
from journal.segment import SegmentCursor

__all__ = ["segment_ops"]


def segment_ops(path: Path, content: Buffer) -> SegmentCursor:
    """All operations; what the name promises is checked, an in-progress segment is read to its last good one."""
    name = parse_segment(path.name) or SegmentName(0, None)
    return SegmentCursor(content, file=str(path), last_txid=name.last, in_progress=name.in_progress)
