"""What of the configuration says how daemons agree on one that leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hadoop_common.config_key import SWITCH, ConfigKey, text
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.settings import ENSEMBLE_KEYS, QUORUM, SESSION_TIMEOUT, zookeeper_address

AUTO, NONE, ZOOKEEPER = "auto", "none", "zookeeper"

LOCK = ConfigKey(
    "checkpointer.leader.lock",
    AUTO,
    text("lock"),
    "What daemons of one cluster agree by on the one that makes the checkpoints: `zookeeper`, `file:///shared/lock` on "
    "storage that all of them see, or `none`; `auto` is ZooKeeper where ha.zookeeper.quorum names one; a key of ours.",
)
REQUIRED = ConfigKey(
    "checkpointer.leader.required",
    "false",
    SWITCH,
    "Whether no checkpoint is made without that lock; else one that is late is made all the same; a key of ours.",
)
PARENT = ConfigKey(
    "checkpointer.leader.parent-znode",
    "/hadoop-checkpointer",
    text("znode"),
    "Below it lies a znode for each nameservice, and the lock there; a key of ours.",
)
LEADER_KEYS = (LOCK, REQUIRED, PARENT, *ENSEMBLE_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LeaderSettings:
    """How one daemon is chosen; neither `ensemble` nor `file` means that every daemon is for itself.

    Attributes:
        session_timeout: seconds.
        znode: path of the lock.
        file: the lock where it is a file.
    """

    ensemble: ZooKeeperAddress | None = None
    file: Path | None = None
    required: bool = False
    session_timeout: float = 10.0
    znode: str = ""

    @property
    def lock(self) -> str:
        """What keeps the lock, for status; "" for nothing."""
        return f"file {self.file}" if self.file is not None else f"ZooKeeper {self.znode}" if self.ensemble else ""


def leader_settings(
    configuration: Configuration, scoped: Callable[[ConfigKey[Any]], str], cluster: str
) -> LeaderSettings:
    """Read all of it.

    Args:
        scoped: the name by which a key is set for this nameservice and NameNode.
        cluster: nameservice, or another name that all daemons of the cluster have for it.

    Raises:
        ConfigurationError: the lock is none, or ZooKeeper is asked for and not named.
    """
    lock = LOCK.read(configuration)
    ensemble = zookeeper_address(configuration, scoped)
    file: Path | None = None
    if lock.startswith("file:"):
        uri = urlsplit(lock)
        file = Path(unquote(uri.path))
        if uri.netloc or not file.is_absolute() or file == Path("/"):
            raise ConfigurationError([configuration.fault(LOCK.name, "is not file:///path/of/a/file")])
    elif lock not in (AUTO, NONE, ZOOKEEPER):
        raise ConfigurationError([configuration.fault(LOCK.name, "is none of auto, none, zookeeper, file:///PATH")])
    elif lock == ZOOKEEPER and ensemble is None:
        raise ConfigurationError([configuration.fault(LOCK.name, f"is zookeeper, but {QUORUM.name} is not set")])
    return LeaderSettings(
        ensemble=None if file is not None or lock == NONE else ensemble,
        file=file,
        required=REQUIRED.read(configuration),
        session_timeout=SESSION_TIMEOUT.read(configuration, scoped(SESSION_TIMEOUT)),
        znode=f"{_absolute(PARENT.read(configuration))}/{cluster.replace('/', '_') or 'default'}/leader",
    )


def _absolute(znode: str) -> str:
    return f"/{znode.strip('/')}"
