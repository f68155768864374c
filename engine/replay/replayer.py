"""Replay of a stream of operations onto a namespace, with progress and cooperative cancellation.

Kernels and plain functions take turns on a segment. Kernels apply operations up to a limit; a run that reaches its
limit is followed by a longer run. If a run stops earlier for any reason, the plain function applies the next operation,
and then kernels continue. Thus, the plain decoder and the plain function report all errors. Kernels run only if the
cursor and the namespace agree on the next txid; otherwise the plain path reports the gap. The replay reports progress
and checks for cancellation between two operations, so an aborted replay leaves the namespace in the state of a txid.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from engine.errors import CheckpointCancelledError
from engine.namespace import Namespace
from engine.replay.checksum_thread import checksum_thread
from engine.replay.registry import apply, check_end
from image_format.compiling.mode import Mode, mode
from journal.errors import TransactionGapError
from journal.ops import EditOp
from journal.primitives import Buffer
from journal.segment_file import SegmentTransactions
from journal.segment_format import SegmentCursor

if TYPE_CHECKING:
    from engine.replay.compiled import CompiledReplay

PLAIN: Final = "CHECKPOINTER_PLAIN_REPLAY"

MAX_PLAIN: Final = 8 << 20
"""Number of bytes of edits that a process replays plainly before it waits for kernels; the plain replay takes as long
as compiling.

This number is also the maximum size of INODE for which a namespace is replayed plainly, because plain functions read
whole directories.
"""
_REPORT_EVERY = 4096
_KERNEL_RUN = 1 << 16
_FIRST_RUN = 1 << 10
"""Number of operations of the first run in a segment; each later run is up to twice as long.

Runs begin short, because the checksum thread has verified few checksums when the first run begins.
"""


def replay(
    namespace: Namespace,
    ops: Iterable[EditOp],
    *,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    watch: Callable[[EditOp], bool] | None = None,
) -> int:
    """Apply `ops`, which follow the namespace's txid without a gap.

    Args:
        ops: operations, or `SegmentTransactions`, whose frequent operations kernels apply.
        progress: called regularly with the number of applied operations.
        cancelled: called regularly; True stops the replay.
        watch: called before each operation that no kernel applies, which includes all rare operations. False ends the
            replay before the operation.

    Returns:
        The number of applied operations.

    Raises:
        TransactionGapError: an operation does not have the next txid.
        NamespaceError, UnsupportedNamespaceError: an operation could not be applied.
        CheckpointCancelledError: `cancelled` returned True.
    """
    run = _ReplayRun(namespace, progress, cancelled, watch)
    if isinstance(ops, SegmentTransactions):
        run.segments(ops)
    else:
        run.plainly(ops)
    if run.count:
        check_end(namespace)
    if progress is not None:
        progress(run.count)
    return run.count


def compiled_replay(namespace: Namespace, edits: Buffer = b"") -> CompiledReplay | None:
    """Return the kernels for a namespace, or None to use the plain functions.

    Plain functions are used with `CHECKPOINTER_PLAIN_REPLAY=1`. While the kernels are not compiled, plain functions
    also replay small inputs: at most `MAX_PLAIN` bytes of INODE, and in total as many bytes of edits in this process.

    Args:
        edits: the next segment to replay.
    """
    if os.environ.get(PLAIN, "") not in ("", "0") or mode() is Mode.PLAIN:
        return None
    # The import loads the compiler, which other commands do not need.
    from engine.replay.compiled import CompiledReplay, is_at_hand

    small = namespace.base.inode_buffer.nbytes <= MAX_PLAIN
    if namespace.compiled is None and small and not is_at_hand(edits) and _PLAIN_BYTES.take(len(edits)):
        return None
    return CompiledReplay.of(namespace)


class _Budget:
    """A limited number of bytes."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Subtract `size` bytes if enough bytes are left; return whether they were subtracted."""
        enough = size <= self._left
        if enough:
            self._left -= size
        return enough


_PLAIN_BYTES = _Budget(MAX_PLAIN)


class _ReplayRun:
    """One call of `replay`."""

    def __init__(
        self,
        namespace: Namespace,
        progress: Callable[[int], None] | None,
        cancelled: Callable[[], bool] | None,
        watch: Callable[[EditOp], bool] | None,
    ) -> None:
        self.count = 0
        self._namespace = namespace
        self._progress = progress
        self._cancelled = cancelled
        self._watch = watch
        self._report_at = _REPORT_EVERY

    def plainly(self, ops: Iterable[EditOp]) -> bool:
        """Apply operations one by one; return False if `watch` ended the replay."""
        return all(self._apply(op) for op in ops)

    def segments(self, ops: SegmentTransactions) -> None:
        """Apply whole segments, with kernels where possible."""
        followed = None
        for cursor in ops.cursors():
            compiled = compiled_replay(self._namespace, cursor.buffer)
            if compiled is not None and followed is None:
                compiled.invalidate()
            followed = compiled
            whole = self.plainly(cursor) if compiled is None else self._segment(cursor, compiled)
            if not whole:
                return

    def _segment(self, cursor: SegmentCursor, compiled: CompiledReplay) -> bool:
        """Apply a segment; return False if `watch` ended the replay."""
        fits, limit = compiled.begin(cursor), min(_FIRST_RUN, _KERNEL_RUN)
        with checksum_thread(cursor) if fits else nullcontext() as ahead:
            while True:
                while fits and cursor.expected == self._namespace.last_txid + 1:
                    checked = 0 if ahead is None else ahead.known(cursor.position)
                    applied = compiled.run(cursor, limit, checked)
                    self._counted(applied)
                    if applied < limit:
                        break
                    limit = min(2 * limit, _KERNEL_RUN)
                op = next(cursor, None)
                if op is None:
                    return True
                if not self._apply(op):
                    return False
                compiled.after_plain_op(op)

    def _apply(self, op: EditOp) -> bool:
        """Apply an operation; return False if `watch` refuses it."""
        if op.txid != self._namespace.last_txid + 1:
            raise TransactionGapError(expected=self._namespace.last_txid + 1, found=op.txid)
        if self._watch is not None and not self._watch(op):
            return False
        apply(self._namespace, op)
        self._counted(1)
        return True

    def _counted(self, more: int) -> None:
        self.count += more
        if self.count < self._report_at:
            return
        self._report_at = self.count + _REPORT_EVERY
        if self._progress is not None:
            self._progress(self.count)
        if self._cancelled is not None and self._cancelled():
            raise CheckpointCancelledError(f"replay stopped at txid {self._namespace.last_txid}")
