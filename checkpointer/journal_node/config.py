"""The JournalNode's settings, from Hadoop's own keys; every fault in them is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checkpointer.config.addresses import address
from checkpointer.config.catalogue import refusals
from checkpointer.config.keys import DEFAULTS
from checkpointer.config.rpc_user import rpc_user
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from journal.errors import JournalError
from journal.quorum.address import NodeAddress, QuorumAddress

__all__ = ["ConfiguredJournal", "JournalNodeConfig"]

N = TypeVar("N", int, float)
T = TypeVar("T")

_EDITS_DIR = "dfs.journalnode.edits.dir"
_SHARED = "dfs.namenode.shared.edits.dir"
_FRACTION = "dfs.journalnode.edit-cache-size.fraction"
_HEAP = 1000 << 20  # HADOOP_HEAPSIZE, of which Hadoop's fraction is one


@dataclass(frozen=True, slots=True)
class ConfiguredJournal:
    """A journal that a NameNode of this configuration writes to: `nodes` are all its JournalNodes."""

    journal_id: str
    nodes: tuple[NodeAddress, ...]
    nameservice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNodeConfig:
    """Settings of a JournalNode. Times are in seconds, sizes in bytes, rates in bytes a second.

    Attributes:
        rpc_address, http_address: host and port to listen on; port 0 is any free one.
        rpc_port: the port by which `nodes` of a journal know this node.
        edits_directory: where journals are kept, each in a folder of its id.
        edits_directories: where those of a nameservice are kept instead.
        handlers: calls that are performed at once.
        sync_interval: how often a peer is asked for missed segments; None for never.
        sync_format: whether a journal that is not formatted is formatted as peers are.
        cache_bytes: newest transactions that are kept in memory for each journal; None for none.
        journals: those of `dfs.namenode.shared.edits.dir`.
    """

    rpc_address: tuple[str, int]
    rpc_port: int
    http_address: tuple[str, int]
    edits_directory: Path
    edits_directories: Mapping[str, Path]
    directory_permission: int
    handlers: int
    sync_interval: float | None
    sync_format: bool
    cache_bytes: int | None
    transfer_timeout: float
    transfer_bandwidth: int
    rpc_user: str
    journals: tuple[ConfiguredJournal, ...]

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JournalNodeConfig:
        """Read and check everything a JournalNode needs.

        Raises:
            ConfigurationError: all that is wrong.
        """
        settings = configuration.with_defaults(DEFAULTS)
        faults = FaultCollector()
        result = _Reader(settings, faults).read()
        for fault in refusals(settings):
            faults.add(fault)
        faults.raise_if_any()
        return result

    def directory_of(self, nameservice: str | None) -> Path:
        """Where the journals of a nameservice are kept (JournalNode.getLogDir)."""
        return self.edits_directories.get(nameservice or "", self.edits_directory)


class _Reader:
    """Reads one key after the other; a faulty one yields a stand-in, and the faults are raised at the end."""

    def __init__(self, settings: Configuration, faults: FaultCollector) -> None:
        self._settings = settings
        self._faults = faults
        self._services = [*settings.get_list("dfs.internal.nameservices"), *settings.get_list("dfs.nameservices")]

    def read(self) -> JournalNodeConfig:
        settings = self._settings
        self._take(self._check_policy, None)
        rpc = self._address("rpc", 8485)
        return JournalNodeConfig(
            rpc_address=rpc,
            rpc_port=rpc[1],
            http_address=self._address("http", 8480),
            edits_directory=self._take(lambda: self._directory(_EDITS_DIR), Path("/")),
            edits_directories=self._take(self._directories, {}),
            directory_permission=self._take(self._permission, 0),
            handlers=self._at_least("dfs.journalnode.handler.count", settings.get_int, 1),
            sync_interval=self._take(self._sync_interval, None),
            sync_format=self._take(lambda: settings.get_bool("dfs.journalnode.enable.sync.format"), False),
            cache_bytes=self._take(self._cache_bytes, None),
            transfer_timeout=self._at_least("dfs.edit.log.transfer.timeout", self._milliseconds, 0.001),
            transfer_bandwidth=self._at_least("dfs.edit.log.transfer.bandwidthPerSec", settings.get_size, 0),
            rpc_user=self._take(lambda: rpc_user(settings), ""),
            journals=self._take(self._journals, ()),
        )

    def _address(self, kind: str, default_port: int) -> tuple[str, int]:
        host, port = self._take(
            lambda: address(self._settings, f"dfs.journalnode.{kind}-address", default_port), ("", 0)
        )
        return self._settings.get(f"dfs.journalnode.{kind}-bind-host", "") or host, port

    def _check_policy(self) -> None:
        key = "dfs.http.policy"
        if self._settings.get(key, "") == "HTTPS_ONLY":
            # NameNodes would ask this node's HTTP port for segments by https.
            raise self._error(key, "asks for HTTPS only, and this version's JournalNode serves HTTP")

    def _directory(self, key: str) -> Path:
        found = self._settings.get_path_list(key)
        if len(found) != 1:
            raise self._error(key, "names several directories, it has to be one" if found else "is not set")
        return found[0]

    def _directories(self) -> dict[str, Path]:
        keys = {service: f"{_EDITS_DIR}.{service}" for service in self._services}
        return {service: self._directory(key) for service, key in keys.items() if key in self._settings}

    def _permission(self) -> int:
        key = "dfs.journalnode.edits.dir.perm"
        text = self._settings.get(key, "")
        try:
            mode = int(text, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            raise self._error(key, "is no mode: expected three octal digits")
        return mode

    def _sync_interval(self) -> float | None:
        key = "dfs.journalnode.sync.interval"
        if not self._settings.get_bool("dfs.journalnode.enable.sync"):
            return None
        return self._at_least(key, self._milliseconds, 0.001)

    def _cache_bytes(self) -> int | None:
        if not self._settings.get_bool("dfs.ha.tail-edits.in-progress"):
            return None
        size = self._settings.get_size("dfs.journalnode.edit-cache-size.bytes", 0)
        if size:
            return size
        text = self._settings.get(_FRACTION, "")
        try:
            fraction = float(text.rstrip("fF"))
        except ValueError:
            fraction = 0.0
        if not 0 < fraction < 1:
            raise self._error(_FRACTION, "has to be a number between 0 and 1")
        return int(_HEAP * fraction)

    def _journals(self) -> tuple[ConfiguredJournal, ...]:
        found: dict[str, ConfiguredJournal] = {}
        for key, nameservice in self._shared_keys():
            uri = self._settings.get(key, "")
            if not uri.startswith("qjournal:"):
                continue
            try:
                quorum = QuorumAddress.parse(uri)
            except JournalError as error:
                raise self._error(key, error.message) from error
            journal = ConfiguredJournal(quorum.journal_id, quorum.nodes, nameservice)
            known = found.setdefault(quorum.journal_id, journal)
            if set(known.nodes) != set(journal.nodes):
                raise self._error(key, f"names other JournalNodes for {quorum.journal_id} than another key does")
        return tuple(found.values())

    def _shared_keys(self) -> list[tuple[str, str | None]]:
        """Every form of dfs.namenode.shared.edits.dir, with the nameservice that it is for."""
        only = self._services[0] if len(self._services) == 1 else None
        keys: list[tuple[str, str | None]] = [(_SHARED, only)]
        for service in self._services:
            keys.append((f"{_SHARED}.{service}", service))
            namenodes = self._settings.get_list(f"dfs.ha.namenodes.{service}")
            keys += [(f"{_SHARED}.{service}.{namenode}", service) for namenode in namenodes]
        return keys

    def _milliseconds(self, key: str) -> float:
        return self._settings.get_time(key, unit="ms")

    def _at_least(self, key: str, getter: Callable[[str], N], least: N) -> N:
        def checked() -> N:
            value = getter(key)
            if value < least:
                raise self._error(key, f"must be at least {least:g}")
            return value

        return self._take(checked, least)

    def _take(self, getter: Callable[[], T], fallback: T) -> T:
        return self._faults.take(getter, fallback)

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
