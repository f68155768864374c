"""Opens a quorum journal by its URI."""

from __future__ import annotations

import getpass
import time
from dataclasses import dataclass, field

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import DEFAULT_TIMEOUT
from hadoop_rpc.qjournal_protocol import QJournalClient
from journal.quorum.address import QuorumAddress
from journal.quorum.driver import NodeClient, ThreadDriver
from journal.quorum.ensemble import Ensemble
from journal.quorum.http_source import http_source
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.settings import QuorumSettings


@dataclass(frozen=True, slots=True)
class QuorumOptions:
    """How JournalNodes are spoken to.

    Attributes:
        user: whom the JournalNodes take the caller for; by default whom this process runs as.
        namespace: whose journal is read; None reads whichever it is.
        nameservice: told to nodes of Hadoop 3, which find each other by it.
    """

    user: str = field(default_factory=getpass.getuser)
    settings: QuorumSettings = field(default_factory=QuorumSettings)
    namespace: StorageInfo | None = None
    nameservice: str | None = None


def open_quorum_journal(
    uri: str,
    *,
    user: str,
    settings: QuorumSettings | None = None,
    namespace: StorageInfo | None = None,
    nameservice: str | None = None,
) -> QuorumJournal:
    """The journal at `qjournal://host:port;host:port;host:port/id`; nothing is connected to yet.

    Args: see `QuorumOptions`.

    Raises:
        JournalError: `uri` cannot be one.
    """
    address = QuorumAddress.parse(uri)
    settings = settings or QuorumSettings()
    ensemble = Ensemble(
        [str(node) for node in address.nodes],
        address.journal_id,
        queue_limit=settings.queue_limit,
        clock=time.monotonic,
        nameservice=nameservice,
    )
    # How long an answer is waited for is said with each question; a connection gives up after the longest of these.
    timeout = max(DEFAULT_TIMEOUT, settings.longest_call)
    clients: dict[str, NodeClient] = {
        str(node): QJournalClient(node.host, node.port, user=user, timeout=timeout, nameservice=nameservice)
        for node in address.nodes
    }
    driver = ThreadDriver(ensemble, clients)
    return QuorumJournal(address, ensemble, driver, settings, source=http_source(settings), namespace=namespace)
