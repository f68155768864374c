"""Errors of a daemon, except merge errors; each class defines the exit code of a process that ends with the error."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.errors import CheckpointError
from hadoop_common.exit_codes import ExitCode

TLS_HINT: Final = "`checkpointer check --only tls` tests each step of TLS."
"""Next step after a failed TLS handshake; the reason of the failure is part of the message."""


class TransferError(CheckpointError):
    """A failed transfer of an image or a segment.

    `target` is the server's address, and `problem` is the message without it. `status` is the HTTP status of the
    response, or None if there was no response.
    """

    exit_code: ClassVar[int] = ExitCode.TRANSFER

    def __init__(self, target: str, problem: str, *, status: int | None = None, hint: str = "") -> None:
        answer = "" if status is None else f" (HTTP {status})"
        super().__init__(f"{target}{answer}: {problem}", hint=hint)
        self.target = target
        self.problem = problem
        self.status = status


class ProgressPendingError(CheckpointError):
    """An error that reports that the first query of a NameNode has not ended; it is not a fault."""


class RoleGaveUpError(CheckpointError):
    """A failure of a role that stops the daemon, because it recurred too often or cannot be repaired at run time."""
