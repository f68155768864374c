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
            hint="It is formatted: nothing has to be done. --force begins anew, and only while no controller of the "
            "nameservice runs.",
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
            hint="See that ha.zookeeper.quorum and ha.zookeeper.parent-znode are right; for a new nameservice run "
            "`checkpointer zkfc format` once.",
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
            hint="Set it on all NameNodes of the nameservice; it applies as each restarts, the standby first, "
            "one after another.",
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
            hint="A controller for this NameNode may be running, Hadoop's or ours: one is enough. For another "
            "NameNode of this host set dfs.ha.zkfc.port.",
        )


class BreadcrumbKeptError(ControllerError):
    """The breadcrumb is not removed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the breadcrumb is kept: {reason}",
            hint="Let the controller of the NameNode that it names do its work; it goes once that NameNode has "
            "ended in order.",
        )
