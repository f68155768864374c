"""What ZooKeeper answers where it does not do what it was asked; each error names the znode."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_TRANSFER, HdfsError


class ZooKeeperError(HdfsError):
    """ZooKeeper did not answer in time, or refused; `path` is the znode, "" where there is none."""

    exit_code: ClassVar[int] = EXIT_TRANSFER

    def __init__(self, problem: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem, hint=hint)
        self.problem = problem
        self.path = path


class NoNodeError(ZooKeeperError):
    """A znode is not there."""


class NodeExistsError(ZooKeeperError):
    """A znode is there already."""


class BadVersionError(ZooKeeperError):
    """A znode has another version than the one it was to be changed from."""
