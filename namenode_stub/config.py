"""Reads the stub's settings from Hadoop's own configuration keys, and reports all faults together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hadoop_common.access import AccessRules
from hadoop_common.config_key import BYTES, COUNT, ConfigKey, bound, text
from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.hadoop_releases import Release
from hadoop_common.port_limits import PortLimits
from hadoop_common.process_user import process_user
from hadoop_common.quantities import Network
from hadoop_common.tls.settings import WebAddresses
from journal.bookkeeper.settings import BookKeeperSettings
from journal.quorum.settings import QuorumSettings
from journal.shared_edits import directory_of, journal_uris
from namenode_stub.server_settings import ServerDefaults, configured_release
from namenode_stub.standby_settings import StandbySettings, standby_settings
from site_config import keys
from site_config.addresses import address, default_fs, identity
from site_config.failover_keys import AUTOMATIC_FAILOVER
from site_config.kerberos import KerberosSettings, ProcessKind
from site_config.namenode_keys import EDITS_DIR, EDITS_MINIMUM, EDITS_REQUIRED, ROLL_SHARE
from site_config.reader import AddressKeys, SettingsReader

LIST_LIMIT = ConfigKey("dfs.ls.limit", "1000", COUNT, "Maximum number of children in one page of a listing.", least=1)
MIN_BLOCK_SIZE = ConfigKey(
    "dfs.namenode.fs-limits.min-block-size", "1048576", BYTES, "Smallest block size of a new file.", least=0
)
SUPERGROUP = ConfigKey("dfs.permissions.superusergroup", "supergroup", text("name"), "Group of administrators.")
LOG_DIRECTORY = ConfigKey(
    "hadoop.log.dir", "${env.HADOOP_LOG_DIR:-.}", text("directory"), "Directory for the output of metaSave."
)

_RPC_PORT = 8020
_HTTP = AddressKeys(keys.HTTP_ADDRESS, keys.HTTP_BIND_HOST)
_HTTPS = AddressKeys(keys.HTTPS_ADDRESS, keys.HTTPS_BIND_HOST)


@dataclass(frozen=True, slots=True)
class StubConfig:
    """Settings of the stub; times in seconds.

    Attributes:
        image_directories: storage directories; their `current` folders contain the files.
        edits: URIs of the journals for edits.
        shared_edits: the journal among `edits` that a standby reads; always required; "" if there is none.
        required_edits: other journals without which the stub must stop.
        minimum_edits: number of journals that must work, in addition to the required journals.
        restore_edits: whether the stub retries a failed journal when a segment begins.
        roll_transactions, roll_period: limits at which the stub rolls its edit log; a period of 0 or less means never.
        checkpoint_transactions, checkpoint_period: limits below which the stub refuses an uploaded image as too recent.
        rpc_address: address of the RPC server; None disables the RPC server.
        rpc_user: the superuser, and the user name in calls to other servers: HADOOP_USER_NAME, or the user of the
            process.
        nameservice: "" if there is none.
        quorum: limits on JournalNodes.
        bookkeeper: settings of a journal on bookies.
        standby: settings for following another NameNode while the stub is not active.
        automatic_failover: whether a failover controller decides on the state of the stub, which then starts as a
            standby.
        supergroup: group of administrators, in addition to `rpc_user`.
        port_limits: resource limits of the peers of its servers.
        list_limit: maximum number of children in one page of a listing.
        min_block_size: minimum block size of a new file, in bytes.
        release: Hadoop release that the stub reports; None means the release of its layout.
        server_defaults: defaults sent to clients.
        access: rule for the hosts that may send and fetch images on an unsecured cluster.
        kerberos: None on an unsecured cluster.
        log_directory: directory for the output of metaSave: HADOOP_LOG_DIR, or the working directory.
    """

    image_directories: tuple[Path, ...]
    edits: tuple[str, ...]
    shared_edits: str
    web: WebAddresses
    roll_transactions: int
    checkpoint_period: float = bound(keys.CHECKPOINT_PERIOD)
    checkpoint_transactions: int = bound(keys.CHECKPOINT_TXNS)
    roll_period: float = bound(keys.HA_LOG_ROLL_PERIOD)
    images_retained: int = bound(keys.NUM_CHECKPOINTS_RETAINED)
    extra_edits_retained: int = bound(keys.NUM_EXTRA_EDITS_RETAINED)
    max_extra_segments: int = bound(keys.MAX_EXTRA_EDITS_SEGMENTS_RETAINED)
    required_edits: tuple[str, ...] = ()
    minimum_edits: int = bound(EDITS_MINIMUM)
    restore_edits: bool = bound(keys.NAME_DIR_RESTORE)
    rpc_address: tuple[str, int] | None = None
    rpc_user: str = field(default_factory=process_user)
    nameservice: str = ""
    quorum: QuorumSettings = field(default_factory=QuorumSettings)
    bookkeeper: BookKeeperSettings = field(default_factory=BookKeeperSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    automatic_failover: bool = bound(AUTOMATIC_FAILOVER, scoped=True)
    supergroup: str = bound(SUPERGROUP)
    stop_timeout: float = bound(keys.STOP_TIMEOUT)
    control_hosts: tuple[Network, ...] = bound(keys.CONTROL_HOSTS)
    port_limits: PortLimits = field(default_factory=PortLimits)
    # a larger listing would exceed the maximum size of an RPC message
    list_limit: int = bound(LIST_LIMIT)
    min_block_size: int = bound(MIN_BLOCK_SIZE)
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
        """Directory of `shared_edits`; None if the shared edits are not in a directory."""
        return directory_of(self.shared_edits)

    @property
    def storage_directories(self) -> tuple[Path, ...]:
        """All directories, without duplicates."""
        return tuple(dict.fromkeys([*self.image_directories, *self.edits_directories]))

    @property
    def own_directories(self) -> tuple[Path, ...]:
        """Directories that this NameNode does not share with another NameNode."""
        return tuple(each for each in self.storage_directories if each != self.shared_edits_directory)


def stub_config(configuration: Configuration) -> StubConfig:
    """Read the settings of this host's NameNode in the configuration.

    The stub writes the edit log to dfs.namenode.edits.dir (by default the name directories) and
    dfs.namenode.shared.edits.dir.

    Raises:
        ConfigurationError: values are unusable; the error reports all faults together.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    reader = _StubReader(settings, FaultCollector(), lambda: identity(settings))
    result = reader.read()
    reader.faults.raise_if_any()
    return result


