"""Errors of a merge; each kind has the exit status of the process that ends because of it."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_BAD_EDITS, EXIT_FAILURE, EXIT_UNSUPPORTED, HdfsError


class CheckpointError(HdfsError):
    """Root of the checkpointer's errors."""

    exit_code: ClassVar[int] = EXIT_FAILURE


class NamespaceError(CheckpointError):
    """A change does not fit the namespace as it is; `replay.apply` adds which edit asked for it."""

    exit_code: ClassVar[int] = EXIT_BAD_EDITS


class InconsistentNamespaceError(CheckpointError):
    """Snapshots and references do not fit together; unlike `NamespaceError` it may come after a change began."""

    exit_code: ClassVar[int] = EXIT_BAD_EDITS


class UnsupportedNamespaceError(CheckpointError):
    """A change concerns a part of the namespace that this version copies but cannot change."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED


class ReplayError(CheckpointError):
    """An edit does not fit the namespace it is applied to.

    `op` is the opcode's name, `txid` its transaction, `path` the file or directory it concerns, if any.
    """

    exit_code: ClassVar[int] = EXIT_BAD_EDITS

    def __init__(self, op: str, txid: int, problem: str, *, path: str = "", hint: str = "") -> None:
        where = f" on {path}" if path else ""
        super().__init__(f"{op} at txid {txid}{where}: {problem}", hint=hint)
        self.op = op
        self.txid = txid
        self.path = path


class UnsupportedOperationError(CheckpointError):
    """An edit that cannot be applied without guessing; the old image and all edits stay as they are."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED

    def __init__(self, op: str, txid: int, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{op} at txid {txid} is not supported: {reason}", hint=hint)
        self.op = op
        self.txid = txid


class CheckpointCancelledError(CheckpointError):
    """A checkpoint was given up because its owner asked for it; nothing of it is left."""


class CheckpointInProgressError(CheckpointError):
    """A checkpoint was asked for while one at the same txid or a running one is not finished."""
