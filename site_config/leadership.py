"""Settings of the leader election between several daemons of one cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_common.config_key import SWITCH, ConfigKey, text
from hadoop_common.configuration import Configuration, ConfigurationError, local_path
from hadoop_common.zookeeper.session import ZooKeeperAddress
from hadoop_common.zookeeper.settings import ENSEMBLE_KEYS, QUORUM, SESSION_TIMEOUT, zookeeper_address

AUTO, NONE, ZOOKEEPER = "auto", "none", "zookeeper"

LOCK = ConfigKey(
    "checkpointer.leader.lock",
    AUTO,
    text("lock"),
    "The lock by which the daemons of a cluster elect the daemon that makes checkpoints: `zookeeper`, "
    "`file:///shared/lock` on storage that all daemons share, or `none`. `auto` is ZooKeeper if ha.zookeeper.quorum is "
    "set, else `none`. Specific to the checkpointer.",
)
REQUIRED = ConfigKey(
    "checkpointer.leader.required",
    "false",
    SWITCH,
    "Whether checkpoints require the lock; if not, a late checkpoint is made without the lock. Specific to the "
    "checkpointer.",
)
PARENT = ConfigKey(
    "checkpointer.leader.parent-znode",
    "/hadoop-checkpointer",
    text("znode"),
    "Parent of the nameservices' znodes, which contain the lock. Specific to the checkpointer.",
)
LEADER_KEYS = (LOCK, REQUIRED, PARENT, *ENSEMBLE_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LeaderSettings:
    """Settings of the leader's lock; without `ensemble` and `file`, there is no election.

    Attributes:
        file: path of a lock file.
        session_timeout: session timeout of ZooKeeper, in seconds.
        znode: path of the lock in ZooKeeper.
    """

    ensemble: ZooKeeperAddress | None = None
    file: Path | None = None
    required: bool = False
    session_timeout: float = 10.0
    znode: str = ""

    @property
    def lock(self) -> str:
        """The name of the lock for messages, or "" if there is no lock."""
        return f"file {self.file}" if self.file is not None else f"ZooKeeper {self.znode}" if self.ensemble else ""


def leader_settings(
    configuration: Configuration, scoped: Callable[[ConfigKey[Any]], str], cluster: str
) -> LeaderSettings:
    """Read the settings of the lock.

    Args:
        scoped: returns the form of a key that is set for this nameservice and NameNode.
        cluster: nameservice, or another name that all daemons of the cluster use.

    Raises:
        ConfigurationError: the value is not a lock, or ZooKeeper's address is missing.
    """
    lock = LOCK.read(configuration)
    ensemble = zookeeper_address(configuration, scoped)
    file: Path | None = None
    if lock.startswith("file:"):
        try:
            file = local_path(lock)
        except ValueError as fault:
            raise ConfigurationError([configuration.fault(LOCK.name, str(fault))]) from fault
        if file == Path("/"):
            raise ConfigurationError([configuration.fault(LOCK.name, "is not of the form file:///path/of/a/file")])
    elif lock not in (AUTO, NONE, ZOOKEEPER):
        raise ConfigurationError([configuration.fault(LOCK.name, "is not auto, none, zookeeper or file:///PATH")])
    elif lock == ZOOKEEPER and ensemble is None:
        raise ConfigurationError([configuration.fault(LOCK.name, f"is zookeeper, but {QUORUM.name} is not set")])
    return LeaderSettings(
        ensemble=None if file is not None or lock == NONE else ensemble,
        file=file,
        required=REQUIRED.read(configuration),
        session_timeout=SESSION_TIMEOUT.read(configuration, scoped(SESSION_TIMEOUT)),
        znode=f"/{PARENT.read(configuration).strip('/')}/{cluster.replace('/', '_') or 'default'}/leader",
    )
