"""ALLOCATE_BLOCK_ID, SET_GENSTAMP_V2, START_LOG_SEGMENT and END_LOG_SEGMENT as kernels.

`engine.replay.blocks` and `managers` contain the plain twins. Arguments and results are the same as in `kernels.files`.
"""

from __future__ import annotations

from engine.replay.kernels.layouts import ALLOCATE_BLOCK_ID, SET_GENSTAMP_V2
from engine.replay.kernels.records import i64
from engine.replay.kernels.state import DONE, UNUSUAL
from image_format.kernels.jit import step


@step
def allocate_block_id(state, buf, pos, end):
    """Apply ALLOCATE_BLOCK_ID."""
    if pos + ALLOCATE_BLOCK_ID.end != end:
        return UNUSUAL
    block_id = i64(buf, pos)
    # Python writes the field only if its value changes, and 0 is also the value of a missing field
    if block_id <= 0 or block_id < state.last_block_id:
        return UNUSUAL
    state.last_block_id = block_id
    return DONE


@step
def set_genstamp_v2(state, buf, pos, end):
    """Apply SET_GENSTAMP_V2; Hadoop 3 uses the blocks' stamps instead."""
    if pos + SET_GENSTAMP_V2.end != end:
        return UNUSUAL
    stamp = i64(buf, pos)
    if state.hadoop3:
        return DONE
    if stamp <= 0:
        return UNUSUAL
    state.generation_stamp = stamp
    return DONE


@step
def segment_marker(state, buf, pos, end):
    """Apply START_LOG_SEGMENT and END_LOG_SEGMENT, which have no fields."""
    return DONE if pos == end else UNUSUAL
