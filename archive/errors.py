"""Errors of an archive, with the exit code of the command that ends because of them."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_BAD_IMAGE, EXIT_STORAGE, EXIT_UNSUPPORTED, EXIT_USAGE, HdfsError


class ArchiveError(HdfsError):
    """The archive cannot be read or written, or belongs to another namespace."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class ArchiveDamagedError(ArchiveError):
    """An object does not have the bytes that its digest promises; `file` is its name."""

    exit_code: ClassVar[int] = EXIT_BAD_IMAGE

    def __init__(self, file: str, problem: str, *, hint: str = "") -> None:
        super().__init__(
            f"{file}: {problem}", hint=hint or "`checkpointer archive check` lists the moments that are lost."
        )
        self.file = file


class ArchiveVersionError(ArchiveError):
    """A newer program wrote the archive."""

    exit_code: ClassVar[int] = EXIT_UNSUPPORTED


class NoSuchMomentError(ArchiveError):
    """The archive cannot restore the requested moment."""

    exit_code: ClassVar[int] = EXIT_USAGE


class CrossingWritersError(ArchiveError):
    """Another writer published another past in the same branch, or also began the archive; our commit was removed."""

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"another writer adds to branch {branch} at the same time, and perhaps another history",
            hint="Try again; `hdfs haadmin -getAllServiceState` shows whether two NameNodes are active.",
        )


class OtherHistoryError(ArchiveError):
    """The files do not belong to a history that the archive has, and a new one was not allowed."""

    def __init__(self, first: int) -> None:
        super().__init__(
            f"the edits from transaction {first} on belong to no history of the archive",
            hint="Run `checkpointer archive add` with the directory that has the edits before them.",
        )
