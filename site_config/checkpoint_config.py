"""Reads the checkpointer's settings from Hadoop's configuration, and reports all faults together."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue

from engine.settings import MergeSettings
from hadoop_common.access import AccessRules
from hadoop_common.addresses import host_port
from hadoop_common.config_key import bound
from hadoop_common.configuration import (
    Configuration,
    ConfigurationError,
    ConfigurationFault,
    FaultCollector,
    local_path,
)
from hadoop_common.port_limits import PortLimits
from hadoop_common.quantities import Network
from hadoop_common.tls.settings import HTTP_POLICY, HttpPolicy, WebAddresses, tls_config
from image_format.memory_limit import MemoryLimit
from journal.bookkeeper.settings import BookKeeperSettings
from journal.quorum import settings as quorum_keys
from journal.quorum.settings import QuorumSettings
from journal.shared_edits import directory_of, shared_edits
from site_config import keys
from site_config.addresses import (
    RPC_PORT,
    Identity,
    address,
    identity,
    namenode_rpc,
    namenode_urls,
    parse_host_port,
    scoped_key,
)
from site_config.archive_settings import ArchiveSettings
from site_config.changed_keys import texts
from site_config.engine_settings import EngineSettings, engine_settings
from site_config.kerberos import KerberosSettings, ProcessKind
from site_config.leadership import LeaderSettings, leader_settings
from site_config.merge_settings import memory_limit, take_merge_settings
from site_config.namenode_keys import EDITS_DIR
from site_config.reader import AddressKeys, SettingsReader

_DATA_DIR = "dfs.datanode.data.dir"
# a DataNode's directory may begin with a storage type, such as [SSD]file:///data
_STORAGE_KIND = re.compile(r"^\[\w+\]")
# time limit of resolving a path, because commands must work while a mount of shared edits hangs
_RESOLVE_SECONDS = 2.0
_MODE_BITS = (0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001)


_NAMENODE_HTTP = AddressKeys(keys.HTTP_ADDRESS, keys.HTTP_BIND_HOST)
_NAMENODE_HTTPS = AddressKeys(keys.HTTPS_ADDRESS, keys.HTTPS_BIND_HOST)
_SECONDARY_HTTP, _SECONDARY_HTTPS = AddressKeys(keys.SECONDARY_HTTP_ADDRESS), AddressKeys(keys.SECONDARY_HTTPS_ADDRESS)
_BACKUP_HTTP = AddressKeys(keys.BACKUP_HTTP_ADDRESS)


class Role(Enum):
    """Role of this node in relation to the NameNode."""

    STANDBY = "standby"
    SECONDARY = "secondary"
    BACKUP = "backup"


# key that determines a node's nameservice, as in Hadoop (DFSUtil.getSecondaryNameServiceId, getBackupNameServiceId)
_OWN_ADDRESS = {Role.SECONDARY: (keys.SECONDARY_HTTP_ADDRESS,), Role.BACKUP: (keys.BACKUP_ADDRESS,)}


def identity_of(role: Role, settings: Configuration) -> Identity:
    """Return the identity of a node with the role; raise the same errors as `identity`."""
    return identity(settings, *_OWN_ADDRESS.get(role, ()))


@dataclass(frozen=True, slots=True)
class NamespaceRpc:
    """An address at which this node answers reads of the namespace over RPC.

    Attributes:
        is_namenode: whether the cluster's applications use this address, because it belongs to the NameNode that this
            node replaces.
    """

    address: tuple[str, int]
    is_namenode: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """Settings of one role. Times are in seconds, sizes in bytes, rates in bytes per second.

    Attributes:
        poll_interval: interval of checks for a pending checkpoint; at most `period`.
        namenode_http_addresses: `http://host:port` of the NameNodes that receive images.
        namenode_rpc_addresses: host and port of the same NameNodes' RPC servers, in the same order.
        rpc_user: user for calls, a superuser of HDFS; with Kerberos, the principal replaces this user.
        kerberos: None on a cluster without Kerberos.
        rpc_timeout: limit on each call.
        tail_period: interval of checks for new edits.
        tail_backoff: longest interval of checks for edits while no edits arrive; 0 means a constant interval.
        tail_in_progress: whether the tail also reads the open segment.
        log_roll_period: age of the active NameNode's open segment at which we request a roll; 0 or less means never.
        roll_retries: maximum number of requests to each NameNode for one roll.
        upload_parallelism: number of parallel uploads of an image.
        web: addresses of this node's HTTP and HTTPS servers; port 0 means any free port.
        rpc_bind_address: address of a backup node's RPC server; port 0 means any free port.
        access: hosts and users that may fetch images and segments, and stream edits to a backup node.
        image_directories: storage directories for images, which are stored in their `current` folders.
        edits_directories: directories for the secondary's fetched edits; empty for other roles.
        shared_edits: URI of the journal of a standby's shared edits, "" for other roles.
        nameservice: "" if there are no nameservices.
        quorum: limits on reading from JournalNodes.
        bookkeeper: limits on reading from bookies.
        engine: merge engine of the secondary.
        port_limits: limits for the clients of our servers.
        merge_settings: rules for replaying edits and writing images.
        standby_checkpoints: whether a standby makes checkpoints.
        rebootstrap: whether a standby fetches an image automatically if edits are missing.
        lag_alarm: time without progress after which a standby's pending edits raise an alarm; 0 means never.
        shadow: whether the daemon only compares images, uploads nothing, and changes nothing on the NameNodes.
        leader: lock of the leader election; none in shadow mode.
        archive: the archive of every transaction.
        serve_namespace: whether a standby or a backup node answers reads of the namespace.
        namespace_rpc: addresses at which this node answers these reads over RPC.
        namespace_sums: whether this node stores the sums of every directory for these reads.
        permissions: whether this node checks permissions for these reads.
        supergroup: group whose members may read everything.
        group_cache_seconds: time for which a user's groups are cached for these reads.
        lake_directory: directory or URI of the lake, "" if no lake is configured.
        lake_images_retained: number of images to keep in the lake; 0 keeps all.
        lake_master, lake_driver_memory: Spark's master, and the heap of its driver, for the lake.
        report_daily: whether the daemon makes a report about the first image of each day.
        report_directory: directory of these reports; "" means `reports` in the first storage directory.
        reports_retained: number of reports to keep.
        report_paths: file with path sets and tables, "" if no file is configured.
        report_memory: memory limit of each process of a report, in bytes.
        texts: values in files as strings, for log lines about changes.
        conf_dir: directory of the configuration, for child processes; None if unknown.
    """

    role: Role
    period: float = bound(keys.CHECKPOINT_PERIOD)
    poll_interval: float
    transactions: int = bound(keys.CHECKPOINT_TXNS)
    quiet_multiplier: float = bound(keys.CHECKPOINT_CHECK_QUIET_MULTIPLIER)
    max_retries: int = bound(keys.CHECKPOINT_MAX_RETRIES)
    images_retained: int = bound(keys.NUM_CHECKPOINTS_RETAINED)
    extra_edits_retained: int = bound(keys.NUM_EXTRA_EDITS_RETAINED)
    max_extra_segments: int = bound(keys.MAX_EXTRA_EDITS_SEGMENTS_RETAINED)
    image_directories: tuple[Path, ...]
    edits_directories: tuple[Path, ...]
    storage_permission: int
    restore_directories: bool
    shared_edits: str
    nameservice: str
    quorum: QuorumSettings
    bookkeeper: BookKeeperSettings
    standby_checkpoints: bool = bound(keys.HA_STANDBY_CHECKPOINTS, scoped=True)
    rebootstrap: bool = bound(keys.STANDBY_REBOOTSTRAP)
    lag_alarm: float = bound(keys.STANDBY_LAG_ALARM)
    namenode_ids: tuple[str, ...]
    namenode_http_addresses: tuple[str, ...]
    namenode_rpc_addresses: tuple[tuple[str, int], ...]
    rpc_user: str
    kerberos: KerberosSettings | None
    rpc_timeout: float = bound(keys.RPC_TIMEOUT)
    tail_period: float = bound(keys.HA_TAIL_EDITS_PERIOD)
    tail_backoff: float = bound(keys.HA_TAIL_EDITS_BACKOFF)
    tail_in_progress: bool = bound(quorum_keys.TAIL_IN_PROGRESS)
    log_roll_period: float = bound(keys.HA_LOG_ROLL_PERIOD)
    roll_retries: int = bound(keys.HA_TAIL_EDITS_NAMENODE_RETRIES)
    upload_parallelism: int = bound(keys.UPLOAD_PARALLELISM)
    web: WebAddresses
    rpc_bind_address: tuple[str, int]
    shadow: bool = bound(keys.SHADOW)
    leader: LeaderSettings
    access: AccessRules
    engine: EngineSettings
    merge_settings: MergeSettings
    port_limits: PortLimits
    stop_timeout: float = bound(keys.STOP_TIMEOUT)
    control_hosts: tuple[Network, ...] = bound(keys.CONTROL_HOSTS)
    transfer_timeout: float = bound(keys.IMAGE_TRANSFER_TIMEOUT)
    transfer_bandwidth: int = bound(keys.IMAGE_TRANSFER_BANDWIDTH_PER_SEC)
    bootstrap_bandwidth: int = bound(keys.IMAGE_TRANSFER_BOOTSTRAP_STANDBY_BANDWIDTH_PER_SEC)
    transfer_chunk_size: int = bound(keys.IMAGE_TRANSFER_CHUNKSIZE)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    serve_namespace: bool = bound(keys.NAMESPACE_SERVE)
    namespace_rpc: tuple[NamespaceRpc, ...] = ()
    namespace_sums: bool = bound(keys.NAMESPACE_SUMS)
    permissions: bool = bound(keys.PERMISSIONS)
    supergroup: str = bound(keys.SUPERGROUP)
    group_cache_seconds: float = bound(keys.GROUPS_CACHE)
    lake_directory: str = bound(keys.LAKE_DIR)
    lake_images_retained: int = bound(keys.LAKE_IMAGES_RETAINED)
    lake_master: str = bound(keys.LAKE_SPARK_MASTER)
    lake_driver_memory: str = bound(keys.LAKE_SPARK_DRIVER_MEMORY)
    report_daily: bool = bound(keys.REPORT_DAILY)
    report_directory: str = bound(keys.REPORT_DIR)
    reports_retained: int = bound(keys.REPORTS_RETAINED)
    report_paths: str = bound(keys.REPORT_PATHS)
    report_memory: int = bound(keys.REPORT_MEMORY)
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    conf_dir: Path | None = field(default=None, compare=False)

    @property
    def shared_edits_directory(self) -> Path | None:
        """Storage directory of `shared_edits`; None if the edits are in another kind of journal, or not configured."""
        return directory_of(self.shared_edits)

    @property
    def keeps_sums(self) -> bool:
        """Whether a warm namespace stores the sums of every directory."""
        return self.serve_namespace and self.namespace_sums

    @property
    def switched_off(self) -> str:
        """Reason why the configuration allows no checkpoints; "" if it allows them."""
        off = self.role is Role.STANDBY and not self.standby_checkpoints
        return f"{keys.HA_STANDBY_CHECKPOINTS.name} is false, so this standby makes no checkpoints" if off else ""

    @property
    def roll_after(self) -> float:
        """Age in seconds of the active NameNode's open segment at which we request a roll; 0 or less means never."""
        return 0.0 if self.shadow else self.log_roll_period

    def in_shadow(self) -> CheckpointConfig:
        """Return the settings of the same role in shadow mode, without leader election.

        Raises:
            ConfigurationError: the role cannot work without changing the NameNode.
        """
        if self.role is Role.BACKUP:
            problem = (
                "cannot be true for a backup node, because its registration changes the NameNode: use --role secondary"
            )
            raise ConfigurationError([ConfigurationFault(keys.SHADOW.name, problem)])
        return replace(self, shadow=True, leader=LeaderSettings())

    @classmethod
    def from_configuration(
        cls, configuration: Configuration, role: Role, *, namenodes: bool = True
    ) -> CheckpointConfig:
        """Read and check the settings of `role`; without `namenodes`, the NameNodes' addresses may be missing.

        Raises:
            ConfigurationError: names all faulty keys.
        """
        config, faults = cls.with_faults(configuration, role, namenodes=namenodes)
        if faults:
            raise ConfigurationError(faults)
        return config

    @classmethod
    def with_faults(
        cls, configuration: Configuration, role: Role, *, namenodes: bool = True
    ) -> tuple[CheckpointConfig, tuple[ConfigurationFault, ...]]:
        """Read the settings of `role` as `from_configuration` does; return them with substitutes for faulty values, and
        all faults.

        Raises:
            ConfigurationError: the identity of this node is faulty, so its keys cannot be found; names all faulty keys.
        """
        settings = configuration.with_defaults(keys.DEFAULTS)
        reader = _CheckpointReader(settings, FaultCollector(), lambda: identity_of(role, settings))
        config = reader.read(role, namenodes=namenodes)
        if not reader.is_identified:
            reader.raise_faults()
        return config, reader.all_faults()


