"""Replays a stream of operations onto a namespace, with progress and cooperative cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkpointer.errors import CheckpointCancelledError
from checkpointer.namespace import Namespace

# Importing a module of handlers registers them.
from checkpointer.replay import attributes as _attributes
from checkpointer.replay import blocks as _blocks
from checkpointer.replay import files as _files
from checkpointer.replay import managers as _managers
from checkpointer.replay import snapshots as _snapshots
from checkpointer.replay import structure as _structure
from checkpointer.replay.registry import apply, check_end
from journal.errors import TransactionGapError
from journal.ops import EditOp

__all__ = ["replay"]

_HANDLER_MODULES = (_attributes, _blocks, _files, _managers, _snapshots, _structure)
_REPORT_EVERY = 4096


def replay(
    namespace: Namespace,
    ops: Iterable[EditOp],
    *,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> int:
    """Apply `ops`, which follow the namespace's txid without a gap.

    Args:
        progress: told now and then how many operations were applied in all.
        cancelled: asked now and then whether to stop.

    Returns:
        Number of operations applied.

    Raises:
        TransactionGapError: an operation has another txid than the next one.
        NamespaceError, UnsupportedNamespaceError: an operation could not be applied.
        CheckpointCancelledError: `cancelled` said so.
    """
    count = 0
    expected = namespace.last_txid + 1
    for op in ops:
        if op.txid != expected:
            raise TransactionGapError(expected=expected, found=op.txid)
        apply(namespace, op)
        expected += 1
        count += 1
        if count % _REPORT_EVERY == 0:
            if progress is not None:
                progress(count)
            if cancelled is not None and cancelled():
                raise CheckpointCancelledError(f"replay stopped at txid {op.txid}")
    if count:
        check_end(namespace, op)
    if progress is not None:
        progress(count)
    return count
