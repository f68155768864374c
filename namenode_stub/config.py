"""The stub's settings, from Hadoop's own configuration keys; all faults are reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hadoop_common.access import AccessRules
from hadoop_common.config_key import BYTES, COUNT, ConfigKey, take_bound, text
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.hadoop_releases import Release
from hadoop_common.port_limits import PortLimits
from hadoop_common.quantities import Network
from hadoop_common.tls.settings import HTTP_POLICY, WebAddresses, tls_config
from hadoop_rpc.user import configured_user, process_user
from journal.bookkeeper.settings import BookKeeperSettings
from journal.quorum.settings import QuorumSettings
from journal.shared_edits import directory_of, journal_uris
from namenode_stub.server_settings import ServerDefaults, configured_release
from namenode_stub.standby_settings import StandbySettings, standby_settings
from site_config import keys
from site_config.access import access_rules
from site_config.addresses import Identity, address, default_fs, identity, scoped_key
from site_config.failover_keys import AUTOMATIC_FAILOVER
from site_config.kerberos import KerberosSettings, Part, kerberos_settings
from site_config.namenode_keys import EDITS_DIR, EDITS_MINIMUM, EDITS_REQUIRED, ROLL_SHARE, RPC_BIND_HOST

T = TypeVar("T")

LIST_LIMIT = ConfigKey("dfs.ls.limit", "1000", COUNT, "Maximum number of children in one page of a listing.", least=1)
MIN_BLOCK_SIZE = ConfigKey(
    "dfs.namenode.fs-limits.min-block-size", "1048576", BYTES, "Smallest block size of a new file.", least=0
)
SUPERGROUP = ConfigKey("dfs.permissions.superusergroup", "supergroup", text("name"), "Group of administrators.")
LOG_DIRECTORY = ConfigKey(
    "hadoop.log.dir", "${env.HADOOP_LOG_DIR:-.}", text("directory"), "Directory for the output of metaSave."
)

_RPC_PORT = 8020


@dataclass(frozen=True, slots=True)
class StubConfig:
    """Settings of the stub; times in seconds.

    Attributes:
        image_directories: storage directories; their `current` folders contain the files.
        edits: URIs of the journals for edits.
        shared_edits: the journal among them that a standby reads, always required; "" for none.
        required_edits: other journals without which the stub must stop.
        minimum_edits: how many of the journals that are not required must work.
        restore_edits: whether a failed journal is retried when a segment begins.
        roll_transactions, roll_period: when the stub rolls its edit log by itself; a period of 0 or less means never.
        checkpoint_transactions, checkpoint_period: limits below which an uploaded image is refused as too recent.
        rpc_address: address of the RPC server; None for no RPC server.
        rpc_user: the superuser and user name of calls to other servers: HADOOP_USER_NAME, or the user of the process.
        nameservice: "" if there is none.
        quorum: limits on JournalNodes.
        bookkeeper: of a journal on bookies.
        standby: how it follows another NameNode while it is not active.
        automatic_failover: whether a failover controller decides about its state; it then starts as a standby.
        supergroup: group of administrators, in addition to `rpc_user`.
        port_limits: resource limits of the peers of its servers.
        list_limit: maximum children in one page of a listing.
        min_block_size: of a new file, in bytes.
        release: Hadoop release that the stub reports; None for that of its layout.
        server_defaults: defaults sent to clients.
        access: who may send and fetch images on an unsecured cluster.
        kerberos: None on an unsecured cluster.
        log_directory: for the output of metaSave; HADOOP_LOG_DIR, or the working directory.
    """

    image_directories: tuple[Path, ...]
    edits: tuple[str, ...]
    shared_edits: str
    web: WebAddresses
    checkpoint_period: float
    checkpoint_transactions: int
    roll_transactions: int
    roll_period: float
    images_retained: int
    extra_edits_retained: int
    max_extra_segments: int
    required_edits: tuple[str, ...] = ()
    minimum_edits: int = EDITS_MINIMUM.fallback
    restore_edits: bool = False
    rpc_address: tuple[str, int] | None = None
    rpc_user: str = field(default_factory=process_user)
    nameservice: str = ""
    quorum: QuorumSettings = field(default_factory=QuorumSettings)
    bookkeeper: BookKeeperSettings = field(default_factory=BookKeeperSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    automatic_failover: bool = False
    supergroup: str = SUPERGROUP.fallback
    stop_timeout: float = keys.STOP_TIMEOUT.fallback
    control_hosts: tuple[Network, ...] = keys.CONTROL_HOSTS.fallback
    port_limits: PortLimits = field(default_factory=PortLimits)
    list_limit: int = LIST_LIMIT.fallback
    min_block_size: int = MIN_BLOCK_SIZE.fallback
    release: Release | None = None
    server_defaults: ServerDefaults = field(default_factory=ServerDefaults)
    log_directory: Path = Path()
    access: AccessRules = field(default_factory=AccessRules)
    kerberos: KerberosSettings | None = None

    @property
    def edits_directories(self) -> tuple[Path, ...]:
        """The journals that are storage directories."""
        found = map(directory_of, self.edits)
        return tuple(directory for directory in found if directory is not None)

    @property
    def shared_edits_directory(self) -> Path | None:
        """Directory of `shared_edits`; None if they are not in a directory."""
        return directory_of(self.shared_edits)

    @property
    def storage_directories(self) -> tuple[Path, ...]:
        """All directories, without duplicates."""
        return tuple(dict.fromkeys([*self.image_directories, *self.edits_directories]))

    @property
    def own_directories(self) -> tuple[Path, ...]:
        """Directories that are not shared with another NameNode."""
        return tuple(each for each in self.storage_directories if each != self.shared_edits_directory)


def stub_config(configuration: Configuration) -> StubConfig:
    """Read the settings of the NameNode that is this host's in the configuration.

    The edit log goes to dfs.namenode.edits.dir (by default the name directories), and to dfs.namenode.shared.edits.dir.

    Raises:
        ConfigurationError: values are unusable; reports all faults at once.
    """
    faults = FaultCollector()
    result = _StubConfigReader(configuration.with_defaults(keys.DEFAULTS), faults).read()
    faults.raise_if_any()
    return result


class _StubConfigReader:
    """Reader of the keys; faulty values are replaced, and their faults are raised at the end."""

    def __init__(self, settings: Configuration, faults: FaultCollector) -> None:
        self._settings = settings
        self._faults = faults
        self._who = faults.take(lambda: identity(settings), Identity())

    def read(self) -> StubConfig:
        none: tuple[Path, ...] = ()
        images = self._faults.take(self._image_directories, none)
        shared = self._faults.take(self._shared_edits, "")
        edits = self._uris(EDITS_DIR) or tuple(directory.as_uri() for directory in images)
        if shared:
            edits = tuple(dict.fromkeys([*edits, shared]))
        transactions = self._get(keys.CHECKPOINT_TXNS)
        return StubConfig(
            image_directories=images,
            edits=edits,
            shared_edits=shared,
            web=self._web(),
            checkpoint_period=self._get(keys.CHECKPOINT_PERIOD),
            checkpoint_transactions=transactions,
            roll_transactions=max(1, int(transactions * self._get(ROLL_SHARE))),
            roll_period=self._get(keys.HA_LOG_ROLL_PERIOD),
            images_retained=self._get(keys.NUM_CHECKPOINTS_RETAINED),
            extra_edits_retained=self._get(keys.NUM_EXTRA_EDITS_RETAINED),
            max_extra_segments=self._get(keys.MAX_EXTRA_EDITS_SEGMENTS_RETAINED),
            required_edits=self._faults.take(lambda: self._required_edits(edits), ()),
            minimum_edits=self._get(EDITS_MINIMUM),
            restore_edits=self._get(keys.NAME_DIR_RESTORE),
            rpc_address=self._faults.take(self._rpc_address, None),
            rpc_user=self._faults.take(lambda: configured_user(self._settings), ""),
            nameservice=self._who.nameservice,
            quorum=self._faults.take(lambda: QuorumSettings.from_configuration(self._settings), QuorumSettings()),
            bookkeeper=self._faults.take(
                lambda: BookKeeperSettings.from_configuration(self._settings), BookKeeperSettings()
            ),
            standby=standby_settings(self._settings, self._who, self._faults),
            automatic_failover=AUTOMATIC_FAILOVER.take(self._settings, self._faults, self._scoped(AUTOMATIC_FAILOVER)),
            supergroup=self._get(SUPERGROUP),
            stop_timeout=self._get(keys.STOP_TIMEOUT),
            control_hosts=self._get(keys.CONTROL_HOSTS),
            port_limits=PortLimits(**take_bound(PortLimits, self._settings, self._faults)),
            # a larger listing would be cut by the maximum RPC message
            list_limit=self._get(LIST_LIMIT),
            min_block_size=self._get(MIN_BLOCK_SIZE),
            release=self._faults.take(lambda: configured_release(self._settings), None),
            server_defaults=ServerDefaults.of(self._settings, self._faults),
            log_directory=Path(LOG_DIRECTORY.read(self._settings)),
            access=self._faults.take(lambda: access_rules(self._settings), AccessRules()),
            kerberos=self._faults.take(lambda: kerberos_settings(self._settings, self._who, Part.NAMENODE), None),
        )

    def _get(self, key: ConfigKey[T]) -> T:
        return key.take(self._settings, self._faults)

    def _scoped(self, key: ConfigKey[Any]) -> str:
        return scoped_key(self._settings, key.name, self._who.nameservice, self._who.own_id)

    def _image_directories(self) -> tuple[Path, ...]:
        key = self._scoped(keys.NAME_DIR)
        found = tuple(keys.NAME_DIR.read(self._settings, key))
        if not found:
            raise self._error(key, "names no directory")
        return found

    def _uris(self, key: ConfigKey[str]) -> tuple[str, ...]:
        return self._faults.take(lambda: journal_uris(self._settings, self._scoped(key)), ())

    def _required_edits(self, edits: tuple[str, ...]) -> tuple[str, ...]:
        key = self._scoped(EDITS_REQUIRED)
        required = journal_uris(self._settings, key)
        if not set(required) <= set(edits):
            raise self._error(key, f"names a directory that is not in {EDITS_DIR.name}")
        return required

    def _shared_edits(self) -> str:
        key = self._scoped(keys.SHARED_EDITS_DIR)
        found = journal_uris(self._settings, key)
        if len(found) > 1:
            raise self._error(key, "names several directories")
        return found[0] if found else ""

    def _web(self) -> WebAddresses:
        policy = self._get(HTTP_POLICY)
        http = self._faults.take(lambda: self._web_address(keys.HTTP_ADDRESS, keys.HTTP_BIND_HOST), ("", 0))
        https = self._faults.take(lambda: self._web_address(keys.HTTPS_ADDRESS, keys.HTTPS_BIND_HOST), ("", 0))
        tls = tls_config(self._settings, policy, self._faults)
        return WebAddresses(http if policy.plain else None, https if policy.secure else None, tls)

    def _web_address(self, key: ConfigKey[str], bind_host: ConfigKey[str]) -> tuple[str, int]:
        host, port = address(self._settings, self._scoped(key), key.port)
        return bind_host.read(self._settings, self._scoped(bind_host)) or host, port

    def _rpc_address(self) -> tuple[str, int] | None:
        """Read dfs.namenode.rpc-address, else the host of fs.defaultFS; None if neither is set."""
        host, port = address(self._settings, self._scoped(keys.RPC_ADDRESS), _RPC_PORT)
        if not host:
            host, port = default_fs(self._settings)
            if host in ("", self._who.nameservice):
                return None
        return RPC_BIND_HOST.read(self._settings, self._scoped(RPC_BIND_HOST)) or host, port

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
