"""The checkpointer's settings, read from Hadoop's own configuration; every fault in it is reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from engine.settings import MergeSettings, ReplayRules
from hadoop_common.access import AccessRules
from hadoop_common.addresses import host_port
from hadoop_common.config_key import ConfigKey, bound, take_bound
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector, local_path
from hadoop_common.port_limits import PortLimits
from hadoop_common.quantities import Network
from hadoop_common.tls.settings import HTTP_POLICY, HttpPolicy, WebAddresses, tls_config
from hadoop_rpc.user import configured_user
from image_format.memory_limit import MemoryLimit
from journal.bookkeeper.settings import BookKeeperSettings
from journal.quorum import settings as quorum_keys
from journal.quorum.settings import QuorumSettings
from journal.shared_edits import directory_of, shared_edits
from site_config import keys
from site_config.access import access_rules
from site_config.addresses import Identity, address, identity, namenode_rpc, namenode_urls, scoped_key
from site_config.catalogue import refusals
from site_config.changed_keys import texts
from site_config.engine_settings import EngineSettings, engine_settings
from site_config.kerberos import KerberosSettings, Part, kerberos_settings
from site_config.leadership import LeaderSettings, leader_settings
from site_config.memory_settings import memory_limit
from site_config.merge_settings import image_codec, replay_rules, sub_section_rule
from site_config.namenode_keys import EDITS_DIR

T = TypeVar("T")

_MODE_BITS = (0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001)


class _WebKeys(NamedTuple):
    namenode: ConfigKey[str]
    bind_host: ConfigKey[str]
    secondary: ConfigKey[str]


_HTTP = _WebKeys(keys.HTTP_ADDRESS, keys.HTTP_BIND_HOST, keys.SECONDARY_HTTP_ADDRESS)
_HTTPS = _WebKeys(keys.HTTPS_ADDRESS, keys.HTTPS_BIND_HOST, keys.SECONDARY_HTTPS_ADDRESS)


class Role(Enum):
    """What this node is to the NameNode."""

    STANDBY = "standby"
    SECONDARY = "secondary"
    BACKUP = "backup"


# of which nameservice a node is, in Hadoop too (DFSUtil.getSecondaryNameServiceId, getBackupNameServiceId)
_OWN_ADDRESS = {Role.SECONDARY: (keys.SECONDARY_HTTP_ADDRESS,), Role.BACKUP: (keys.BACKUP_ADDRESS,)}


def identity_of(role: Role, settings: Configuration) -> Identity:
    """Where a node of that role belongs; raises as `identity`."""
    return identity(settings, *_OWN_ADDRESS.get(role, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """Settings of one role. Times are in seconds, sizes in bytes, rates in bytes a second.

    Attributes:
        poll_interval: how often to look whether a checkpoint is due; at most `period`.
        namenode_http_addresses: `http://host:port` of the NameNodes that images go to.
        namenode_rpc_addresses: host and port of the same NameNodes' RPC servers, in the same order.
        rpc_user: the user that calls are made as; a superuser of HDFS. With Kerberos its principal counts instead.
        kerberos: None where the cluster has none.
        rpc_timeout: limit on each call.
        tail_period: how often new edits are looked for.
        tail_backoff: longest pause between looks while there are no edits; 0 for none.
        tail_in_progress: whether the segment that is open is read too.
        log_roll_period: how long the active's segment may stay open before we ask for a roll; 0 or less is for ever.
        roll_retries: NameNodes that are asked for a roll, one after the other, before that is given up.
        upload_parallelism: how many NameNodes get an image at once.
        web: where our own servers of HTTP and HTTPS listen; port 0 is any free one.
        rpc_bind_address: host and port of a backup node's RPC server, in the same way.
        access: who may fetch images and segments from here, and stream edits to a backup node.
        image_directories: storage directories; their `current` folders hold the images.
        edits_directories: where the secondary keeps the edits it fetched; empty for other roles.
        shared_edits: URI of the journal that the active writes its edits to for a standby, "" for other roles.
        nameservice: "" where there is none.
        quorum: limits on reading a quorum of JournalNodes.
        bookkeeper: the same of a journal on bookies.
        engine: what merges in the secondary.
        port_limits: what the peers of its servers may take.
        merge_settings: how edits are replayed and images are written.
        standby_checkpoints: false where a standby is to make none.
        rebootstrap: whether a standby fetches an image by itself where edits are missing.
        lag_alarm: how long edits may wait in a standby without one being applied; 0 for ever.
        leader: how daemons agree on the one that makes the checkpoints.
        lake_directory: directory or URI of the lake that images and edits are appended to, "" for none.
        lake_images_retained: images that the lake keeps, 0 for all.
        lake_master, lake_driver_memory: how Spark is run for that.
        texts: the values of the keys that files set, by which the log tells what changed.
    """

    role: Role
    period: float
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
    standby_checkpoints: bool
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
    lake_directory: str = bound(keys.LAKE_DIR)
    lake_images_retained: int = bound(keys.LAKE_IMAGES_RETAINED)
    lake_master: str = bound(keys.LAKE_SPARK_MASTER)
    lake_driver_memory: str = bound(keys.LAKE_SPARK_DRIVER_MEMORY)
    texts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def shared_edits_directory(self) -> Path | None:
        """The storage directory that `shared_edits` names; None where it names another kind of journal, or nothing."""
        return directory_of(self.shared_edits)

    @classmethod
    def from_configuration(
        cls, configuration: Configuration, role: Role, *, namenodes: bool = True
    ) -> CheckpointConfig:
        """Read and check everything `role` needs; without `namenodes` the addresses of those may be missing.

        Raises:
            ConfigurationError: all that is wrong.
        """
        settings = configuration.with_defaults(keys.DEFAULTS)
        faults = FaultCollector()
        result = _Reader(settings, role, faults, namenodes=namenodes).read()
        for fault in refusals(settings):
            faults.add(fault)
        faults.raise_if_any()
        return result


class _Reader:
    """Reads one key after the other; a faulty one yields a stand-in, and the faults are raised at the end."""

    def __init__(self, settings: Configuration, role: Role, faults: FaultCollector, *, namenodes: bool) -> None:
        self._namenodes = namenodes
        self._settings = settings
        self._role = role
        self._faults = faults
        self._who = faults.take(lambda: identity_of(role, settings), Identity())

    def read(self) -> CheckpointConfig:
        period = self._get(keys.CHECKPOINT_PERIOD)
        check = self._get(keys.CHECKPOINT_CHECK_PERIOD)
        policy = self._get(HTTP_POLICY)
        self._take(self._check_role, None)
        http: tuple[str, ...] = ()
        rpc: tuple[tuple[str, int], ...] = ()
        if self._namenodes:
            http = self._take(lambda: namenode_urls(self._settings, self._who, policy), ())
            rpc = self._take(lambda: namenode_rpc(self._settings, self._who), ())
        return CheckpointConfig(
            **take_bound(CheckpointConfig, self._settings, self._faults),
            role=self._role,
            texts=texts(self._settings),
            period=period,
            poll_interval=min(check, period),
            image_directories=self._image_directories(),
            edits_directories=self._take(self._edits_directories, ()),
            storage_permission=self._permission(),
            restore_directories=self._restore_directories(),
            shared_edits=self._shared_edits(),
            nameservice=self._who.nameservice,
            quorum=self._quorum(),
            bookkeeper=self._take(lambda: BookKeeperSettings.from_configuration(self._settings), BookKeeperSettings()),
            standby_checkpoints=self._get(keys.HA_STANDBY_CHECKPOINTS, scoped=True),
            namenode_ids=tuple(self._who.others) if self._who.is_ha else (),
            namenode_http_addresses=http,
            namenode_rpc_addresses=rpc,
            rpc_user=self._take(lambda: configured_user(self._settings), ""),
            kerberos=self._take(self._kerberos, None),
            web=self._web(policy),
            rpc_bind_address=self._take(lambda: self._address(keys.BACKUP_ADDRESS), ("", 0)),
            leader=self._take(self._leader, LeaderSettings()),
            access=self._take(lambda: access_rules(self._settings), AccessRules()),
            engine=self._take(lambda: engine_settings(self._settings), EngineSettings()),
            merge_settings=MergeSettings(
                codec=self._take(lambda: image_codec(self._settings), ""),
                sub_sections=self._take(lambda: sub_section_rule(self._settings), None),
                rules=self._take(lambda: replay_rules(self._settings), ReplayRules()),
                max_op_size=self._get(keys.MAX_OP_SIZE),
                memory=self._take(lambda: memory_limit(self._settings), MemoryLimit()),
            ),
            port_limits=PortLimits(**take_bound(PortLimits, self._settings, self._faults)),
        )

    def _get(self, key: ConfigKey[T], *, scoped: bool = False) -> T:
        return key.take(self._settings, self._faults, self._scoped(key) if scoped else "")

    # ---- places --------------------------------------------------------------------------------------------

    def _check_role(self) -> None:
        if self._role is not Role.STANDBY and len(self._who.namenodes) > 1:
            problem = "makes this an HA nameservice, whose standby makes the checkpoints: use --role standby"
            raise self._error(keys.HA_NAMENODES.of(self._who.nameservice), problem)

    def _scoped(self, key: ConfigKey[Any]) -> str:
        return scoped_key(self._settings, key.name, self._who.nameservice, self._who.own_id)

    def _address(self, key: ConfigKey[str]) -> tuple[str, int]:
        return address(self._settings, self._scoped(key), key.port)

    def _image_directories(self) -> tuple[Path, ...]:
        key = keys.CHECKPOINT_DIR if self._role is Role.SECONDARY else keys.NAME_DIR
        name = self._scoped(key)

        def directories() -> tuple[Path, ...]:
            found = tuple(key.read(self._settings, name))
            if not found:
                raise self._error(name, "names no directory")
            if self._role is Role.SECONDARY:
                self._refuse_namenode_directories(found, name)
            return found

        return self._take(directories, ())

    def _edits_directories(self) -> tuple[Path, ...]:
        if self._role is not Role.SECONDARY:
            return ()
        found = keys.CHECKPOINT_EDITS_DIR.read(self._settings, self._scoped(keys.CHECKPOINT_EDITS_DIR))
        if found == keys.CHECKPOINT_DIR.read(self._settings):
            # The default does not know of a directory that is set for this nameservice alone.
            found = keys.CHECKPOINT_DIR.read(self._settings, self._scoped(keys.CHECKPOINT_DIR))
        else:
            self._refuse_namenode_directories(found, self._scoped(keys.CHECKPOINT_EDITS_DIR))
        return tuple(found)

    def _restore_directories(self) -> bool:
        """A secondary's directories are its own alone, so that they are retried unless that is set to false."""
        if self._role is Role.SECONDARY and keys.NAME_DIR_RESTORE.name not in self._settings:
            return True
        return self._get(keys.NAME_DIR_RESTORE)

    def _refuse_namenode_directories(self, found: Sequence[Path], name: str) -> None:
        """A NameNode's own directory must not be a secondary's too, whatever path leads to it."""
        for key in (keys.NAME_DIR, EDITS_DIR):
            own = {path.resolve() for path in self._local_paths(key)}
            if both := next((path for path in found if path.resolve() in own), None):
                raise self._error(name, f"names {both}, which is a NameNode's own by {key.name}")

    def _local_paths(self, key: ConfigKey[Any]) -> Iterator[Path]:
        """The local ones of a NameNode's directories; what is wrong with others is no matter of ours."""
        with suppress(ConfigurationError):
            for item in self._settings.get_list(self._scoped(key), key.default):
                with suppress(ValueError):
                    yield local_path(item)

    def _shared_edits(self) -> str:
        if self._role is not Role.STANDBY:
            return ""
        return self._take(lambda: shared_edits(self._settings, self._scoped(keys.SHARED_EDITS_DIR)), "")

    def _quorum(self) -> QuorumSettings:
        """What a reader goes by; the rest is the writer's."""
        return QuorumSettings(
            select_input_streams=self._get(quorum_keys.SELECT_INPUT_STREAMS),
            http_open=self._get(quorum_keys.HTTP_OPEN),
            http_read=self._get(quorum_keys.HTTP_READ),
            max_tail_transactions=self._get(quorum_keys.MAX_TAIL_TRANSACTIONS),
        )

    def _leader(self) -> LeaderSettings:
        if self._role is Role.BACKUP:
            # Each has a stream of edits of its own.
            return LeaderSettings()
        rpc = () if self._who.nameservice or not self._namenodes else namenode_rpc(self._settings, self._who)
        name = self._who.nameservice or next((host_port(*each) for each in rpc), "")
        return leader_settings(self._settings, self._scoped, name)

    def _kerberos(self) -> KerberosSettings | None:
        return kerberos_settings(self._settings, self._who, Part[self._role.name])

    def _permission(self) -> int:
        def permission() -> int:
            text = keys.STORAGE_DIR_PERM.read(self._settings)
            if re.fullmatch(r"0?[0-7]{3}", text):
                return int(text, 8)
            if re.fullmatch(r"([r-][w-][x-]){3}", text):
                return sum(bit for bit, flag in zip(_MODE_BITS, text, strict=True) if flag != "-")
            raise self._error(keys.STORAGE_DIR_PERM.name, "is not a mode: expected three octal digits or nine of rwx-")

        return self._take(permission, 0)

    def _web(self, policy: HttpPolicy) -> WebAddresses:
        tls = tls_config(self._settings, policy, self._faults)
        http = self._take(lambda: self._bind_address(_HTTP), ("", 0))
        if self._role is Role.BACKUP:
            # Hadoop has one address for its web server
            return WebAddresses(http, None, tls) if policy.plain else WebAddresses(None, http, tls)
        https = self._take(lambda: self._bind_address(_HTTPS), ("", 0))
        return WebAddresses(http if policy.plain else None, https if policy.secure else None, tls)

    def _bind_address(self, kind: _WebKeys) -> tuple[str, int]:
        if self._role is Role.BACKUP:
            return self._address(keys.BACKUP_HTTP_ADDRESS)
        if self._role is Role.SECONDARY or not self._who.own_id:
            return self._address(kind.secondary)
        _, port = own = self._address(kind.namenode)
        bind_host = kind.bind_host.read(self._settings, self._scoped(kind.bind_host))
        return (bind_host, port) if bind_host else own

    def _take(self, getter: Callable[[], T], fallback: T) -> T:
        return self._faults.take(getter, fallback)

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
