"""Settings of the BookKeeper journal in Hadoop's configuration, and its URI (BookKeeperJournalManager)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hadoop_common.config_key import BYTES, COUNT, MILLISECONDS, SECONDS, ConfigKey, bound, read_bound, text
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.tls.settings import ClientStores
from hadoop_common.zookeeper.session import SaslLogin, ZooKeeperAddress, parse_acl, parse_auth
from hadoop_common.zookeeper.settings import LOGIN_KEYS, client_stores, parsed_value, sasl_login
from journal.bookkeeper.ledger_options import LedgerLimits, LedgerShape
from journal.errors import JournalError

SCHEME = "bookkeeper"

_PREFIX = "dfs.namenode.bookkeeperjournal"

OUTPUT_BUFFER = ConfigKey(
    f"{_PREFIX}.output-buffer-size",
    "1024",
    BYTES,
    "Size of an entry of a journal on BookKeeper; an entry contains at most one flush.",
    least=1,
)
ENSEMBLE = ConfigKey(f"{_PREFIX}.ensemble-size", "3", COUNT, "Number of bookies in a segment.", least=1)
QUORUM = ConfigKey(f"{_PREFIX}.quorum-size", "2", COUNT, "Number of bookies that store an entry.", least=1)
ACK_QUORUM = ConfigKey(
    f"{_PREFIX}.ack.quorum-size",
    "",
    text("count"),
    "Number of bookies that must acknowledge an entry (default: all bookies that store it).",
)
PASSWORD = ConfigKey(
    f"{_PREFIX}.digestPw", "", text("password"), "Password of the ledgers; ZooKeeper stores it in clear text."
)
SESSION_TIMEOUT = ConfigKey(
    f"{_PREFIX}.zk.session.timeout",
    "3000",
    MILLISECONDS,
    "Timeout of the ZooKeeper session; calls wait 3 s longer.",
    least=0.1,
)
AVAILABLE = ConfigKey(
    f"{_PREFIX}.zk.availablebookies",
    "/ledgers/available",
    text("znode"),
    "Znode of the bookies' registrations; its parent is the root of the ledgers.",
)
SPECULATIVE = ConfigKey(
    f"{_PREFIX}.speculativeReadTimeoutMs",
    "2000",
    MILLISECONDS,
    "Time without a response from a bookie after which an entry is also requested from another bookie.",
    least=0.001,
)
READ_TIMEOUT = ConfigKey(
    f"{_PREFIX}.readEntryTimeoutSec", "5", SECONDS, "Maximum wait for a bookie's response to a read.", least=0.001
)
ADD_TIMEOUT = ConfigKey(
    f"{_PREFIX}.addEntryTimeoutSec",
    "5",
    SECONDS,
    "Time after which a bookie that has not stored an entry is replaced.",
    least=0.001,
)
ACL = ConfigKey(
    "checkpointer.bookkeeper.zk.acl",
    "",
    text("ACL"),
    "ACL of the journal's znodes, as in ha.zookeeper.acl; if unset, all clients may access them. Specific to the "
    "checkpointer.",
)
AUTH = ConfigKey(
    "checkpointer.bookkeeper.zk.auth",
    "",
    text("credentials"),
    "Credentials for ZooKeeper, as in ha.zookeeper.auth, or @FILE to read them from FILE. Specific to the "
    "checkpointer.",
)


@dataclass(frozen=True, slots=True, repr=False)
class BookKeeperSettings:
    """Settings of a journal on BookKeeper; times in seconds.

    Attributes:
        output_buffer: size in bytes; an entry ends with the operation that makes the entry longer than this size.
        ensemble_size, write_quorum: number of bookies in a segment, and of bookies that store an entry. `ack_quorum`:
            number of bookies that must acknowledge an entry; 0 for all bookies that store the entry.
        available: the znode below which bookies register.
        acl, auth, sasl, tls: see `ZooKeeperAddress`.
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
    sasl: SaslLogin | None = None
    tls: ClientStores | None = None

    @property
    def shape(self) -> LedgerShape:
        return LedgerShape(self.ensemble_size, self.write_quorum, self.ack_quorum or self.write_quorum)

    @property
    def limits(self) -> LedgerLimits:
        return LedgerLimits(self.add_timeout, self.read_timeout, self.speculative_timeout)

    def ensemble(self, hosts: str) -> ZooKeeperAddress:
        """Return the address and options of the ZooKeeper ensemble at `hosts`, which the journal's URI names."""
        return ZooKeeperAddress(
            hosts,
            self.session_timeout,
            self.acl,
            self.auth,
            self.sasl,
            self.tls,
            named_by="the journal's URI",
            auth_key=AUTH.name,
        )

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> Self:
        """Read the keys `dfs.namenode.bookkeeperjournal.*` and `checkpointer.bookkeeper.*`.

        Raises:
            ConfigurationError: a value is invalid, or the quorums contradict each other.
        """
        ack = ACK_QUORUM.read(configuration)
        if ack and (not ack.isdecimal() or int(ack) < 1):
            raise ConfigurationError([configuration.fault(ACK_QUORUM.name, "must be a number, at least 1", ack)])
        found = cls(
            **read_bound(cls, configuration),
            ack_quorum=int(ack or 0),
            acl=parsed_value(configuration, ACL, parse_acl),
            auth=parsed_value(configuration, AUTH, parse_auth),
            sasl=sasl_login(configuration),
            tls=client_stores(configuration),
        )
        shape = found.shape
        if not shape.ack_quorum <= shape.write_quorum <= shape.ensemble_size:
            problem = f"must be at least {QUORUM.name}, which must be at least {ACK_QUORUM.name}"
            raise ConfigurationError([configuration.fault(ENSEMBLE.name, problem)])
        return found


READER_KEYS = (PASSWORD, SESSION_TIMEOUT, AVAILABLE, SPECULATIVE, READ_TIMEOUT, AUTH, *LOGIN_KEYS)
WRITER_KEYS = (OUTPUT_BUFFER, ENSEMBLE, QUORUM, ACK_QUORUM, ADD_TIMEOUT, ACL)


@dataclass(frozen=True, slots=True)
class BookKeeperAddress:
    """The ZooKeeper servers and the path of the journal's znode."""

    servers: tuple[str, ...]
    path: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse `bookkeeper://host:port;host:port/path`.

        Raises:
            JournalError: the URI is invalid.
        """
        scheme, _, rest = uri.partition("://")
        authority, _, path = rest.partition("/")
        servers = tuple(filter(None, (each.strip() for each in authority.replace(",", ";").split(";"))))
        path = path.rstrip("/")
        if scheme.lower() != SCHEME or not servers or any("@" in each or " " in each for each in servers):
            raise _fault(uri, "the URI has no ZooKeeper servers")
        if not path or "//" in path or not {"?", "#"}.isdisjoint(path):
            raise _fault(uri, f"{path!r} cannot be the journal's znode")
        return cls(servers, f"/{path}")

    @property
    def hosts(self) -> str:
        """The servers in the form that ZooKeeper's clients accept."""
        return ",".join(self.servers)

    @property
    def uri(self) -> str:
        return f"{SCHEME}://{';'.join(self.servers)}{self.path}"


def _fault(uri: str, problem: str) -> JournalError:
    return JournalError(f"{uri}: {problem}", hint=f"Write {SCHEME}://zookeeper:2181;zookeeper:2181/path.")
