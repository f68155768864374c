"""Errors that prevent the start of a controller. Their exit codes are Hadoop's, because scripts rely on these codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hadoop_common.errors import HdfsError


class ControllerError(HdfsError):
    """Base class of a controller's errors."""


class FormatDeniedError(ControllerError):
    """Refusal to format existing znodes without a confirmation."""

    exit_code: ClassVar[int] = 2

    def __init__(self, parent: str) -> None:
        super().__init__(
            f"{parent} already exists in ZooKeeper and is not changed",
            hint="The nameservice is already formatted, so no action is needed. --force recreates the znodes; use "
            "this option only while no controller of the nameservice runs.",
        )


class FormatError(ControllerError):
    """Failure to create or remove the znodes of a nameservice."""

    def __init__(self, fault: HdfsError) -> None:
        super().__init__(fault.message, hint=fault.hint)


class NotFormattedError(ControllerError):
    """Lack of the nameservice's znode, because ZooKeeper was not formatted for the nameservice."""

    exit_code: ClassVar[int] = 3

    def __init__(self, parent: str) -> None:
        super().__init__(
            f"{parent} does not exist in ZooKeeper",
            hint="Check ha.zookeeper.quorum and ha.zookeeper.parent-znode; for a new nameservice run "
            "`checkpointer zkfc format` once.",
        )


class FencingNotConfiguredError(ControllerError):
    """Refusal of a configuration without fencing methods."""

    exit_code: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__(
            "dfs.ha.fencing.methods is not set",
            hint="Set this key; with a quorum journal, which fences the previous writer itself, shell(/bin/true) "
            "suffices.",
        )


class AutomaticFailoverDisabledError(ControllerError):
    """Refusal of a configuration without automatic failover."""

    exit_code: ClassVar[int] = 5

    def __init__(self) -> None:
        super().__init__(
            "dfs.ha.automatic-failover.enabled is false",
            hint="Set the key to true on all NameNodes of the nameservice, then restart the NameNodes one after "
            "another, the standby first.",
        )


class ZooKeeperAwayError(ControllerError):
    """Failure to reach the ZooKeeper ensemble."""

    exit_code: ClassVar[int] = 6

    def __init__(self, fault: HdfsError) -> None:
        super().__init__(fault.message, hint=fault.hint)


class UnresolvedHostsError(ControllerError):
    """Failure to resolve NameNodes' host names now, for instance because DNS starts later than this host.

    systemd restarts the controller after this exit code, but not after the exit code of a faulty configuration.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__(
            f"it is not known which NameNode is on this host: {', '.join(hosts)} cannot be resolved",
            hint="Check DNS. If dfs.nameservice.id and dfs.ha.namenode.id are set, the controller does not need DNS "
            "for this.",
        )


class SecondControllerError(ControllerError):
    """Failure to bind the controller's port, because another process uses the port."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            problem,
            hint="A controller of this NameNode, Hadoop's or the checkpointer's, may already be running; "
            "a NameNode needs only one controller. For another NameNode on this host, set dfs.ha.zkfc.port.",
        )


class BreadcrumbKeptError(ControllerError):
    """A refusal to remove the breadcrumb."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the breadcrumb is kept: {reason}",
            hint="Leave the breadcrumb to the controller of the NameNode that it names. This controller removes the "
            "breadcrumb when the NameNode is stopped cleanly.",
        )