class _StubReader(SettingsReader):
    def read(self) -> StubConfig:
        none: tuple[Path, ...] = ()
        images = self.take(self._image_directories, none)
        shared = self.take(self._shared_edits, "")
        edits: tuple[str, ...] = self.take(lambda: journal_uris(self.settings, self.scoped(EDITS_DIR)), ())
        edits = edits or tuple(directory.as_uri() for directory in images)
        if shared:
            edits = tuple(dict.fromkeys([*edits, shared]))
        bound_values = self.bound(StubConfig)
        transactions: int = bound_values["checkpoint_transactions"]
        return StubConfig(
            **bound_values,
            image_directories=images,
            edits=edits,
            shared_edits=shared,
            web=self.web(_HTTP, _HTTPS),
            roll_transactions=max(1, int(transactions * self.get(ROLL_SHARE))),
            required_edits=self.take(lambda: self._required_edits(edits), ()),
            rpc_address=self.take(self._rpc_address, None),
            rpc_user=self.user(),
            nameservice=self.who.nameservice,
            quorum=self.take(lambda: QuorumSettings.from_configuration(self.settings), QuorumSettings()),
            bookkeeper=self.take(lambda: BookKeeperSettings.from_configuration(self.settings), BookKeeperSettings()),
            standby=standby_settings(self.settings, self.who, self.faults),
            port_limits=self.port_limits(),
            release=self.take(lambda: configured_release(self.settings), None),
            server_defaults=ServerDefaults.of(self.settings, self.faults),
            log_directory=Path(LOG_DIRECTORY.read(self.settings)),
            access=self.access(),
            kerberos=self.kerberos(ProcessKind.NAMENODE),
        )

    def _image_directories(self) -> tuple[Path, ...]:
        key = self.scoped(keys.NAME_DIR)
        found = tuple(keys.NAME_DIR.read(self.settings, key))
        if not found:
            raise self.error(key, "names no directory")
        return found

    def _required_edits(self, edits: tuple[str, ...]) -> tuple[str, ...]:
        key = self.scoped(EDITS_REQUIRED)
        required = journal_uris(self.settings, key)
        if not set(required) <= set(edits):
            raise self.error(key, f"names a directory that is not in {EDITS_DIR.name}")
        return required

    def _shared_edits(self) -> str:
        key = self.scoped(keys.SHARED_EDITS_DIR)
        found = journal_uris(self.settings, key)
        if len(found) > 1:
            raise self.error(key, "names several directories")
        return found[0] if found else ""

    def _rpc_address(self) -> tuple[str, int] | None:
        """Read dfs.namenode.rpc-address, or else the host of fs.defaultFS; return None if neither is set."""
        host, port = address(self.settings, self.scoped(keys.RPC_ADDRESS), _RPC_PORT)
        if not host:
            host, port = default_fs(self.settings)
            if host in ("", self.who.nameservice):
                return None
        return keys.RPC_BIND_HOST.read(self.settings, self.scoped(keys.RPC_BIND_HOST)) or host, port
