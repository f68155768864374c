"""Errors of ZooKeeper; each names the znode."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode


class ZooKeeperError(HdfsError):
    """A request that ZooKeeper refused or did not answer in time; `path` is the znode, or "" if there is none."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER

    def __init__(self, problem: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem, hint=hint)
        self.problem = problem
        self.path = path


class NoNodeError(ZooKeeperError):
    """A request for a znode that does not exist."""


class NodeExistsError(ZooKeeperError):
    """A request to create a znode that already exists."""


class BadVersionError(ZooKeeperError):
    """A conditional change of a znode that does not have the expected version."""
