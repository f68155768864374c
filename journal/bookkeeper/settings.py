"""What the BookKeeper journal reads from Hadoop's configuration, and its URI (BookKeeperJournalManager)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from hadoop_common.config_key import (
    BYTES,
    COUNT,
    MILLISECONDS,
    SECONDS,
    ConfigKey,
    bound,
    read_bound,
    text,
)
from hadoop_common.configuration import Configuration, ConfigurationError
from journal.bookkeeper.calls import LedgerLimits
from journal.bookkeeper.ledger_client import LedgerShape
from journal.errors import JournalError

T = TypeVar("T")

SCHEME = "bookkeeper"

_PREFIX = "dfs.namenode.bookkeeperjournal"
_PERMISSIONS = set("rwcda")

OUTPUT_BUFFER = ConfigKey(
    f"{_PREFIX}.output-buffer-size",
    "1024",
    BYTES,
    "A journal on BookKeeper: an entry holds that much, or one flush.",
    least=1,
)
ENSEMBLE = ConfigKey(f"{_PREFIX}.ensemble-size", "3", COUNT, "On how many bookies a segment lies.", least=1)
QUORUM = ConfigKey(f"{_PREFIX}.quorum-size", "2", COUNT, "On how many of them each entry lies.", least=1)
ACK_QUORUM = ConfigKey(
    f"{_PREFIX}.ack.quorum-size", "", text("count"), "How many of these have to acknowledge it; by default all."
)
PASSWORD = ConfigKey(f"{_PREFIX}.digestPw", "", text("password"), "Of the ledgers; it lies in ZooKeeper in clear.")
SESSION_TIMEOUT = ConfigKey(
    f"{_PREFIX}.zk.session.timeout",
    "3000",
    MILLISECONDS,
    "Of the session with ZooKeeper; calls wait 3 s longer.",
    least=0.1,
)
AVAILABLE = ConfigKey(
    f"{_PREFIX}.zk.availablebookies",
    "/ledgers/available",
    text("znode"),
    "Where bookies register; ledgers lie beside it.",
)
SPECULATIVE = ConfigKey(
    f"{_PREFIX}.speculativeReadTimeoutMs",
    "2000",
    MILLISECONDS,
    "After it another bookie is asked for an entry.",
    least=0.001,
)
READ_TIMEOUT = ConfigKey(
    f"{_PREFIX}.readEntryTimeoutSec", "5", SECONDS, "Limit on the answer of a bookie that is read from.", least=0.001
)
ADD_TIMEOUT = ConfigKey(
    f"{_PREFIX}.addEntryTimeoutSec",
    "5",
    SECONDS,
    "A bookie that has not stored an entry within it is replaced.",
    least=0.001,
)
ACL = ConfigKey(
    "checkpointer.bookkeeper.zk.acl",
    "",
    text("ACL"),
    "Of znodes that the journal makes, as ha.zookeeper.acl has it; unset leaves them open to all; a key of ours.",
)
AUTH = ConfigKey(
    "checkpointer.bookkeeper.zk.auth",
    "",
    text("credentials"),
    "What the session with ZooKeeper shows, as ha.zookeeper.auth has it; @FILE is read from there; a key of ours.",
)


@dataclass(frozen=True, slots=True, repr=False)
class BookKeeperSettings:
    """How a journal on BookKeeper is written and read; times in seconds.

    Attributes:
        output_buffer: bytes from which on an entry is sent, at the end of an operation.
        ensemble_size, write_quorum, ack_quorum: on how many bookies a segment lies, each entry lies, and how many have
            to acknowledge it; 0 for all of these.
        available: the znode that bookies register below.
        acl, auth: see `ZooKeeperAddress`.
    """

    output_buffer: int = bound(OUTPUT_BUFFER)
    ensemble_size: int = bound(ENSEMBLE)
    write_quorum: int = bound(QUORUM)
    ack_quorum: int = 0
    password: str = bound(PASSWORD)
    session_timeout: float = bound(SESSION_TIMEOUT)
    available: str = bound(AVAILABLE)
    speculative_timeout: float = bound(SPECULATIVE)
    read_timeout: float = bound(READ_TIMEOUT)
    add_timeout: float = bound(ADD_TIMEOUT)
    acl: tuple[tuple[str, str, str], ...] = ()
    auth: tuple[tuple[str, str], ...] = ()

    @property
    def shape(self) -> LedgerShape:
        return LedgerShape(self.ensemble_size, self.write_quorum, self.ack_quorum or self.write_quorum)

    @property
    def limits(self) -> LedgerLimits:
        return LedgerLimits(self.add_timeout, self.read_timeout, self.speculative_timeout)

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> Self:
        """By the keys `dfs.namenode.bookkeeperjournal.*` and `checkpointer.bookkeeper.*`.

        Raises:
            ConfigurationError: a value is none that the key can have, or quorums do not go together.
        """
        ack = ACK_QUORUM.read(configuration)
        if ack and (not ack.isdecimal() or int(ack) < 1):
            raise ConfigurationError([configuration.fault(ACK_QUORUM.name, "must be a number, at least 1", ack)])
        found = cls(
            **read_bound(cls, configuration),
            ack_quorum=int(ack or 0),
            acl=_taken(configuration, ACL, parse_acl),
            auth=_taken(configuration, AUTH, parse_auth),
        )
        shape = found.shape
        if not shape.ack_quorum <= shape.write_quorum <= shape.ensemble_size:
            problem = f"must be at least {QUORUM.name}, and that at least {ACK_QUORUM.name}"
            raise ConfigurationError([configuration.fault(ENSEMBLE.name, problem)])
        return found


READER_KEYS = (PASSWORD, SESSION_TIMEOUT, AVAILABLE, SPECULATIVE, READ_TIMEOUT, AUTH)
WRITER_KEYS = (OUTPUT_BUFFER, ENSEMBLE, QUORUM, ACK_QUORUM, ADD_TIMEOUT, ACL)


def parse_acl(value: str) -> tuple[tuple[str, str, str], ...]:
    """Scheme, id and permissions of each part; ValueError where it is no ACL."""
    found = []
    for part in _parts(value):
        scheme, _, rest = part.partition(":")
        who, _, granted = rest.rpartition(":")
        if not scheme or not who or not granted or not set(granted) <= _PERMISSIONS:
            raise ValueError(f"{part!r} is not scheme:id:permissions, such as digest:user:hash:cdrwa")
        found.append((scheme, who, granted))
    return tuple(found)


def parse_auth(value: str) -> tuple[tuple[str, str], ...]:
    """Scheme and credential of each part; ValueError where it is none. The value may be in a file, as @FILE."""
    if value.startswith("@"):
        try:
            value = Path(value[1:]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            raise ValueError(f"{value[1:]} cannot be read: {fault}") from fault
    found = []
    for part in _parts(value):
        scheme, separator, credential = part.partition(":")
        if not scheme or not separator:
            raise ValueError("a part is not scheme:credential, such as digest:user:password")
        found.append((scheme, credential))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class BookKeeperAddress:
    """The ZooKeeper servers and the journal's znode there."""

    servers: tuple[str, ...]
    path: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read `bookkeeper://host:port;host:port/path`.

        Raises:
            JournalError: it is none.
        """
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        servers = tuple(filter(None, (each.strip() for each in authority.replace(",", ";").split(";"))))
        path = path.rstrip("/")
        if scheme.lower() != SCHEME or not servers or any("@" in each or " " in each for each in servers):
            raise _fault(uri, "it names no ZooKeeper servers")
        if not path or "//" in path or not {"?", "#"}.isdisjoint(path):
            raise _fault(uri, f"{path!r} cannot be the journal's znode")
        return cls(servers, f"/{path}")

    @property
    def hosts(self) -> str:
        """As ZooKeeper's clients have them."""
        return ",".join(self.servers)

    @property
    def uri(self) -> str:
        return f"{SCHEME}://{';'.join(self.servers)}{self.path}"


def _taken(configuration: Configuration, key: ConfigKey[str], parse: Callable[[str], T]) -> T:
    value = key.read(configuration)
    try:
        return parse(value)
    except ValueError as fault:
        raise ConfigurationError([configuration.fault(key.name, str(fault))]) from fault


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _fault(uri: str, problem: str) -> JournalError:
    return JournalError(f"{uri}: {problem}", hint=f"Write {SCHEME}://zookeeper:2181;zookeeper:2181/path.")
