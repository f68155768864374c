"""What a JournalNode asks of the folder that a journal is kept in; every change of it is one of these steps."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from journal.primitives import Buffer


class Output(Protocol):
    """A file that is appended to. Not for several threads at once.

    Every method but `close` raises OSError: what was to be written may be there in part.
    """

    @property
    def written(self) -> int:
        """Bytes in the file."""

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write `data` at the end; with `sync` it and all before it is durable when this returns."""

    def sync(self) -> None:
        """Make what was appended durable; does nothing where it is."""

    def close(self) -> None:
        """Let go of the file as it is; raises nothing. A second call does nothing."""


class Disk(Protocol):
    """The folder of one journal. Names are relative to it, with `/` between, such as `current/VERSION`.

    Every method raises OSError. Those that change something are durable when they return, but for `create`,
    `overwrite` and `Output`, and are done whole or not at all, but for `remove_tree` and `overwrite`.

    Attributes:
        location: where it is, for logs and errors.
    """

    @property
    def location(self) -> str: ...

    def lock(self) -> None:
        """Keep other processes out, where the folder exists; a second call does nothing.

        Raises:
            StorageInUseError: another one is in.
        """

    def unlock(self) -> None:
        """Let others in again."""

    # ---- looking ----

    def exists(self, name: str) -> bool: ...

    def names(self, directory: str) -> list[str]:
        """What is in `directory`; nothing where it does not exist."""

    def size(self, name: str) -> int: ...

    def read(self, name: str) -> bytes: ...

    def open(self, name: str) -> BinaryIO:
        """A file to read; it can be read on when it is renamed."""

    def content(self, name: str) -> AbstractContextManager[Buffer]:
        """A whole file, however large."""

    # ---- changing ----

    def write(self, name: str, data: bytes) -> None:
        """Replace a small file by `data`."""

    def overwrite(self, name: str, data: bytes) -> None:
        """Write `data` at the start of a file that is kept open, without sync."""

    def create(self, name: str) -> Output:
        """A new, empty file, which replaces the one of that name."""

    def sync(self, name: str) -> None:
        """Make the content of a file durable that somebody else may have written."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file, over another one if there is one, or a directory."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is missing is not a fault."""

    def make_directory(self, name: str) -> None:
        """Make a directory, and those above it; "" is the folder itself. One that exists is not a fault."""

    def remove_tree(self, name: str) -> None:
        """Remove a directory and all in it; one that is missing is not a fault."""
