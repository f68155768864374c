"""Kernel that replays a segment as far as it can.

The kernel applies an operation only if its frame is complete, its transaction id is the next id and its checksum is
correct. When the operation's kernel returns `DONE`, the last transaction id and the position advance. Between two
operations, the state therefore always belongs to a transaction id. A run ends with the position and state before the
operation that ended it:

    `UNUSUAL`  the plain function must apply it, or the segment ends or is damaged; the plain decoder reports damage.
    `PAUSE`    the operation is applied, but Python must complete it before the next operation.
    `AGAIN`    an array is full. The caller grows it and calls again; the operation is retried from its start.
    `DAMAGED`  a deletion found damaged bytes in the base image. The namespace must be discarded.

An operation is never skipped and never applied twice: a kernel validates an operation completely before it modifies any
state. After `UNUSUAL` and `AGAIN` the state is unchanged, except that rows may have been read from the base image.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from engine.replay.kernels.ahead import look_ahead
from engine.replay.kernels.frames import BODY, CHECKSUM, TXID, checksum_fits, frame_end
from engine.replay.kernels.records import i64
from engine.replay.kernels.state import AGAIN, DONE, PAUSE, UNUSUAL
from engine.replay.table import TABLE
from image_format.kernels.jit import Kernel, kernel, step


def _dispatch() -> Kernel:
    """Generate a step that calls the kernel that the table declares for an opcode.

    Compiled code cannot look up kernels, so the step is generated as source text, which the compiler turns into a
    switch.
    """
    names: dict[str, Any] = {"__name__": __name__, "UNUSUAL": UNUSUAL}
    lines = ["def dispatch(state, buf, opcode, pos, end):"]
    for row in TABLE:
        if row.kernel:
            module, _, name = row.kernel.partition(".")
            names[f"{module}_{name}"] = getattr(import_module(f"engine.replay.kernels.{module}"), name)
            lines += [f"    if opcode == {row.opcode}:", f"        return {module}_{name}(state, buf, pos, end)"]
    lines.append("    return UNUSUAL")
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return step(names["dispatch"])


_apply = _dispatch()


@kernel
def run(states, buf, pos, limit, last_txid, checked):
    """Replay the plain operations of a segment, starting at `pos`.

    Args:
        states: the state (see `kernels.state`); buf: the segment.
        limit: maximum number of operations; last_txid: the last transaction to apply.
        checked: position before which all checksums were verified.

    Returns:
        (position of the first operation that was not applied, number of operations applied, `DONE` or the reason).
        The reason is `UNUSUAL` for an operation that is damaged, out of order or of an unknown kind, and for the end of
        the segment. If only a table of names is full, the reason is `AGAIN`.
    """
    state = states[0]
    count = 0
    status = np.int64(DONE)
    while count < limit and state.last_txid < last_txid:
        end = frame_end(buf, pos)
        if end < 0:
            status = np.int64(UNUSUAL)
            break
        txid = i64(buf, pos + TXID)
        if txid != state.last_txid + 1 or not (end < checked or checksum_fits(buf, pos, end)):
            status = np.int64(UNUSUAL)
            break
        look_ahead(state, buf, pos)
        status = np.int64(_apply(state, buf, np.int64(buf[pos]), pos + BODY, end))
        if status < DONE:
            break
        state.last_txid = txid
        count += 1
        pos = end + CHECKSUM
        if status == PAUSE:
            break
        if state.named_wanted > 0:
            status = np.int64(AGAIN)
            break
    return pos, count, status
