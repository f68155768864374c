"""Interface of a journal's folder on a JournalNode; all changes of the folder use its methods."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from journal.primitives import Buffer


class JournalOutput(Protocol):
    """A file to which data is appended; not thread-safe.

    All methods except `close` raise OSError; some of the data may then have been written.
    """

    @property
    def written(self) -> int:
        """Number of bytes in the file."""

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write `data` at the end; with `sync`, the whole file is durable on return."""

    def sync(self) -> None:
        """Make the file durable, unless it already is."""

    def close(self) -> None:
        """Close the file, without raising exceptions. A second call does nothing."""


class JournalDisk(Protocol):
    """The folder of one journal. Names are relative to the folder and separated by `/`, such as `current/VERSION`.

    All methods raise OSError. Changes are durable on return, except the changes of `create`, `overwrite` and
    `JournalOutput`. Changes are atomic, except the changes of `remove_tree` and `overwrite`.

    Attributes:
        location: the folder, for logs and errors.
    """

    @property
    def location(self) -> str: ...

    def lock(self) -> None:
        """Lock the folder against other processes, if the folder exists; a second call does nothing.

        Raises:
            StorageInUseError: another process has the lock.
        """

    def unlock(self) -> None:
        """Release the lock."""

    def is_replaced(self) -> bool:
        """Return whether another folder has replaced the locked folder, for example because of a mount at its path."""

    # ---- reading ----

    def exists(self, name: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """Return the names in `directory`; an empty list if the directory does not exist."""

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; the open file stays readable after a rename."""

    def content(self, name: str) -> AbstractContextManager[Buffer]:
        """Yield the content of a file of any size."""

    # ---- changing ----

    def write(self, name: str, data: bytes) -> None:
        """Replace the content of a small file with `data`."""

    def overwrite(self, name: str, data: bytes) -> None:
        """Write `data` at the start of a file, without a sync; the file stays open."""

    def create(self, name: str) -> JournalOutput:
        """Create an empty file, which replaces an existing file."""

    def sync(self, name: str) -> None:
        """Make the content of a file durable, including data that another process wrote."""

    def rename(self, source: str, target: str) -> None:
        """Rename a directory, or a file, which replaces an existing file."""

    def link(self, source: str, target: str) -> None:
        """Create a hard link `target` to the file `source`."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def make_directory(self, name: str) -> None:
        """Create a directory with its parents, unless it exists; "" is the folder itself."""

    def remove_tree(self, name: str) -> None:
        """Remove a directory with its content, if it exists."""
