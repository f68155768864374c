"""The checkpointer's settings, read from Hadoop's own configuration; every fault in it is reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from checkpointer.config.addresses import (
    Identity,
    address,
    identity,
    namenode_rpc,
    namenode_urls,
    scoped_key,
)
from checkpointer.config.catalogue import refusals
from checkpointer.config.engine_settings import EngineSettings, engine_settings
from checkpointer.config.keys import DEFAULTS
from checkpointer.config.memory_settings import memory_limit
from checkpointer.config.rpc_user import rpc_user
from checkpointer.config.shared_edits import directory_of, shared_edits
from engine.replay_rules import ReplayRules
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from image_format.memory_limit import MemoryLimit
from image_format.sub_sections import SubSectionRule
from journal.quorum.settings import QuorumSettings

__all__ = ["CheckpointConfig", "Role", "image_codec", "replay_rules", "sub_section_rule"]

N = TypeVar("N", int, float)
T = TypeVar("T")

_POLICIES = ("HTTP_ONLY", "HTTPS_ONLY", "HTTP_AND_HTTPS")
_MODE_BITS = (0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001)


class Role(Enum):
    """What this node is to the NameNode."""

    STANDBY = "standby"
    SECONDARY = "secondary"
    BACKUP = "backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """Settings of one role. Times are in seconds, sizes in bytes, rates in bytes a second.

    Attributes:
        poll_interval: how often to look whether a checkpoint is due; at most `period`.
        namenode_http_addresses: `http://host:port` of the NameNodes that images go to.
        namenode_rpc_addresses: host and port of the same NameNodes' RPC servers, in the same order.
        rpc_user: the user that calls are made as; a superuser of HDFS.
        rpc_timeout: limit on each call.
        tail_period: how often new edits are looked for.
        tail_in_progress: whether the segment that is open is read too.
        log_roll_period: how long the active's segment may stay open before we ask for a roll; 0 or less is for ever.
        roll_retries: NameNodes that are asked for a roll, one after the other, before that is given up.
        upload_parallelism: how many NameNodes get an image at once.
        http_bind_address: host and port of our own HTTP server; port 0 is any free one.
        rpc_bind_address: host and port of a backup node's RPC server, in the same way.
        image_directories: storage directories; their `current` folders hold the images.
        edits_directories: where the secondary keeps the edits it fetched; empty for other roles.
        shared_edits: URI of the journal that the active writes its edits to for a standby, "" for other roles.
        nameservice: "" where there is none.
        quorum: limits on reading a quorum of JournalNodes.
        engine: what merges in the secondary.
        merge_settings: how edits are replayed and images are written.
        standby_checkpoints: false where a standby is to make none.
        rebootstrap: whether a standby fetches an image by itself where edits are missing.
        lag_alarm: how long edits may wait in a standby without one being applied; 0 for ever.
        lake_directory: directory or URI of the lake that images and edits are appended to, "" for none.
        lake_images_retained: images that the lake keeps, 0 for all.
        lake_master, lake_driver_memory: how Spark is run for that.
    """

    role: Role
    period: float
    poll_interval: float
    transactions: int
    quiet_multiplier: float
    max_retries: int
    images_retained: int
    extra_edits_retained: int
    max_extra_segments: int
    image_directories: tuple[Path, ...]
    edits_directories: tuple[Path, ...]
    storage_permission: int
    restore_directories: bool
    shared_edits: str
    nameservice: str
    quorum: QuorumSettings
    standby_checkpoints: bool
    rebootstrap: bool
    lag_alarm: float
    namenode_http_addresses: tuple[str, ...]
    namenode_rpc_addresses: tuple[tuple[str, int], ...]
    rpc_user: str
    rpc_timeout: float
    tail_period: float
    tail_in_progress: bool
    log_roll_period: float
    roll_retries: int
    upload_parallelism: int
    http_bind_address: tuple[str, int]
    rpc_bind_address: tuple[str, int]
    http_policy: str
    engine: EngineSettings
    merge_settings: MergeSettings
    transfer_timeout: float
    transfer_bandwidth: int
    bootstrap_bandwidth: int
    transfer_chunk_size: int
    lake_directory: str
    lake_images_retained: int
    lake_master: str
    lake_driver_memory: str

    @property
    def shared_edits_directory(self) -> Path | None:
        """The storage directory that `shared_edits` names; None where it names another kind of journal, or nothing."""
        return directory_of(self.shared_edits)

    @classmethod
    def from_configuration(cls, configuration: Configuration, role: Role) -> CheckpointConfig:
        """Read and check everything `role` needs.

        Raises:
            ConfigurationError: all that is wrong.
        """
        settings = configuration.with_defaults(DEFAULTS)
        faults = FaultCollector()
        result = _Reader(settings, role, faults).read()
        for fault in refusals(settings):
            faults.add(fault)
        faults.raise_if_any()
        return result


def image_codec(configuration: Configuration) -> str:
    """Class name of the codec that images are to be written with, "" for none.

    Raises:
        ConfigurationError: dfs.image.compress is no switch.
    """
    settings = configuration.with_defaults(DEFAULTS)
    return settings.get("dfs.image.compression.codec", "") if settings.get_bool("dfs.image.compress") else ""


def sub_section_rule(configuration: Configuration) -> SubSectionRule | None:
    """When new images get sub-sections (`dfs.image.parallel.*`), None where parallel loading is off.

    Raises:
        ConfigurationError: a key holds no switch, or no number that makes sense.
    """
    settings = configuration.with_defaults(DEFAULTS)
    if not settings.get_bool("dfs.image.parallel.load"):
        return None
    target, threshold = (
        _positive(settings, f"dfs.image.parallel.{name}") for name in ("target.sections", "inode.threshold")
    )
    return SubSectionRule(target, threshold, settings.get_bool("checkpointer.image.parallel-compressed"))


def replay_rules(configuration: Configuration) -> ReplayRules:
    """What of the configuration decides how edits are replayed.

    Raises:
        ConfigurationError: a key holds no switch, or no number that makes sense.
    """
    settings = configuration.with_defaults(DEFAULTS)
    return ReplayRules(
        min_replication=_positive(settings, "dfs.namenode.replication.min"),
        max_replication=_positive(settings, "dfs.replication.max"),
        capture_open_files=settings.get_bool("dfs.namenode.snapshot.capture.openfiles"),
        skip_access_time_changes=settings.get_bool("dfs.namenode.snapshot.skip.capture.accesstime-only-change"),
        ordered_snapshot_deletion=settings.get_bool("dfs.namenode.snapshot.deletion.ordered"),
    )


def _positive(settings: Configuration, key: str) -> int:
    value = settings.get_int(key)
    if value < 1:
        raise ConfigurationError([settings.fault(key, "must be at least 1")])
    return value


class _Reader:
    """Reads one key after the other; a faulty one yields a stand-in, and the faults are raised at the end."""

    def __init__(self, settings: Configuration, role: Role, faults: FaultCollector) -> None:
        self._settings = settings
        self._role = role
        self._faults = faults
        self._who = faults.take(lambda: identity(settings), Identity())

    def read(self) -> CheckpointConfig:
        period = self._at_least(self._time("dfs.namenode.checkpoint.period"), 0.001)
        check = self._at_least(self._time("dfs.namenode.checkpoint.check.period"), 0.001)
        quiet_key = "dfs.namenode.checkpoint.check.quiet-multiplier"
        policy = self._policy()
        self._take(self._check_role, None)
        return CheckpointConfig(
            role=self._role,
            period=period,
            poll_interval=min(check, period),
            transactions=self._at_least(self._int("dfs.namenode.checkpoint.txns"), 1),
            quiet_multiplier=self._at_least((quiet_key, self._settings.get_float), 0.0),
            max_retries=self._at_least(self._int("dfs.namenode.checkpoint.max-retries"), 0),
            images_retained=self._at_least(self._int("dfs.namenode.num.checkpoints.retained"), 1),
            extra_edits_retained=self._at_least(self._int("dfs.namenode.num.extra.edits.retained"), 0),
            max_extra_segments=self._at_least(self._int("dfs.namenode.max.extra.edits.segments.retained"), 0),
            image_directories=self._image_directories(),
            edits_directories=self._take(self._edits_directories, ()),
            storage_permission=self._permission(),
            restore_directories=self._take(lambda: self._settings.get_bool("dfs.namenode.name.dir.restore"), False),
            shared_edits=self._shared_edits(),
            nameservice=self._who.nameservice,
            quorum=self._quorum(),
            standby_checkpoints=self._take(self._standby_checkpoints, True),
            rebootstrap=self._take(lambda: self._settings.get_bool("checkpointer.standby.rebootstrap"), False),
            lag_alarm=self._at_least(self._time("checkpointer.standby.lag-alarm"), 0.0),
            namenode_http_addresses=self._take(lambda: namenode_urls(self._settings, self._who, policy), ()),
            namenode_rpc_addresses=self._take(lambda: namenode_rpc(self._settings, self._who), ()),
            rpc_user=self._take(lambda: rpc_user(self._settings), ""),
            rpc_timeout=self._at_least(self._time("ipc.client.rpc-timeout.ms", "ms"), 0.001),
            tail_period=self._at_least(self._time("dfs.ha.tail-edits.period"), 0.001),
            tail_in_progress=self._take(lambda: self._settings.get_bool("dfs.ha.tail-edits.in-progress"), False),
            log_roll_period=self._take(lambda: self._settings.get_time("dfs.ha.log-roll.period"), 0.0),
            roll_retries=self._at_least(self._int("dfs.ha.tail-edits.namenode-retries"), 1),
            upload_parallelism=self._at_least(self._int("checkpointer.upload.parallelism"), 1),
            http_bind_address=self._take(self._bind_address, ("", 0)),
            rpc_bind_address=self._take(
                lambda: address(self._settings, self._scoped("dfs.namenode.backup.address"), 50100), ("", 0)
            ),
            http_policy=policy,
            engine=self._take(lambda: engine_settings(self._settings), EngineSettings()),
            merge_settings=MergeSettings(
                codec=self._take(lambda: image_codec(self._settings), ""),
                sub_sections=self._take(lambda: sub_section_rule(self._settings), None),
                rules=self._take(lambda: replay_rules(self._settings), ReplayRules()),
                memory=self._take(lambda: memory_limit(self._settings), MemoryLimit()),
            ),
            transfer_timeout=self._at_least(self._time("dfs.image.transfer.timeout", "ms"), 0.001),
            transfer_bandwidth=self._at_least(self._size("dfs.image.transfer.bandwidthPerSec"), 0),
            bootstrap_bandwidth=self._at_least(self._size("dfs.image.transfer-bootstrap-standby.bandwidthPerSec"), 0),
            transfer_chunk_size=self._at_least(self._size("dfs.image.transfer.chunksize"), 1),
            lake_directory=self._settings.get("checkpointer.lake.dir", ""),
            lake_images_retained=self._at_least(self._int("checkpointer.lake.images.retained"), 0),
            lake_master=self._settings.get("checkpointer.lake.spark.master", ""),
            lake_driver_memory=self._settings.get("checkpointer.lake.spark.driver-memory", ""),
        )

    # ---- numbers -------------------------------------------------------------------------------------------

    def _time(self, key: str, unit: str = "s") -> tuple[str, Callable[[str], float]]:
        return key, lambda name: self._settings.get_time(name, unit=unit)

    def _int(self, key: str) -> tuple[str, Callable[[str], int]]:
        return key, self._settings.get_int

    def _size(self, key: str) -> tuple[str, Callable[[str], int]]:
        return key, self._settings.get_size

    def _at_least(self, setting: tuple[str, Callable[[str], N]], least: N) -> N:
        key, getter = setting

        def checked() -> N:
            value = getter(key)
            if value < least:
                raise self._error(key, f"must be at least {least:g}")
            return value

        return self._faults.take(checked, least)

    # ---- places --------------------------------------------------------------------------------------------

    def _check_role(self) -> None:
        if self._role is not Role.STANDBY and len(self._who.namenodes) > 1:
            problem = "makes this an HA nameservice, whose standby makes the checkpoints: use --role standby"
            raise self._error(f"dfs.ha.namenodes.{self._who.nameservice}", problem)

    def _scoped(self, key: str) -> str:
        return scoped_key(self._settings, key, self._who.nameservice, self._who.own_id)

    def _image_directories(self) -> tuple[Path, ...]:
        secondary = self._role is Role.SECONDARY
        key = self._scoped("dfs.namenode.checkpoint.dir" if secondary else "dfs.namenode.name.dir")

        def directories() -> tuple[Path, ...]:
            found = tuple(self._settings.get_path_list(key))
            if not found:
                raise self._error(key, "names no directory")
            return found

        return self._take(directories, ())

    def _edits_directories(self) -> tuple[Path, ...]:
        if self._role is not Role.SECONDARY:
            return ()
        found = self._settings.get_path_list(self._scoped("dfs.namenode.checkpoint.edits.dir"))
        if found == self._settings.get_path_list("dfs.namenode.checkpoint.dir"):
            # The default does not know of a directory that is set for this nameservice alone.
            found = self._settings.get_path_list(self._scoped("dfs.namenode.checkpoint.dir"))
        return tuple(found)

    def _shared_edits(self) -> str:
        if self._role is not Role.STANDBY:
            return ""
        return self._take(lambda: shared_edits(self._settings, self._scoped("dfs.namenode.shared.edits.dir")), "")

    def _quorum(self) -> QuorumSettings:
        """What a reader goes by; the rest is the writer's."""
        return QuorumSettings(
            select_input_streams=self._at_least(
                self._time("dfs.qjournal.select-input-streams.timeout.ms", "ms"), 0.001
            ),
            http_open=self._at_least(self._time("dfs.qjournal.http.open.timeout.ms", "ms"), 0.0),
            http_read=self._at_least(self._time("dfs.qjournal.http.read.timeout.ms", "ms"), 0.0),
            max_tail_transactions=self._at_least(self._int("dfs.ha.tail-edits.qjm.rpc.max-txns"), 1),
        )

    def _standby_checkpoints(self) -> bool:
        return self._settings.get_bool(self._scoped("dfs.ha.standby.checkpoints"))

    def _permission(self) -> int:
        key = "dfs.namenode.storage.dir.perm"

        def permission() -> int:
            text = self._settings.get(key, "")
            if re.fullmatch(r"0?[0-7]{3}", text):
                return int(text, 8)
            if re.fullmatch(r"([r-][w-][x-]){3}", text):
                return sum(bit for bit, flag in zip(_MODE_BITS, text, strict=True) if flag != "-")
            raise self._error(key, "is no mode: expected three octal digits or nine of rwx-")

        return self._take(permission, 0)

    def _policy(self) -> str:
        key = "dfs.http.policy"

        def policy() -> str:
            text = self._settings.get(key, "")
            if text not in _POLICIES:
                raise self._error(key, f"is none of {', '.join(_POLICIES)}")
            return text

        return self._take(policy, _POLICIES[0])

    def _bind_address(self) -> tuple[str, int]:
        if self._role is Role.BACKUP:
            return address(self._settings, self._scoped("dfs.namenode.backup.http-address"), 50105)
        if self._role is Role.SECONDARY or not self._who.own_id:
            return address(self._settings, self._scoped("dfs.namenode.secondary.http-address"), 9868)
        _, port = own = address(self._settings, self._scoped("dfs.namenode.http-address"), 9870)
        bind_host = self._settings.get(self._scoped("dfs.namenode.http-bind-host"), "")
        return (bind_host, port) if bind_host else own

    def _take(self, getter: Callable[[], T], fallback: T) -> T:
        return self._faults.take(getter, fallback)

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
