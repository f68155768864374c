"""Errors of an archive, each with the exit code that a command returns after the error."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode


class ArchiveError(HdfsError):
    """Failure to read or write the archive, or an archive of another namespace."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class ArchiveDamagedError(ArchiveError):
    """Damage to an object whose bytes do not match its digest; `file` is its name."""

    exit_code: ClassVar[int] = ExitCode.BAD_IMAGE
    default_hint = "`checkpointer archive check` lists the moments that are lost."

    def __init__(self, file: str, problem: str, *, hint: str = "") -> None:
        super().__init__(f"{file}: {problem}", hint=hint)
        self.file = file


class ArchiveVersionError(ArchiveError):
    """Refusal to use an archive that a newer program wrote."""

    exit_code: ClassVar[int] = ExitCode.UNSUPPORTED


class NoSuchMomentError(ArchiveError):
    """A request for a moment that the archive cannot restore."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class NoSuchRemovalError(NoSuchMomentError):
    """A request for a removed path that, according to the available operations, was never removed."""


class PathMissingError(NoSuchMomentError):
    """A request for a path that did not exist before the operation that was assumed to remove it."""


class NotOmittableError(ArchiveError):
    """A request to omit an operation without which a restore is impossible."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class CrossingWritersError(ArchiveError):
    """Conflict with a writer that published another past in the branch or began the archive; our commit was removed."""

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"another writer is adding edits to branch {branch}, perhaps from another history",
            hint="Try again; `hdfs haadmin -getAllServiceState` shows whether two NameNodes are active.",
        )


class OtherHistoryError(ArchiveError):
    """Refusal to add files of a new history, which the options do not allow."""

    def __init__(self, first: int) -> None:
        super().__init__(
            f"the edits from transaction {first} on do not belong to any history of the archive",
            hint="Run `checkpointer archive add` with the directory that contains the edits before that transaction.",
        )
