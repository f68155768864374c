"""Settings of a JournalNode in Hadoop's keys; one error reports all faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hadoop_common.access import AccessRules
from hadoop_common.config_key import bound
from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.port_limits import PortLimits
from hadoop_common.tls.settings import WebAddresses
from journal.errors import JournalError
from journal.quorum.address import NodeAddress, QuorumAddress
from journal.quorum.settings import TAIL_IN_PROGRESS
from site_config import journal_node_keys as node
from site_config import keys
from site_config.addresses import Identity, namenode_ids
from site_config.kerberos import KerberosSettings, ProcessKind
from site_config.reader import AddressKeys, SettingsReader

_RPC = AddressKeys(node.JOURNALNODE_RPC_ADDRESS, node.JOURNALNODE_RPC_BIND_HOST)
_HTTP = AddressKeys(node.JOURNALNODE_HTTP_ADDRESS, node.JOURNALNODE_HTTP_BIND_HOST)
_HTTPS = AddressKeys(node.JOURNALNODE_HTTPS_ADDRESS, node.JOURNALNODE_HTTPS_BIND_HOST)
_HEAP = 1000 << 20  # HADOOP_HEAPSIZE; Hadoop applies the fraction to this size


@dataclass(frozen=True, slots=True)
class ConfiguredJournal:
    """A journal to which NameNodes of this configuration write; `nodes` are all JournalNodes of the journal."""

    journal_id: str
    nodes: tuple[NodeAddress, ...]
    nameservice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNodeConfig:
    """Settings of a JournalNode. Times are in seconds, sizes in bytes, rates in bytes per second.

    Attributes:
        rpc_address, web: addresses to listen on; port 0 chooses a free port.
        rpc_port: port of this node in the `nodes` of a journal.
        edits_directory: directory of the journals; each journal has a folder named after its id.
        edits_directories: directories, by nameservice, of journals that are not in `edits_directory`.
        handlers: number of calls performed in parallel.
        sync_interval: time between two rounds of sync with the peers; None if the node does not sync.
        sync_format: whether an unformatted journal is formatted with the data of its peers.
        cache_bytes: size of each journal's cache of the newest transactions; None for no cache.
        journals: the journals of `dfs.namenode.shared.edits.dir`.
        access: permitted callers on a cluster without Kerberos.
        kerberos: Kerberos settings; None on a cluster without Kerberos.
        format_not_empty: whether a journal with segments may be formatted.
        max_others: maximum number of other journals; 0 if `journals` covers all nameservices.
    """

    rpc_address: tuple[str, int]
    rpc_port: int
    web: WebAddresses
    edits_directory: Path
    edits_directories: Mapping[str, Path]
    directory_permission: int
    handlers: int = bound(node.JOURNALNODE_HANDLER_COUNT)
    sync_interval: float | None
    sync_format: bool = bound(node.JOURNALNODE_ENABLE_SYNC_FORMAT)
    cache_bytes: int | None
    transfer_timeout: float = bound(node.EDIT_LOG_TRANSFER_TIMEOUT)
    transfer_bandwidth: int = bound(node.EDIT_LOG_TRANSFER_BANDWIDTH_PER_SEC)
    rpc_user: str
    port_limits: PortLimits
    stop_timeout: float = bound(keys.STOP_TIMEOUT)
    journals: tuple[ConfiguredJournal, ...]
    access: AccessRules
    kerberos: KerberosSettings | None
    format_not_empty: bool = bound(node.JOURNALNODE_FORMAT_NOT_EMPTY)
    max_others: int

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JournalNodeConfig:
        """Read and check all settings that a JournalNode needs.

        Raises:
            ConfigurationError: some settings are invalid; the error lists all faults.
        """
        reader = _JournalNodeReader(configuration.with_defaults(keys.DEFAULTS), FaultCollector(), Identity)
        result = reader.read()
        reader.raise_faults()
        return result

    def with_lists_of(self, other: JournalNodeConfig) -> JournalNodeConfig:
        """Return these settings with the access lists of `other`; other settings cannot change at run time."""
        kerberos = self.kerberos
        if kerberos is not None and other.kerberos is not None:
            kerberos = kerberos.with_lists_of(other.kerberos)
        return replace(self, access=other.access, kerberos=kerberos)

    def directory_of(self, nameservice: str | None) -> Path:
        """Return the directory for the journals of a nameservice (JournalNode.getLogDir)."""
        return self.edits_directories.get(nameservice or "", self.edits_directory)


class _JournalNodeReader(SettingsReader):
    def read(self) -> JournalNodeConfig:
        journals: tuple[ConfiguredJournal, ...] = self.take(self._journals, ())
        complete = bool(journals) and {each.nameservice for each in journals} >= set(self._services)
        rpc = self.take(lambda: self.address(_RPC), ("", 0))
        return JournalNodeConfig(
            **self.bound(JournalNodeConfig),
            rpc_address=rpc,
            rpc_port=rpc[1],
            web=self.web(_HTTP, _HTTPS),
            edits_directory=self.take(lambda: self._directory(node.JOURNALNODE_EDITS_DIR.name), Path("/")),
            edits_directories=self.take(self._directories, {}),
            directory_permission=self.take(self._permission, 0),
            sync_interval=self.take(self._sync_interval, None),
            cache_bytes=self.take(self._cache_bytes, None),
            rpc_user=self.user(),
            port_limits=self.port_limits(),
            journals=journals,
            access=self.access(),
            kerberos=self.kerberos(ProcessKind.JOURNALNODE),
            max_others=0 if complete else self.get(node.JOURNALNODE_MAX_JOURNALS),
        )

    @cached_property
    def _services(self) -> list[str]:
        return [*keys.INTERNAL_NAMESERVICES.read(self.settings), *keys.NAMESERVICES.read(self.settings)]

    def _directory(self, key: str) -> Path:
        found = node.JOURNALNODE_EDITS_DIR.read(self.settings, key)
        if len(found) != 1:
            raise self.error(key, "names several directories, but must name one" if found else "is not set")
        return found[0]

    def _directories(self) -> dict[str, Path]:
        names = {service: node.JOURNALNODE_EDITS_DIR.of(service) for service in self._services}
        return {service: self._directory(key) for service, key in names.items() if key in self.settings}

    def _permission(self) -> int:
        text = node.JOURNALNODE_EDITS_DIR_PERM.read(self.settings)
        try:
            mode = int(text, 8)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            raise self.error(node.JOURNALNODE_EDITS_DIR_PERM.name, "is not a mode: expected three octal digits")
        return mode

    def _sync_interval(self) -> float | None:
        if not node.JOURNALNODE_ENABLE_SYNC.read(self.settings):
            return None
        return self.get(node.JOURNALNODE_SYNC_INTERVAL)

    def _cache_bytes(self) -> int | None:
        if not TAIL_IN_PROGRESS.read(self.settings):
            return None
        size = node.JOURNALNODE_EDIT_CACHE_SIZE_BYTES.read(self.settings)
        if size:
            return size
        text = node.JOURNALNODE_EDIT_CACHE_SIZE_FRACTION.read(self.settings)
        try:
            fraction = float(text.rstrip("fF"))
        except ValueError:
            fraction = 0.0
        if not 0 < fraction < 1:
            raise self.error(node.JOURNALNODE_EDIT_CACHE_SIZE_FRACTION.name, "must be a number between 0 and 1")
        return int(_HEAP * fraction)

    def _journals(self) -> tuple[ConfiguredJournal, ...]:
        found: dict[str, ConfiguredJournal] = {}
        for key, nameservice in self._shared_keys():
            uri = self.settings.get(key, "")
            if not uri.startswith("qjournal:"):
                continue
            try:
                quorum = QuorumAddress.parse(uri)
            except JournalError as error:
                raise self.error(key, error.message) from error
            journal = ConfiguredJournal(quorum.journal_id, quorum.nodes, nameservice)
            known = found.setdefault(quorum.journal_id, journal)
            if set(known.nodes) != set(journal.nodes):
                raise self.error(key, f"names different JournalNodes for {quorum.journal_id} than another key does")
        return tuple(found.values())

    def _shared_keys(self) -> list[tuple[str, str | None]]:
        """Return all forms of the key dfs.namenode.shared.edits.dir, each with its nameservice."""
        only = self._services[0] if len(self._services) == 1 else None
        shared = keys.SHARED_EDITS_DIR
        found: list[tuple[str, str | None]] = [(shared.name, only)]
        for service in self._services:
            found.append((shared.of(service), service))
            found += [(shared.of(f"{service}.{each}"), service) for each in namenode_ids(self.settings, service)]
        return found
