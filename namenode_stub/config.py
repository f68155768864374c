"""The stub's settings, from Hadoop's own configuration keys; every fault in them is reported at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from checkpointer.config.addresses import Identity, address, identity, scoped_key
from checkpointer.config.keys import DEFAULTS
from checkpointer.config.rpc_user import process_user, rpc_user
from checkpointer.config.shared_edits import directory_of, journal_uris
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from journal.quorum.settings import QuorumSettings
from namenode_stub.server_defaults import ServerDefaults
from namenode_stub.standby_settings import StandbySettings, standby_settings

__all__ = ["StubConfig", "stub_config"]

N = TypeVar("N", int, float)

_ROLL_SHARE_KEY = "dfs.namenode.edit.log.autoroll.multiplier.threshold"
_ROLL_PERIOD_KEY = "dfs.ha.log-roll.period"
_EDITS_KEY = "dfs.namenode.edits.dir"
_RESTORE_KEY = "dfs.namenode.name.dir.restore"
_LOG_KEY = "hadoop.log.dir"
_STUB_DEFAULTS = {
    _ROLL_SHARE_KEY: "0.5",
    _ROLL_PERIOD_KEY: "120s",
    _EDITS_KEY: "",
    f"{_EDITS_KEY}.required": "",
    f"{_EDITS_KEY}.minimum": "1",
    "dfs.ls.limit": "1000",
    "dfs.permissions.superusergroup": "supergroup",
    "dfs.blocksize": "128m",
    "dfs.bytes-per-checksum": "512",
    "dfs.replication": "3",
    "io.file.buffer.size": "4096",
    "fs.trash.interval": "0",
    _LOG_KEY: "${env.HADOOP_LOG_DIR:-.}",
}
_HTTP_PORT = 9870
_RPC_PORT = 8020


@dataclass(frozen=True, slots=True)
class StubConfig:
    """What the stub needs; times in seconds.

    Attributes:
        image_directories: storage directories; their `current` folders hold the files.
        edits: URIs of the journals that the edits go to.
        shared_edits: the one of them that a standby reads, without which the stub must not go on; "" for none.
        required_edits: others without which it must not go on.
        minimum_edits: how many of those that are not required have to work.
        restore_edits: whether a failed journal is tried again when a segment begins.
        roll_transactions, roll_period: when it rolls its edit log by itself; a period of 0 or less is never.
        checkpoint_transactions, checkpoint_period: how young an image it refuses.
        rpc_address: where Hadoop's clients and checkpointers call; None for no RPC server.
        rpc_user: the superuser, and whom other servers take the stub for: HADOOP_USER_NAME, or the user it runs as.
        nameservice: "" where there is none.
        quorum: limits on JournalNodes.
        standby: how it follows another NameNode while it is not active itself.
        supergroup: whose members administer, beside `rpc_user`.
        list_limit: most children in one page of a listing.
        server_defaults: what clients are told to take.
        log_directory: where metaSave writes; HADOOP_LOG_DIR, or where the stub was started.
    """

    image_directories: tuple[Path, ...]
    edits: tuple[str, ...]
    shared_edits: str
    http_address: tuple[str, int]
    checkpoint_period: float
    checkpoint_transactions: int
    roll_transactions: int
    roll_period: float
    images_retained: int
    extra_edits_retained: int
    max_extra_segments: int
    required_edits: tuple[str, ...] = ()
    minimum_edits: int = 1
    restore_edits: bool = False
    rpc_address: tuple[str, int] | None = None
    rpc_user: str = field(default_factory=process_user)
    nameservice: str = ""
    quorum: QuorumSettings = field(default_factory=QuorumSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    supergroup: str = "supergroup"
    list_limit: int = 1000
    server_defaults: ServerDefaults = field(default_factory=ServerDefaults)
    log_directory: Path = Path()

    @property
    def edits_directories(self) -> tuple[Path, ...]:
        """The journals that are storage directories."""
        found = map(directory_of, self.edits)
        return tuple(directory for directory in found if directory is not None)

    @property
    def shared_edits_directory(self) -> Path | None:
        """Where `shared_edits` is; None where it is no directory."""
        return directory_of(self.shared_edits)

    @property
    def storage_directories(self) -> tuple[Path, ...]:
        """All directories, each once."""
        return tuple(dict.fromkeys([*self.image_directories, *self.edits_directories]))

    @property
    def own_directories(self) -> tuple[Path, ...]:
        """Those that are not shared with another NameNode."""
        return tuple(each for each in self.storage_directories if each != self.shared_edits_directory)


def stub_config(configuration: Configuration) -> StubConfig:
    """Settings of the NameNode that this configuration calls its own.

    The edit log goes to dfs.namenode.edits.dir, which are the name directories unless it is set, and to
    dfs.namenode.shared.edits.dir.

    Raises:
        ConfigurationError: a value cannot be used; all faults are named at once.
    """
    faults = FaultCollector()
    result = _Reader(configuration.with_defaults({**DEFAULTS, **_STUB_DEFAULTS}), faults).read()
    faults.raise_if_any()
    return result


class _Reader:
    """Reads one key after the other; a faulty one yields a stand-in, and the faults are raised at the end."""

    def __init__(self, settings: Configuration, faults: FaultCollector) -> None:
        self._settings = settings
        self._faults = faults
        self._who = faults.take(lambda: identity(settings), Identity())

    def read(self) -> StubConfig:
        none: tuple[Path, ...] = ()
        images = self._faults.take(self._image_directories, none)
        shared = self._faults.take(self._shared_edits, "")
        edits = self._uris(_EDITS_KEY) or tuple(directory.as_uri() for directory in images)
        if shared:
            edits = tuple(dict.fromkeys([*edits, shared]))
        transactions = self._at_least("dfs.namenode.checkpoint.txns", self._settings.get_int, 1)
        roll_share = self._at_least(_ROLL_SHARE_KEY, self._settings.get_float, 0.0)
        retained, extra = "dfs.namenode.num.checkpoints.retained", "dfs.namenode.num.extra.edits.retained"
        segments = "dfs.namenode.max.extra.edits.segments.retained"
        return StubConfig(
            image_directories=images,
            edits=edits,
            shared_edits=shared,
            http_address=self._faults.take(self._http_address, ("", 0)),
            checkpoint_period=self._at_least("dfs.namenode.checkpoint.period", self._settings.get_time, 0.001),
            checkpoint_transactions=transactions,
            roll_transactions=max(1, int(transactions * roll_share)),
            roll_period=self._faults.take(lambda: self._settings.get_time(_ROLL_PERIOD_KEY), 0.0),
            images_retained=self._at_least(retained, self._settings.get_int, 1),
            extra_edits_retained=self._at_least(extra, self._settings.get_int, 0),
            max_extra_segments=self._at_least(segments, self._settings.get_int, 0),
            required_edits=self._faults.take(lambda: self._required_edits(edits), ()),
            minimum_edits=self._at_least(f"{_EDITS_KEY}.minimum", self._settings.get_int, 0),
            restore_edits=self._faults.take(lambda: self._settings.get_bool(_RESTORE_KEY), False),
            rpc_address=self._faults.take(self._rpc_address, None),
            rpc_user=self._faults.take(lambda: rpc_user(self._settings), ""),
            nameservice=self._who.nameservice,
            quorum=self._faults.take(lambda: QuorumSettings.from_configuration(self._settings), QuorumSettings()),
            standby=standby_settings(self._settings, self._who, self._faults),
            supergroup=self._settings.get("dfs.permissions.superusergroup", ""),
            # A listing that asked for more would be cut by the largest RPC message.
            list_limit=self._at_least("dfs.ls.limit", self._settings.get_int, 1),
            server_defaults=self._server_defaults(),
            log_directory=Path(self._settings.get(_LOG_KEY, "")),
        )

    def _server_defaults(self) -> ServerDefaults:
        return ServerDefaults(
            block_size=self._at_least("dfs.blocksize", self._settings.get_size, 1),
            bytes_per_checksum=self._at_least("dfs.bytes-per-checksum", self._settings.get_int, 1),
            replication=self._at_least("dfs.replication", self._settings.get_int, 1),
            buffer_size=self._at_least("io.file.buffer.size", self._settings.get_int, 1),
            trash_interval=self._at_least("fs.trash.interval", self._settings.get_int, 0),
        )

    def _at_least(self, key: str, getter: Callable[[str], N], least: N) -> N:
        def checked() -> N:
            value = getter(key)
            if value < least:
                raise self._error(key, f"must be at least {least:g}")
            return value

        return self._faults.take(checked, least)

    def _scoped(self, key: str) -> str:
        return scoped_key(self._settings, key, self._who.nameservice, self._who.own_id)

    def _image_directories(self) -> tuple[Path, ...]:
        key = self._scoped("dfs.namenode.name.dir")
        found = tuple(self._settings.get_path_list(key))
        if not found:
            raise self._error(key, "names no directory")
        return found

    def _uris(self, name: str) -> tuple[str, ...]:
        return self._faults.take(lambda: journal_uris(self._settings, self._scoped(name)), ())

    def _required_edits(self, edits: tuple[str, ...]) -> tuple[str, ...]:
        key = self._scoped(f"{_EDITS_KEY}.required")
        required = journal_uris(self._settings, key)
        if not set(required) <= set(edits):
            raise self._error(key, f"names a directory that is not in {_EDITS_KEY}")
        return required

    def _shared_edits(self) -> str:
        key = self._scoped("dfs.namenode.shared.edits.dir")
        found = journal_uris(self._settings, key)
        if len(found) > 1:
            raise self._error(key, "names several directories")
        return found[0] if found else ""

    def _http_address(self) -> tuple[str, int]:
        host, port = address(self._settings, self._scoped("dfs.namenode.http-address"), _HTTP_PORT)
        return self._settings.get(self._scoped("dfs.namenode.http-bind-host"), "") or host, port

    def _rpc_address(self) -> tuple[str, int] | None:
        """dfs.namenode.rpc-address, else the host of fs.defaultFS; None where neither says where it is."""
        host, port = address(self._settings, self._scoped("dfs.namenode.rpc-address"), _RPC_PORT)
        if not host:
            default_fs = urlsplit(self._settings.get("fs.defaultFS", ""))
            if default_fs.scheme != "hdfs" or not default_fs.hostname or default_fs.hostname == self._who.nameservice:
                return None
            host, port = default_fs.hostname, _RPC_PORT if default_fs.port is None else default_fs.port
        return self._settings.get(self._scoped("dfs.namenode.rpc-bind-host"), "") or host, port

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
