"""The root of every package's error tree."""

from __future__ import annotations

from typing import Any, ClassVar

from hadoop_common.exit_codes import ExitCode


class HdfsError(Exception):
    """Root of every package's error tree.

    `message` states what is wrong and where. `hint` is the next step in one sentence, by default `default_hint`. A
    process that ends with the error exits with `exit_code`.
    """

    exit_code: ClassVar[int] = ExitCode.FAILURE
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # the parameters of a subclass's __init__ may differ from the exception's args
        return _rebuilt, (type(self), self.args), vars(self)


def _rebuilt(kind: type[HdfsError], arguments: tuple[object, ...]) -> HdfsError:
    return kind.__new__(kind, *arguments)


class StorageError(HdfsError):
    """Failure to use a storage directory: unformatted, locked, inconsistent with another directory, or not writable."""

    exit_code: ClassVar[int] = ExitCode.STORAGE
