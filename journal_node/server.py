"""A JournalNode with its RPC and HTTP servers (JournalNode, JournalNodeHttpServer)."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from console.blueprint import console_blueprint
from console.sources import ConsoleSources
from hadoop_common.access import ANYBODY, AccessControl, AccessRules, Resource
from hadoop_common.addresses import host_port, is_local
from hadoop_common.durable import make_with_mode
from hadoop_common.errors import StorageError
from hadoop_common.lifetimes import Startable
from hadoop_common.port_limits import Refusals
from hadoop_common.product import product_version
from hadoop_common.quantities import counted
from hadoop_common.storage_lock import StorageInUseError
from hadoop_common.throttle import Throttle
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.qjournal_protocol import inter_qjournal_service, qjournal_service, right_of
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import access_checked
from journal_node.config import ConfiguredJournal, JournalNodeConfig
from journal_node.fetch import HttpFetch
from journal_node.get_journal import get_journal_blueprint
from journal_node.journal_beans import journal_node_beans
from journal_node.journal_facts import JournalNodeFacts, RpcFacts, journal_facts, node_status
from journal_node.journal_metrics import journal_metrics_blueprint
from journal_node.node import JournalNode
from journal_node.peers import RpcPeer, others
from journal_node.places import JournalPlaces
from journal_node.sync_thread import SyncThread
from servlets.application import create_application
from servlets.http_authenticator import restrict
from servlets.jmx import jmx_blueprint
from servlets.status import ProbeResult, health_blueprint
from servlets.web_servers import WebServers
from site_config.kerberos import open_security

_LOG = logging.getLogger(__name__)

_STOP_SECONDS = 5.0


def peers_of(config: JournalNodeConfig, journal: ConfiguredJournal) -> list[RpcPeer]:
    found = others(journal.nodes, config.rpc_port, is_local)
    return [RpcPeer(node, user=config.rpc_user, nameservice=journal.nameservice) for node in found]


def _peers(config: JournalNodeConfig) -> AccessRules:
    """Return the hosts from which segments may be fetched; all hosts if no JournalNodes are configured."""
    nodes = {node.host for journal in config.journals for node in journal.nodes}
    hosts = (nodes | set(config.access.hosts)) - {ANYBODY} if nodes else {ANYBODY}
    return AccessRules(tuple(sorted(hosts)))


class JournalNodeServer(Startable):
    """Server of the journals in `config`; as a context manager, it starts and stops itself."""

    def __init__(self, config: JournalNodeConfig) -> None:
        self._config = config
        self._refusals = Refusals()
        security = self._security = open_security(config.access, config.kerberos, self._refusals)
        self._access = security.access
        self._peers = AccessControl(_peers(config))
        # Only the sync is limited, because a failover waits for a recovery, and a standby waits for the segments that
        # it reads.
        recovery_fetch = HttpFetch(config.transfer_timeout, may_ask=self._peers.may_be_asked)
        pace = Throttle(config.transfer_bandwidth).acquire
        self._sync_fetch = HttpFetch(config.transfer_timeout, pace, self._peers.may_be_asked)
        self._places = JournalPlaces(config)
        self.node = JournalNode(
            self._places,
            fetch=recovery_fetch,
            cache_bytes=config.cache_bytes,
            known=self._found_journals() | {each.journal_id for each in config.journals},
            most=config.max_others,
            format_not_empty=config.format_not_empty,
        )
        record_nameservice = self._places.record_nameservice
        services = [
            access_checked(service, self._access, right_of)
            for service in (
                qjournal_service(self.node, record_nameservice),
                inter_qjournal_service(self.node, record_nameservice),
            )
        ]
        self._rpc = RpcServer(
            services,
            *config.rpc_address,
            handlers=config.handlers,
            limits=config.port_limits,
            refusals=self._refusals,
            security=security.rpc_security,
        )
        segments = get_journal_blueprint(self.node)
        state = (
            health_blueprint(status=lambda: node_status(self.facts()), live=self.live, ready=self.ready),
            jmx_blueprint(lambda: journal_node_beans(self.facts())),
            journal_metrics_blueprint(self.facts),
        )
        application = create_application(
            restrict(segments, self._access, Resource.JOURNAL),
            *(restrict(each, self._access, Resource.STATE) for each in state),
            console_blueprint(ConsoleSources(lambda: node_status(self.facts())), self._access),
            authenticator=security.authenticator,
        )
        self._http = WebServers(
            application,
            config.web,
            limits=config.port_limits,
            refusals=self._refusals,
            header_bytes=security.header_bytes,
        )
        self._syncs: list[SyncThread] = []
        self._started_at = time.time()

    def start(self) -> None:
        """Open existing journals, then accept calls and serve segments.

        Raises:
            StorageError: the directory of the journals cannot be used.
            HdfsError: an address cannot be used.
        """
        self._access.warn_if_open()
        self._check_directories()
        self._open_journals()
        self._http.start()
        self.node.announce(self._http.address[1], self._http.url)
        self._rpc.start()
        self._start_syncs()
        _LOG.info("JournalNode on %s, segments at %s", host_port(*self.rpc_address), self._http.url)

    def stop(self) -> None:
        """Stop accepting calls, end running calls, and close the journals. A second call does nothing.

        The RPC server stops first, so that writers notice the stop immediately.
        """
        for sync in self._syncs:
            sync.stop()
        self._rpc.stop()
        self._http.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for sync in self._syncs:
            sync.join(max(0.0, deadline - time.monotonic()))
        self._syncs = []
        self.node.close()

    @property
    def rpc_address(self) -> tuple[str, int]:
        return self._rpc.address

    @property
    def url(self) -> str:
        """`http://host:port` of the HTTP server."""
        return self._http.url

    def use_lists_of(self, read: JournalNodeConfig) -> list[str]:
        """Apply the access lists of `read`; return a line for each changed list.

        Raises:
            KerberosSetupError: logins could not be accepted with the new lists; nothing was changed.
        """
        config = self._config.with_lists_of(read)
        changed = self._security.reconfigure(config.access, None if config.kerberos is None else config.kerberos.server)
        self._config = config
        self._peers.replace_rules(_peers(config))
        return changed

    def needs_restart(self, read: JournalNodeConfig) -> bool:
        """Return whether a setting other than the access lists has changed."""
        return self._config.with_lists_of(read) != read

    def facts(self) -> JournalNodeFacts:
        host, port = self.rpc_address
        return JournalNodeFacts(
            address=host_port(host, port),
            version=product_version(),
            started_at=self._started_at,
            journals=tuple(map(journal_facts, self.node.journals())),
            failing=self.node.failures(),
            refused=self._refusals.counts(),
            rpc=RpcFacts(port, self._rpc.activity.counts(), self._rpc.open_connections, self._rpc.queue_length),
        )

    def live(self) -> ProbeResult:
        return ProbeResult(True, "the JournalNode answers")

    def ready(self) -> ProbeResult:
        """Return whether the node is ready: it serves at least one journal, and all requested journals work."""
        failing = self.node.failures()
        if failing:
            return ProbeResult(False, "; ".join(f"journal {name}: {text}" for name, text in failing.items()))
        formatted = sum(journal.is_formatted for journal in self.node.journals())
        if not formatted:
            return ProbeResult(
                False, "no journal is formatted on this JournalNode; a NameNode or `journalnode format` formats one"
            )
        return ProbeResult(True, f"serves {counted(formatted, 'journal')}", {"journals": formatted})

    def _check_directories(self) -> None:
        for directory in {self._config.edits_directory, *self._config.edits_directories.values()}:
            try:
                directory.parent.mkdir(parents=True, exist_ok=True)
                make_with_mode(directory, self._config.directory_permission)
                usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
            except OSError as fault:
                raise _unusable(directory, fault.strerror or str(fault)) from fault
            if not usable:
                raise _unusable(directory, "reading, writing and listing are not permitted")

    def _open_journals(self) -> None:
        """Open the existing journals; a damaged journal does not prevent the node from serving other journals.

        Raises:
            StorageError: another process uses the folder of a configured journal.
        """
        configured = {each.journal_id for each in self._config.journals}
        for journal_id in sorted(self._found_journals()):
            try:
                self.node.open_journal(journal_id)
            except RemoteError as fault:
                if journal_id in configured and isinstance(fault.__cause__, StorageInUseError):
                    hint = "Find out which process uses the folder of this journal: only one JournalNode may use it."
                    raise StorageError(fault.text, hint=hint) from fault
                _LOG.error("journal %s is not served: %s", journal_id, fault.text)

    def _found_journals(self) -> set[str]:
        """Return the ids of the journals that have a folder."""
        config = self._config
        found = {
            each.journal_id
            for each in config.journals
            if (config.directory_of(each.nameservice) / each.journal_id).is_dir()
        }
        services = {directory: name for name, directory in config.edits_directories.items()}
        for directory in {config.edits_directory, *services}:
            for version in directory.glob("*/current/VERSION"):
                journal_id = version.parent.parent.name
                if directory in services:
                    self._places.record_nameservice(journal_id, services[directory])
                found.add(journal_id)
        return found

    def _start_syncs(self) -> None:
        interval = self._config.sync_interval
        for journal in self._config.journals if interval is not None else ():
            assert interval is not None
            peers = peers_of(self._config, journal)
            if not peers:
                _LOG.warning("%s: no other JournalNode is known, so nothing is synced", journal.journal_id)
                continue
            sync = SyncThread(
                self.node,
                journal.journal_id,
                peers,
                self._sync_fetch,
                interval=interval,
                may_format=self._config.sync_format,
            )
            self._syncs.append(sync)
            sync.start()


def _unusable(directory: Path, reason: str) -> StorageError:
    return StorageError(
        f"{directory} cannot be used for journals: {reason}",
        hint="Check dfs.journalnode.edits.dir, the permissions of that directory, and its disk.",
    )
