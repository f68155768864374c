"""The shared edits that a configuration names, opened to be read."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.folder_edits import FolderEdits
from checkpointer.roles.standby.journal_edits import JournalEdits, ReadableJournal
from checkpointer.roles.standby.journal_node_monitor import JournalNodeMonitor, MonitoredJournalNode
from hadoop_common.endpoint import uri_scheme
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.bookkeeper.settings import BookKeeperSettings
from journal.open_journal import open_journal
from journal.quorum.address import SCHEME, QuorumAddress
from journal.quorum.driver import NodeClient, ThreadDriver
from journal.quorum.ensemble import Ensemble
from journal.quorum.http_source import http_source
from journal.quorum.node_answers import NodeAnswer, NodeQuery, ask_nodes
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.settings import QuorumSettings
from journal.quorum.tally import majority

_LOG = logging.getLogger(__name__)
# Whose journal it is, is asked beside the work; a node that takes longer does not say.
_ASK_SECONDS = 5.0


class NamesSharedEdits(Protocol):
    """What of a configuration is needed here; see `CheckpointConfig`."""

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


def open_edit_source(config: NamesSharedEdits) -> EditSource:
    """What `dfs.namenode.shared.edits.dir` names; nothing is connected to yet.

    Raises:
        StorageError: it names nothing.
        JournalError: it names no journal of a known kind.
    """
    if not config.shared_edits:
        raise StorageError(
            "dfs.namenode.shared.edits.dir is not set", hint="The standby role needs the shared edits that it names."
        )
    if config.shared_edits_directory is not None:
        return FolderEdits(config.shared_edits_directory)
    if uri_scheme(config.shared_edits) == SCHEME:
        return _quorum(config)
    uri = config.shared_edits
    return JournalEdits(
        uri, lambda namespace: open_journal(uri, bookkeeper=BookKeeperOptions(config.bookkeeper, namespace))
    )


def _quorum(config: NamesSharedEdits) -> EditSource:
    address = QuorumAddress.parse(config.shared_edits)
    book = JournalNodeMonitor(map(str, address.nodes))
    question = NodeQuery(
        quorum=address, user=config.rpc_user, timeout=_ASK_SECONDS, nameservice=config.nameservice or None
    )
    return JournalEdits(
        address.uri,
        lambda namespace: _reader(config, address, book, namespace),
        confirm=lambda namespace: _is_of(address, ask_nodes(replace(question, namespace=namespace)), namespace),
        journal_nodes=book.states,
        batch=config.quorum.max_tail_transactions,
    )


def _reader(
    config: NamesSharedEdits, address: QuorumAddress, book: JournalNodeMonitor, namespace: StorageInfo
) -> ReadableJournal:
    # Whether the open segment is read is said with each look. The beginning of a segment alone brings nobody on.
    limit = max(config.quorum.max_tail_transactions, 2)
    settings = replace(config.quorum, tail_in_progress=True, max_tail_transactions=limit)
    ensemble = Ensemble(
        list(map(str, address.nodes)), address.journal_id, queue_limit=settings.queue_limit, clock=time.monotonic
    )
    clients: dict[str, NodeClient] = {
        str(node): MonitoredJournalNode(
            node,
            book,
            user=config.rpc_user,
            timeout=settings.select_input_streams,
            nameservice=config.nameservice or None,
        )
        for node in address.nodes
    }
    driver = ThreadDriver(ensemble, clients)
    return QuorumJournal(address, ensemble, driver, settings, source=http_source(settings), namespace=namespace)


def _is_of(address: QuorumAddress, answers: list[NodeAnswer], namespace: StorageInfo) -> bool:
    """Whether a JournalNode knows the journal for the namespace's.

    Raises:
        StorageError: so many know it for another one's that it cannot be written for this one.
    """
    others = [answer.address for answer in answers if answer.same_namespace is False]
    if len(others) >= majority(len(answers)):
        raise StorageError(
            f"{address.uri} holds edits of another namespace than our images, which are of "
            f"{namespace.colon_string()}: so say {', '.join(others)}",
            hint="Check dfs.namenode.shared.edits.dir. To begin with these edits, move the contents of this node's "
            "dfs.namenode.name.dir away first: they may be all that is left of the other namespace. Leave an empty "
            "folder `current` there.",
        )
    if others:
        _LOG.warning("the journal of another namespace is kept by %s", ", ".join(others))
    return any(answer.same_namespace for answer in answers)
