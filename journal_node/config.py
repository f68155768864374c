"""The JournalNode's settings from Hadoop's own keys, with all faults reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hadoop_common.access import AccessRules
from hadoop_common.config_key import ConfigKey, take_bound
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.port_limits import PortLimits
from hadoop_common.tls.settings import HTTP_POLICY, WebAddresses, tls_config
from hadoop_rpc.user import configured_user
from journal.errors import JournalError
from journal.quorum.address import NodeAddress, QuorumAddress
from journal.quorum.settings import TAIL_IN_PROGRESS
from site_config import journal_node_keys as node
from site_config import keys
from site_config.access import access_rules
from site_config.addresses import Identity, address, namenode_ids
from site_config.catalogue import refusals
from site_config.kerberos import KerberosSettings, Part, kerberos_settings

T = TypeVar("T")

_HEAP = 1000 << 20  # HADOOP_HEAPSIZE, to which Hadoop's fraction applies


@dataclass(frozen=True, slots=True)
class ConfiguredJournal:
    """A journal that a NameNode of this configuration writes to; `nodes` are all its JournalNodes."""

    journal_id: str
    nodes: tuple[NodeAddress, ...]
    nameservice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNodeConfig:
    """Settings of a JournalNode. Times are in seconds, sizes in bytes, rates in bytes per second.

    Attributes:
        rpc_address, web: addresses to listen on; port 0 is any free one.
        rpc_port: port of this node in the `nodes` of a journal.
        edits_directory: directory of the journals, each in a folder of its id.
        edits_directories: other directories of single nameservices.
        handlers: number of calls performed at once.
        sync_interval: time between requests to peers for missed segments; None for never.
        sync_format: whether an unformatted journal is formatted from its peers.
        cache_bytes: size of each journal's cache of newest transactions; None for none.
        journals: those of `dfs.namenode.shared.edits.dir`.
        access: permitted callers on a cluster without Kerberos.
        kerberos: None on a cluster without.
        format_not_empty: whether a journal with segments may be formatted.
        max_others: limit of journals besides `journals`; 0 if those are of all nameservices.
    """

    rpc_address: tuple[str, int]
    rpc_port: int
    web: WebAddresses
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
    port_limits: PortLimits
    stop_timeout: float
    journals: tuple[ConfiguredJournal, ...]
    access: AccessRules
    kerberos: KerberosSettings | None
    format_not_empty: bool
    max_others: int

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JournalNodeConfig:
        """Read and check everything that a JournalNode needs.

        Raises:
            ConfigurationError: contains all faults.
        """
        settings = configuration.with_defaults(keys.DEFAULTS)
        faults = FaultCollector()
        result = _ConfigReader(settings, faults).read()
        for fault in refusals(settings):
            faults.add(fault)
        faults.raise_if_any()
        return result

    def with_lists_of(self, other: JournalNodeConfig) -> JournalNodeConfig:
        """Return the same settings with the access lists of `other`, which alone can change at run time."""
        kerberos = self.kerberos
        if kerberos is not None and other.kerberos is not None:
            kerberos = kerberos.with_lists_of(other.kerberos)
        return replace(self, access=other.access, kerberos=kerberos)

    def directory_of(self, nameservice: str | None) -> Path:
        """Return the directory of a nameservice's journals (JournalNode.getLogDir)."""
        return self.edits_directories.get(nameservice or "", self.edits_directory)


