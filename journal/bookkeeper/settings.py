"""What the BookKeeper journal reads from Hadoop's configuration, and its URI (BookKeeperJournalManager)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hadoop_common.config_key import BYTES, COUNT, MILLISECONDS, SECONDS, ConfigKey, bound, read_bound, text
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.tls.client_stores import ClientStores
from hadoop_common.zookeeper.address import SaslLogin, ZooKeeperAddress, parse_acl, parse_auth
from hadoop_common.zookeeper.settings import LOGIN_KEYS, client_stores, sasl_login, taken
from journal.bookkeeper.ledger_options import LedgerLimits, LedgerShape
from journal.errors import JournalError

SCHEME = "bookkeeper"

_PREFIX = "dfs.namenode.bookkeeperjournal"

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
    "Of znodes that the journal makes, as ha.zookeeper.acl has it; unset leaves them open to all. "
    "Specific to the checkpointer.",
)
AUTH = ConfigKey(
    "checkpointer.bookkeeper.zk.auth",
    "",
    text("credentials"),
    "What the session with ZooKeeper shows, as ha.zookeeper.auth has it; @FILE is read from there. "
    "Specific to the checkpointer.",
)


@dataclass(frozen=True, slots=True, repr=False)
class BookKeeperSettings:
    """How a journal on BookKeeper is written and read; times in seconds.

    Attributes:
        output_buffer: bytes from which on an entry is sent, at the end of an operation.
        ensemble_size, write_quorum, ack_quorum: on how many bookies a segment lies, each entry lies, and how many have
            to acknowledge it; 0 for all of these.
        available: the znode that bookies register below.
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
        """How the ZooKeeper at `hosts`, which the journal's URI names, is reached."""
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
            acl=taken(configuration, ACL, parse_acl),
            auth=taken(configuration, AUTH, parse_auth),
            sasl=sasl_login(configuration),
            tls=client_stores(configuration),
        )
        shape = found.shape
        if not shape.ack_quorum <= shape.write_quorum <= shape.ensemble_size:
            problem = f"must be at least {QUORUM.name}, and that at least {ACK_QUORUM.name}"
            raise ConfigurationError([configuration.fault(ENSEMBLE.name, problem)])
        return found


READER_KEYS = (PASSWORD, SESSION_TIMEOUT, AVAILABLE, SPECULATIVE, READ_TIMEOUT, AUTH, *LOGIN_KEYS)
WRITER_KEYS = (OUTPUT_BUFFER, ENSEMBLE, QUORUM, ACK_QUORUM, ADD_TIMEOUT, ACL)


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


def _fault(uri: str, problem: str) -> JournalError:
    return JournalError(f"{uri}: {problem}", hint=f"Write {SCHEME}://zookeeper:2181;zookeeper:2181/path.")