class _CheckpointReader(SettingsReader):
    _role: Role
    _namenodes: bool

    def read(self, role: Role, *, namenodes: bool) -> CheckpointConfig:
        self._role, self._namenodes = role, namenodes and self.is_identified
        settings, who = self.settings, self.who
        policy = self.get(HTTP_POLICY)
        self.take(self._check_role, None)
        http: tuple[str, ...] = ()
        rpc: tuple[tuple[str, int], ...] = ()
        if self._namenodes:
            http = self.take(lambda: namenode_urls(settings, who, policy), ())
            rpc = self.take(lambda: namenode_rpc(settings, who), ())
        values = self.bound(CheckpointConfig)
        config = CheckpointConfig(
            **values,
            role=role,
            texts=texts(settings),
            poll_interval=min(self.get(keys.CHECKPOINT_CHECK_PERIOD), values["period"]),
            image_directories=self._image_directories(),
            edits_directories=self.take(self._edits_directories, ()),
            storage_permission=self.take(self._permission, 0),
            restore_directories=self._restore_directories(),
            shared_edits=self._shared_edits(),
            nameservice=who.nameservice,
            quorum=self._quorum(),
            bookkeeper=self.take(lambda: BookKeeperSettings.from_configuration(settings), BookKeeperSettings()),
            namenode_ids=tuple(who.others) if who.is_ha else (),
            namenode_http_addresses=http,
            namenode_rpc_addresses=rpc,
            rpc_user=self.user(),
            kerberos=self.kerberos(ProcessKind[role.name]),
            web=self._web(policy),
            rpc_bind_address=self._stream_address(),
            namespace_rpc=self.take(self._namespace_rpc, ()) if values["serve_namespace"] else (),
            leader=self.take(self._leader, LeaderSettings()),
            archive=ArchiveSettings(**self.bound(ArchiveSettings)),
            access=self.access(),
            engine=self.take(lambda: engine_settings(settings), EngineSettings()),
            merge_settings=replace(
                take_merge_settings(settings, self.faults),
                memory=self.take(lambda: memory_limit(settings), MemoryLimit()),
            ),
            port_limits=self.port_limits(),
        )
        return self.take(config.in_shadow, config) if config.shadow else config

    def _check_role(self) -> None:
        if self._role is not Role.STANDBY and len(self.who.namenodes) > 1:
            problem = "makes this an HA nameservice, whose standby makes the checkpoints: use --role standby"
            raise self.error(keys.HA_NAMENODES.of(self.who.nameservice), problem)

    def _image_directories(self) -> tuple[Path, ...]:
        key = keys.CHECKPOINT_DIR if self._role is Role.SECONDARY else keys.NAME_DIR
        name = self.scoped(key)

        def directories() -> tuple[Path, ...]:
            found = tuple(key.read(self.settings, name))
            if not found:
                raise self.error(name, "does not name a directory")
            self._check_directories_of_others(found, name)
            return found

        return self.take(directories, ())

    def _edits_directories(self) -> tuple[Path, ...]:
        if self._role is not Role.SECONDARY:
            return ()
        name = self.scoped(keys.CHECKPOINT_EDITS_DIR)
        if name not in self.settings:
            # the default names the generic key, and would ignore a directory that is set only for this nameservice
            return tuple(keys.CHECKPOINT_DIR.read(self.settings, self.scoped(keys.CHECKPOINT_DIR)))
        # Hadoop also copies the scoped key to the generic key before it replaces variables (initializeGenericKeys)
        settings = self.settings.with_copy(self.scoped(keys.CHECKPOINT_DIR), keys.CHECKPOINT_DIR.name)
        found = keys.CHECKPOINT_EDITS_DIR.read(settings, name)
        self._check_directories_of_others(found, name)
        return tuple(found)

    def _restore_directories(self) -> bool:
        """Return whether to retry failed directories; a secondary retries its directories unless the key is set to
        false.
        """
        if self._role is Role.SECONDARY and keys.NAME_DIR_RESTORE.name not in self.settings:
            return True
        return self.get(keys.NAME_DIR_RESTORE)

    def _check_directories_of_others(self, found: Sequence[Path], name: str) -> None:
        """Check that the directories do not belong to another node on this host, under any path.

        A standby and a backup node use a NameNode's keys. A DataNode's directory causes only a warning, because hosts
        with other nodes may share the configuration.
        """
        if both := self._shared_directory(found, _DATA_DIR, ""):
            problem = (
                f"names {both}, which {_DATA_DIR} also names as a DataNode's directory: only one node on a host can "
                "use it"
            )
            self.settings.warn(self.settings.fault(name, problem))
        if self._role is Role.STANDBY and (both := self._shared_directory(found, keys.SHARED_EDITS_DIR.name, "")):
            problem = f"names {both}, to which the active NameNode writes the edits ({keys.SHARED_EDITS_DIR.name})"
            raise self.error(name, problem)
        if self._role is not Role.SECONDARY:
            return
        for key in (keys.NAME_DIR, EDITS_DIR):
            if both := self._shared_directory(found, key.name, key.default):
                raise self.error(name, f"names {both}, which {key.name} assigns to a NameNode")

    def _shared_directory(self, found: Sequence[Path], key: str, default: str) -> Path | None:
        """Return the first directory that `key` assigns to another node."""
        own = set(map(_resolved, self._local_paths(key, default)))
        return next((path for path in found if any(_overlap(_resolved(path), each) for each in own)), None)

    def _local_paths(self, key: str, default: str) -> Iterator[Path]:
        """Yield the local directories of another node; ignore faulty values, because they do not concern this node."""
        name = scoped_key(self.settings, key, self.who.nameservice, self.who.own_id)
        with suppress(ConfigurationError):
            for item in self.settings.get_list(name, default):
                with suppress(ValueError):
                    yield local_path(_STORAGE_KIND.sub("", item))

    def _shared_edits(self) -> str:
        if self._role is not Role.STANDBY or not self.is_identified:
            return ""
        return self.take(lambda: shared_edits(self.settings, self.scoped(keys.SHARED_EDITS_DIR)), "")

    def _quorum(self) -> QuorumSettings:
        """Return the quorum settings that apply to readers; all other settings apply to writers."""
        return QuorumSettings(
            select_input_streams=self.get(quorum_keys.SELECT_INPUT_STREAMS),
            http_open=self.get(quorum_keys.HTTP_OPEN),
            http_read=self.get(quorum_keys.HTTP_READ),
            max_tail_transactions=self.get(quorum_keys.MAX_TAIL_TRANSACTIONS),
        )

    def _stream_address(self) -> tuple[str, int]:
        if self._role is not Role.BACKUP:
            return "", 0
        return self.take(lambda: self.address(AddressKeys(keys.BACKUP_ADDRESS)), ("", 0))

    def _namespace_rpc(self) -> tuple[NamespaceRpc, ...]:
        own, bind_host = ("", 0), ""
        if self._role is Role.STANDBY and self.who.own_id:
            own = address(self.settings, self.scoped(keys.RPC_ADDRESS), RPC_PORT)
            bind_host = keys.RPC_BIND_HOST.read(self.settings, self.scoped(keys.RPC_BIND_HOST))
        found = []
        for text in self.get(keys.NAMESPACE_RPC_ADDRESS):
            try:
                host, port = parse_host_port(text, RPC_PORT)
            except ValueError as fault:
                raise self.error(keys.NAMESPACE_RPC_ADDRESS.name, str(fault)) from fault
            # only ports are compared, because the key may contain another name or address of this host
            is_namenode = bool(own[0]) and port == own[1]
            found.append(NamespaceRpc((bind_host or host if is_namenode else host, port), is_namenode))
        return tuple(found)

    def _leader(self) -> LeaderSettings:
        if self._role is Role.BACKUP:
            # no election is needed, because each backup node has a separate stream of edits
            return LeaderSettings()
        rpc = () if self.who.nameservice or not self._namenodes else namenode_rpc(self.settings, self.who)
        name = self.who.nameservice or next((host_port(*each) for each in rpc), "")
        return leader_settings(self.settings, self.scoped, name)

    def _permission(self) -> int:
        text = keys.STORAGE_DIR_PERM.read(self.settings)
        if re.fullmatch(r"0?[0-7]{3}", text):
            return int(text, 8)
        if re.fullmatch(r"([r-][w-][x-]){3}", text):
            return sum(bit for bit, flag in zip(_MODE_BITS, text, strict=True) if flag != "-")
        raise self.error(keys.STORAGE_DIR_PERM.name, "is not a mode: expected three octal digits or nine of rwx-")

    def _web(self, policy: HttpPolicy) -> WebAddresses:
        if self._role is Role.BACKUP:
            # as in Hadoop, a backup node has the same web address for HTTP and HTTPS
            one = self.take(lambda: self.address(_BACKUP_HTTP), ("", 0))
            tls = tls_config(self.settings, policy, self.faults)
            return WebAddresses(one, None, tls) if policy.plain else WebAddresses(None, one, tls)
        if self._role is Role.SECONDARY or not self.who.own_id:
            return self.web(_SECONDARY_HTTP, _SECONDARY_HTTPS)
        return self.web(_NAMENODE_HTTP, _NAMENODE_HTTPS)


def _resolved(path: Path) -> Path:
    """Resolve symbolic links; return `path` itself if its mount does not answer. A loop of links is not a fault."""
    found: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=lambda: found.put(os.path.realpath(path)), name="resolve-path", daemon=True).start()
    with suppress(Empty):
        return Path(found.get(timeout=_RESOLVE_SECONDS))
    return path


def _overlap(one: Path, other: Path) -> bool:
    """Return whether two storage directories are equal, or one is inside `current` of the other."""
    return one == other or other / "current" in (one, *one.parents) or one / "current" in (other, *other.parents)
