"""What is asked of ZooKeeper: znodes with versions, changed by compare-and-set."""

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
    """The znodes of an ensemble; any thread may call.

    Every call waits for a lost connection, or for a new session, for a bounded time. What changes something may so be
    done twice: a NodeExistsError, NoNodeError or BadVersionError may be the caller's own success, who has to look.

    Raises:
        NoNodeError, NodeExistsError, BadVersionError: as they are named; nothing was done.
        ZooKeeperError: it is not known whether it was done.
    """

    def get(self, path: str) -> tuple[bytes | None, int]:
        """Value and version."""

    def set(self, path: str, data: bytes | None, version: int) -> int:
        """The new version."""

    def create(self, path: str, data: bytes | None, *, parents: bool = False, ephemeral: bool = False) -> None:
        """Make a znode; `parents` that are missing are made empty."""

    def create_sequential(self, prefix: str) -> str:
        """Make an ephemeral znode with the next number behind `prefix`; its path. Missing parents are made."""

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def children(self, path: str) -> list[str]:
        """Their names, in any order."""

    def exists(self, path: str) -> bool: ...

    def commit(self, changes: list[Change]) -> None:
        """All of them or none."""

    def close(self) -> None:
        """End the session; a second call does nothing."""
