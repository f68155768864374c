"""Errors of a node beside those of its merge; each kind has the exit status of the process that ends because of it."""

from __future__ import annotations

from typing import ClassVar

from engine.errors import CheckpointError
from hadoop_common.errors import EXIT_TRANSFER


class TransferError(CheckpointError):
    """An image or a segment did not get across.

    `target` is the other side's address, `status` its HTTP status, None where no answer came.
    """

    exit_code: ClassVar[int] = EXIT_TRANSFER

    def __init__(self, target: str, problem: str, *, status: int | None = None, hint: str = "") -> None:
        answer = "" if status is None else f" (HTTP {status})"
        super().__init__(f"{target}{answer}: {problem}", hint=hint)
        self.target = target
        self.status = status


class RoleGaveUpError(CheckpointError):
    """A role failed so often, or in such a way, that its daemon has to end."""
