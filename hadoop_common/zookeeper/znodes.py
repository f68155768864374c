"""Operations on ZooKeeper: versioned znodes that are changed by compare-and-set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes | None
    version: int


Change = Create | Delete | Set


class ZNodes(Protocol):
    """The znodes of an ensemble; thread-safe.

    Every call waits a limited time until a lost connection is re-established or a new session begins. Therefore,
    ZooKeeper may execute a change twice. After NoNodeError, NodeExistsError or BadVersionError, the caller must check
    whether its first attempt succeeded.

    Raises:
        NoNodeError, NodeExistsError, BadVersionError: the last attempt changed nothing.
        ZooKeeperError: it is unknown whether the change was made.
    """

    def get(self, path: str) -> tuple[bytes | None, int]:
        """Return the value and the version."""

    def set(self, path: str, data: bytes | None, version: int) -> int:
        """Set the value; return the new version."""

    def create(self, path: str, data: bytes | None, *, parents: bool = False, ephemeral: bool = False) -> None:
        """Create a znode; with `parents`, also create missing parents, without content."""

    def create_sequential(self, prefix: str) -> str:
        """Create an ephemeral znode with the next number after `prefix`, and its missing parents; return its path."""

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def children(self, path: str) -> list[str]:
        """Return the names of the children, in any order."""

    def exists(self, path: str) -> bool: ...

    def commit(self, changes: list[Change]) -> None:
        """Apply all changes or none."""

    def close(self) -> None:
        """End the session; a second call does nothing."""
