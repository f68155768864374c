"""ALLOCATE_BLOCK_ID, SET_GENSTAMP_V2 and the marks of segments as kernels.

`engine.replay.blocks` and `managers` have the plain twins. Arguments and results are those of `kernels.files`.
"""

from __future__ import annotations

from engine.replay.kernels.layouts import ALLOCATE_BLOCK_ID, SET_GENSTAMP_V2
from engine.replay.kernels.records import i64
from engine.replay.kernels.state import DONE, GENERATION_STAMP, HADOOP3, LAST_BLOCK_ID, UNUSUAL
from image_format.kernels.jit import step


@step
def allocate_block_id(a, buf, pos, end):
    """ALLOCATE_BLOCK_ID."""
    if pos + ALLOCATE_BLOCK_ID.end != end:
        return UNUSUAL
    block_id = i64(buf, pos)
    # 0 need not be what an image without the field says
    if block_id <= 0 or block_id < a[LAST_BLOCK_ID]:
        return UNUSUAL
    a[LAST_BLOCK_ID] = block_id
    return DONE


@step
def set_genstamp_v2(a, buf, pos, end):
    """SET_GENSTAMP_V2; Hadoop 3 learns the stamp from the block that it is for."""
    if pos + SET_GENSTAMP_V2.end != end:
        return UNUSUAL
    stamp = i64(buf, pos)
    if a[HADOOP3]:
        return DONE
    if stamp <= 0:
        return UNUSUAL
    a[GENERATION_STAMP] = stamp
    return DONE


@step
def segment_marker(a, buf, pos, end):
    """START_LOG_SEGMENT and END_LOG_SEGMENT, which have no fields."""
    return DONE if pos == end else UNUSUAL
