"""Applies single operations; an operation without a replay function is an error and is never skipped.

An error may leave the operation partly applied, so the caller must then discard the namespace.
"""

from __future__ import annotations

from engine.errors import (
    InconsistentNamespaceError,
    NamespaceError,
    ReplayError,
    UnsupportedNamespaceError,
    UnsupportedOperationError,
)
from engine.namespace import Namespace
from engine.replay.table import REPLAYED
from journal.ops import EditOp

_HINT = "Let a NameNode of the cluster's own release make this checkpoint; the old image and all edits are untouched."
_RECORD_HINT = "Check that image and edits belong to one cluster; `hdfs oev` shows the operation."
_END = "end of replay"


def apply(namespace: Namespace, op: EditOp) -> None:
    """Apply one operation and advance the namespace's txid.

    Raises:
        ReplayError: the operation cannot be applied to the present namespace.
        ImageFormatError: the operation needs a damaged record of the image.
        UnsupportedOperationError: the operation has no replay function, or needs an unimplemented feature.
    """
    row = REPLAYED.get(type(op))
    if row is None:
        raise UnsupportedOperationError(op.name, op.txid, "it has no replay function", hint=_HINT)
    with OpErrorTranslator(op):
        row.plain(namespace, op)
    namespace.last_txid = op.txid


class OpErrorTranslator:
    """Translator of namespace errors into errors of one operation, which `apply` raises.

    The translator is a class, because a generator-based context manager would take longer than most operations.
    """

    __slots__ = ("_op",)

    def __init__(self, op: EditOp) -> None:
        self._op = op

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        op = self._op
        if isinstance(error, NamespaceError | InconsistentNamespaceError):
            raise ReplayError(op.name, op.txid, error.message, hint=error.hint or _RECORD_HINT) from error
        if isinstance(error, UnsupportedNamespaceError):
            raise UnsupportedOperationError(op.name, op.txid, error.message, hint=error.hint or _HINT) from error
        if isinstance(error, RecursionError):
            raise UnsupportedOperationError(op.name, op.txid, "the tree is too deep", hint=_HINT) from error
        if isinstance(error, OverflowError | ValueError):
            raise ReplayError(
                op.name, op.txid, f"a value does not fit the image: {error}", hint=_RECORD_HINT
            ) from error


def check_end(namespace: Namespace) -> None:
    """Perform the checks that a NameNode performs at the end of replay.

    The error does not name an operation, because the last operation is not the cause.

    Raises:
        ReplayError: snapshot diffs are inconsistent.
    """
    try:
        namespace.recorder.created.check_strays()
    except InconsistentNamespaceError as error:
        raise ReplayError(_END, namespace.last_txid, error.message, hint=error.hint or _RECORD_HINT) from error
