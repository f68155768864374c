"""Why a controller does not start; exit codes are those of Hadoop's, by which scripts go."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import HdfsError


class ControllerError(HdfsError):
    """Root of what follows."""


class FormatDeniedError(ControllerError):
    """The znodes are there, and nobody said that they may be removed."""

    exit_code: ClassVar[int] = 2

    def __init__(self, parent: str) -> None:
        super().__init__(
            f"{parent} exists already in ZooKeeper, and is left as it is",
            hint="Stop all controllers of the nameservice, and say --force.",
        )


class FormatError(ControllerError):
    """The znodes cannot be made, or removed."""

    def __init__(self, fault: HdfsError) -> None:
        super().__init__(fault.message, hint=fault.hint)


class NotFormattedError(ControllerError):
    """The znode of the nameservice is missing."""

    exit_code: ClassVar[int] = 3

    def __init__(self, parent: str) -> None:
        super().__init__(
            f"there is no {parent} in ZooKeeper",
            hint="Run `checkpointer zkfc format` once for the nameservice, and see that the quorum is the right one.",
        )


class FencingNotConfiguredError(ControllerError):
    """Nothing says how a NameNode is fenced."""

    exit_code: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__(
            "dfs.ha.fencing.methods is not set",
            hint="Set it; with a quorum journal, which fences by itself, shell(/bin/true) is enough.",
        )


class AutomaticFailoverDisabledError(ControllerError):
    """The configuration wants no controllers."""

    exit_code: ClassVar[int] = 5

    def __init__(self) -> None:
        super().__init__(
            "dfs.ha.automatic-failover.enabled is false",
            hint="Set it on all NameNodes of the nameservice, and restart them.",
        )


class ZooKeeperAwayError(ControllerError):
    """ZooKeeper does not answer."""

    exit_code: ClassVar[int] = 6

    def __init__(self, fault: HdfsError) -> None:
        super().__init__(fault.message, hint=fault.hint)


class SecondControllerError(ControllerError):
    """The port of the controller is taken."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            problem,
            hint="Is a controller for this NameNode running, Hadoop's or ours? Stop it, or set dfs.ha.zkfc.port.",
        )


class BreadcrumbKeptError(ControllerError):
    """The breadcrumb is not removed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the breadcrumb is kept: {reason}",
            hint="Stop the NameNode that it names, or let its controller do its work.",
        )
