"""Read access to the shared edits that a configuration names."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.folder_edits import FolderEdits
from checkpointer.roles.standby.journal_edits import ReadableJournal, SharedJournalEdits
from checkpointer.roles.standby.journal_node_monitor import JournalNodeMonitor, MonitoredJournalNode
from hadoop_common.addresses import uri_scheme
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.bookkeeper.settings import BookKeeperSettings
from journal.open_journal import open_journal
from journal.quorum.address import SCHEME, QuorumAddress
from journal.quorum.calls import majority
from journal.quorum.driver import NodeClient, ThreadDriver
from journal.quorum.ensemble import Ensemble
from journal.quorum.http_source import http_source
from journal.quorum.node_answers import NodeAnswer, NodeQuery, ask_nodes
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.settings import QuorumSettings

_LOG = logging.getLogger(__name__)
# timeout of the query for a journal's namespace, which runs during other work
_ASK_TIMEOUT = 5.0


class SharedEditsConfig(Protocol):
    """The part of `CheckpointConfig` that selects the shared edits."""

    @property
    def shared_edits(self) -> str: ...

    @property
    def shared_edits_directory(self) -> Path | None: ...

    @property
    def rpc_user(self) -> str: ...

    @property
    def nameservice(self) -> str: ...

    @property
    def quorum(self) -> QuorumSettings: ...

    @property
    def bookkeeper(self) -> BookKeeperSettings: ...


def open_edit_source(config: SharedEditsConfig) -> EditSource:
    """Return the edits that `dfs.namenode.shared.edits.dir` names, without opening a connection.

    Raises:
        StorageError: the key is not set.
        JournalError: the key names a journal of an unknown kind.
    """
    if not config.shared_edits:
        raise StorageError(
            "dfs.namenode.shared.edits.dir is not set",
            hint="Set it to the cluster's shared edits, which the standby role reads.",
        )
    if config.shared_edits_directory is not None:
        return FolderEdits(config.shared_edits_directory)
    if uri_scheme(config.shared_edits) == SCHEME:
        return _quorum(config)
    uri = config.shared_edits
    return SharedJournalEdits(
        uri, lambda namespace: open_journal(uri, bookkeeper=BookKeeperOptions(config.bookkeeper, namespace))
    )


def _quorum(config: SharedEditsConfig) -> EditSource:
    address = QuorumAddress.parse(config.shared_edits)
    monitor = JournalNodeMonitor(map(str, address.nodes))
    question = NodeQuery(
        quorum=address, user=config.rpc_user, timeout=_ASK_TIMEOUT, nameservice=config.nameservice or None
    )
    return SharedJournalEdits(
        address.uri,
        lambda namespace: _reader(config, address, monitor, namespace),
        confirm=lambda namespace: _belongs_to(address, ask_nodes(replace(question, namespace=namespace)), namespace),
        journal_nodes=monitor.states,
        batch=config.quorum.max_tail_transactions,
    )


def _reader(
    config: SharedEditsConfig, address: QuorumAddress, monitor: JournalNodeMonitor, namespace: StorageInfo
) -> ReadableJournal:
    # Each request decides whether to read the open segment. A segment's first transaction alone is useless.
    limit = max(config.quorum.max_tail_transactions, 2)
    settings = replace(config.quorum, tail_in_progress=True, max_tail_transactions=limit)
    ensemble = Ensemble(list(map(str, address.nodes)), address.journal_id, queue_limit=settings.queue_limit)
    clients: dict[str, NodeClient] = {
        str(node): MonitoredJournalNode(
            node,
            monitor,
            user=config.rpc_user,
            timeout=settings.select_input_streams,
            nameservice=config.nameservice or None,
        )
        for node in address.nodes
    }
    driver = ThreadDriver(ensemble, clients)
    return QuorumJournal(address, ensemble, driver, settings, source=http_source(settings), namespace=namespace)


def _belongs_to(address: QuorumAddress, answers: list[NodeAnswer], namespace: StorageInfo) -> bool:
    """Return whether a JournalNode confirms that the journal belongs to the namespace.

    Raises:
        StorageError: a majority for this namespace is impossible, because too many nodes have another namespace's
            journal.
    """
    others = [answer.address for answer in answers if answer.same_namespace is False]
    if len(others) >= majority(len(answers)):
        raise StorageError(
            f"{address.uri} contains edits of another namespace, according to {', '.join(others)}; our images belong "
            f"to {namespace.colon_string()}",
            hint="Check dfs.namenode.shared.edits.dir. To use these edits: if the old namespace may still be needed, "
            "first run `checkpointer checkpoint --conf DIR --save-aside`. Then stop the daemon, and move the contents "
            "of this node's dfs.namenode.name.dir away; they may be the last copy of the other namespace. Leave an "
            "empty folder `current` there, and start the daemon.",
        )
    if others:
        _LOG.warning("these JournalNodes have another namespace's journal: %s", ", ".join(others))
    return any(answer.same_namespace for answer in answers)
