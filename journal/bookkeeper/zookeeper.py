"""Access to the journal's znodes through kazoo, with the journal's error types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hadoop_common.zookeeper import errors
from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes
from hadoop_common.zookeeper.znodes import Change
from journal.bookkeeper.errors import MetadataStoreError, MissingZnodeError, ZnodeExistsError, ZnodeVersionError

_OURS = {
    errors.NoNodeError: MissingZnodeError,
    errors.NodeExistsError: ZnodeExistsError,
    errors.BadVersionError: ZnodeVersionError,
}


class JournalZNodes(KazooZNodes):
    """`ZNodes` of an ensemble."""

    def commit(self, changes: list[Change]) -> None:
        with _as_ours():
            super().commit(changes)

    def _do(self, path: str, call: Callable[[Any], Any], *, decides: str = "") -> Any:
        with _as_ours():
            return super()._do(path, call, decides=decides)


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except errors.ZooKeeperError as fault:
        raise _OURS.get(type(fault), MetadataStoreError)(fault.problem, file=fault.path, hint=fault.hint) from fault
