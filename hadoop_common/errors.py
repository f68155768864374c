"""The root of every package's error tree and the exit statuses a process ends with."""

from __future__ import annotations

from typing import ClassVar

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_BAD_IMAGE = 3
EXIT_BAD_EDITS = 4
EXIT_UNSUPPORTED = 5
EXIT_STORAGE = 6
EXIT_TRANSFER = 7
# a checkpoint was made, but no NameNode took it
EXIT_NOT_TAKEN = 8


class HdfsError(Exception):
    """Root of every package's error tree.

    `message` names what is wrong and where; `hint` says in one sentence what to do next;
    `exit_code` is the status of a process that ends because of it.
    """

    exit_code: ClassVar[int] = EXIT_FAILURE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class StorageError(HdfsError):
    """A storage directory cannot be used: not formatted, locked, at odds with another, not writable."""

    exit_code: ClassVar[int] = EXIT_STORAGE