class _ConfigReader:
    """Reader of one key after the other; a faulty one yields a substitute, and all faults are raised at the end."""

    def __init__(self, settings: Configuration, faults: FaultCollector) -> None:
        self._settings = settings
        self._faults = faults
        self._services = [*keys.INTERNAL_NAMESERVICES.read(settings), *keys.NAMESERVICES.read(settings)]

    def read(self) -> JournalNodeConfig:
        settings = self._settings
        rpc = self._address(node.JOURNALNODE_RPC_ADDRESS, node.JOURNALNODE_RPC_BIND_HOST)
        journals: tuple[ConfiguredJournal, ...] = self._take(self._journals, ())
        complete = bool(journals) and {each.nameservice for each in journals} >= set(self._services)
        return JournalNodeConfig(
            rpc_address=rpc,
            rpc_port=rpc[1],
            web=self._web(),
            edits_directory=self._take(lambda: self._directory(node.JOURNALNODE_EDITS_DIR.name), Path("/")),
            edits_directories=self._take(self._directories, {}),
            directory_permission=self._take(self._permission, 0),
            handlers=self._get(node.JOURNALNODE_HANDLER_COUNT),
            sync_interval=self._take(self._sync_interval, None),
            sync_format=self._get(node.JOURNALNODE_ENABLE_SYNC_FORMAT),
            cache_bytes=self._take(self._cache_bytes, None),
            transfer_timeout=self._get(node.EDIT_LOG_TRANSFER_TIMEOUT),
            transfer_bandwidth=self._get(node.EDIT_LOG_TRANSFER_BANDWIDTH_PER_SEC),
            rpc_user=self._take(lambda: configured_user(settings), ""),
            stop_timeout=self._get(keys.STOP_TIMEOUT),
            port_limits=PortLimits(**take_bound(PortLimits, settings, self._faults)),
            journals=journals,
            access=self._take(lambda: access_rules(settings), AccessRules()),
            kerberos=self._take(lambda: kerberos_settings(settings, Identity(), Part.JOURNALNODE), None),
            format_not_empty=self._get(node.JOURNALNODE_FORMAT_NOT_EMPTY),
            max_others=0 if complete else self._get(node.JOURNALNODE_MAX_JOURNALS),
        )

    def _address(self, key: ConfigKey[str], bind_host: ConfigKey[str]) -> tuple[str, int]:
        host, port = self._take(lambda: address(self._settings, key.name, key.port), ("", 0))
        return bind_host.read(self._settings) or host, port

    def _web(self) -> WebAddresses:
        policy = self._get(HTTP_POLICY)
        http = self._address(node.JOURNALNODE_HTTP_ADDRESS, node.JOURNALNODE_HTTP_BIND_HOST)
        https = self._address(node.JOURNALNODE_HTTPS_ADDRESS, node.JOURNALNODE_HTTPS_BIND_HOST)
        tls = tls_config(self._settings, policy, self._faults)
        return WebAddresses(http if policy.plain else None, https if policy.secure else None, tls)

    def _directory(self, key: str) -> Path:
        found = node.JOURNALNODE_EDITS_DIR.read(self._settings, key)
        if len(found) != 1:
            raise self._error(key, "names several directories, it has to be one" if found else "is not set")
        return found[0]

    def _directories(self) -> dict[str, Path]:
        names = {service: node.JOURNALNODE_EDITS_DIR.of(service) for service in self._services}
        return {service: self._directory(key) for service, key in names.items() if key in self._settings}

    def _permission(self) -> int:
        text = node.JOURNALNODE_EDITS_DIR_PERM.read(self._settings)
        try:
            mode = int(text, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            raise self._error(node.JOURNALNODE_EDITS_DIR_PERM.name, "is not a mode: expected three octal digits")
        return mode

    def _sync_interval(self) -> float | None:
        if not node.JOURNALNODE_ENABLE_SYNC.read(self._settings):
            return None
        return self._get(node.JOURNALNODE_SYNC_INTERVAL)

    def _cache_bytes(self) -> int | None:
        if not TAIL_IN_PROGRESS.read(self._settings):
            return None
        size = node.JOURNALNODE_EDIT_CACHE_SIZE_BYTES.read(self._settings)
        if size:
            return size
        text = node.JOURNALNODE_EDIT_CACHE_SIZE_FRACTION.read(self._settings)
        try:
            fraction = float(text.rstrip("fF"))
        except ValueError:
            fraction = 0.0
        if not 0 < fraction < 1:
            raise self._error(node.JOURNALNODE_EDIT_CACHE_SIZE_FRACTION.name, "has to be a number between 0 and 1")
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
        """Return every form of dfs.namenode.shared.edits.dir, with its nameservice."""
        only = self._services[0] if len(self._services) == 1 else None
        shared = keys.SHARED_EDITS_DIR
        found: list[tuple[str, str | None]] = [(shared.name, only)]
        for service in self._services:
            found.append((shared.of(service), service))
            found += [(shared.of(f"{service}.{each}"), service) for each in namenode_ids(self._settings, service)]
        return found

    def _get(self, key: ConfigKey[T]) -> T:
        return key.take(self._settings, self._faults)

    def _take(self, getter: Callable[[], T], fallback: T) -> T:
        return self._faults.take(getter, fallback)

    def _error(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError([self._settings.fault(key, problem)])
