"""Errors of a merge; each class defines the exit code of a process that ends with this error."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode


class CheckpointError(HdfsError):
    """Base class of the checkpointer's errors."""

    exit_code: ClassVar[int] = ExitCode.FAILURE


class NotSavedError(StorageError):
    """Failure to save an image in any folder; the namespace is not affected."""


class NamespaceError(CheckpointError):
    """A change that contradicts the namespace; `replay.apply` converts it to an error that names the operation."""

    exit_code: ClassVar[int] = ExitCode.BAD_EDITS


class InconsistentNamespaceError(CheckpointError):
    """Detection of inconsistent snapshots or references; unlike `NamespaceError`, possibly after a partial change."""

    exit_code: ClassVar[int] = ExitCode.BAD_EDITS


class UnsupportedNamespaceError(CheckpointError):
    """A change to a part of the namespace that this version can only copy."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED


class ReplayError(CheckpointError):
    """A contradiction between an edit and the namespace to which it is applied.

    `op` is the name of the opcode, or "end of replay" for a check after the last transaction. `txid` is the transaction
    id of the edit, and `path` is the affected file or directory, if any.
    """

    exit_code: ClassVar[int] = ExitCode.BAD_EDITS

    def __init__(self, op: str, txid: int, problem: str, *, path: str = "", hint: str = "") -> None:
        where = f" on {path}" if path else ""
        super().__init__(f"{op} at txid {txid}{where}: {problem}", hint=hint)
        self.op = op
        self.txid = txid
        self.path = path


class UnsupportedOperationError(CheckpointError):
    """An edit that cannot be applied without guessing; the old image and all edits stay unchanged."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED

    def __init__(self, op: str, txid: int, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{op} at txid {txid} is not supported: {reason}", hint=hint)
        self.op = op
        self.txid = txid


class CheckpointCancelledError(CheckpointError):
    """Cancellation of a checkpoint; all of its files were removed."""


class CheckpointInProgressError(CheckpointError):
    """Refusal of a checkpoint while another checkpoint, possibly of the same txid, is running."""


class NamespaceBusyError(CheckpointError):
    """A read that timed out after `seconds`: the namespace was loaded or saved, or lacked a transaction."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the namespace was not available for reading within {seconds:g} s",
            hint="Repeat the request, or send it to a NameNode: this node is loading or saving an image, or its "
            "edits lag.",
        )
