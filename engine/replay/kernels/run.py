"""The kernel that replays a segment as far as it can.

For each operation: its frame is whole, its txid is the next one, its checksum is right, its kernel says `DONE`. Only
then do `LAST_TXID` and the position move; so between two operations the state is always that of a txid. What ends the
run leaves position and state before the operation that ended it:

    `UNUSUAL`  the plain function has to look at it, or the segment ends, or is damaged: the plain decoder tells.
    `PAUSE`    it was applied all the same, once Python has done its part.
    `AGAIN`    an array is full. The caller makes it larger and calls again; the operation is tried from its start.
    `DAMAGED`  a deletion, half done, found bytes of the base image that are no entry. The namespace is of no use.

An operation is never skipped and never applied twice: a kernel decides all it needs before it changes anything, so
`UNUSUAL` and `AGAIN` mean that nothing happened but that rows were read from the base image.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from engine.replay.kernels.ahead import look_ahead
from engine.replay.kernels.frames import BODY, CHECKSUM, TXID, checksum_fits, frame_end
from engine.replay.kernels.records import i64
from engine.replay.kernels.state import AGAIN, DONE, LAST_TXID, NAMED_WANTED, PAUSE, UNUSUAL
from engine.replay.table import TABLE
from image_format.kernels.jit import Kernel, kernel, step


def _dispatch() -> Kernel:
    """A step that gives an operation to the kernel that the table has for its opcode.

    It is made as text, for compiled code cannot call what it looks up: the compiler makes a switch of it.
    """
    names: dict[str, Any] = {"__name__": __name__, "UNUSUAL": UNUSUAL}
    lines = ["def dispatch(a, buf, opcode, pos, end):"]
    for row in TABLE:
        if row.kernel:
            module, _, name = row.kernel.partition(".")
            names[f"{module}_{name}"] = getattr(import_module(f"engine.replay.kernels.{module}"), name)
            lines += [f"    if opcode == {row.opcode}:", f"        return {module}_{name}(a, buf, pos, end)"]
    lines.append("    return UNUSUAL")
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return step(names["dispatch"])


_apply = _dispatch()


@kernel
def run(a, buf, pos, limit, last_txid, checked):
    """Replay the operations of a segment that are plain, from the one at `pos` on.

    Args:
        a: the state, see `kernels.state`; buf: the segment.
        limit: how many operations at most; last_txid: behind which it stops.
        checked: operations before it have the right checksum.

    Returns:
        (position of the first operation that was not applied, how many were, `DONE` or why it stopped). An operation
        that is damaged, out of order or of an unknown kind is `UNUSUAL`, as is the end of the segment; it is `AGAIN`
        also where only a table of names lacks room.
    """
    count = 0
    status = np.int64(DONE)
    while count < limit and a[LAST_TXID] < last_txid:
        end = frame_end(buf, pos)
        if end < 0:
            status = np.int64(UNUSUAL)
            break
        txid = i64(buf, pos + TXID)
        if txid != a[LAST_TXID] + 1 or not (end < checked or checksum_fits(buf, pos, end)):
            status = np.int64(UNUSUAL)
            break
        look_ahead(a, buf, pos)
        status = np.int64(_apply(a, buf, np.int64(buf[pos]), pos + BODY, end))
        if status < DONE:
            break
        a[LAST_TXID] = txid
        count += 1
        pos = end + CHECKSUM
        if status == PAUSE:
            break
        if a[NAMED_WANTED] > 0:
            status = np.int64(AGAIN)
            break
    return pos, count, status
