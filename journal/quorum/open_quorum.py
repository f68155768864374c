"""Opens a quorum journal by its URI."""

from __future__ import annotations

from dataclasses import dataclass, field

from hadoop_common.process_user import process_user
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
    """Options of clients of JournalNodes.

    Attributes:
        user: the user in the calls; by default the user of this process.
        namespace: expected namespace for reading; None accepts any.
        nameservice: nameservice, sent to Hadoop 3 nodes, which use it to find each other.
    """

    user: str = field(default_factory=process_user)
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
    """Return the journal at `qjournal://host:port;host:port;host:port/id` without connecting to it.

    Args: see `QuorumOptions`.

    Raises:
        JournalError: `uri` is invalid.
    """
    address = QuorumAddress.parse(uri)
    settings = settings or QuorumSettings()
    ensemble = Ensemble(
        [str(node) for node in address.nodes],
        address.journal_id,
        queue_limit=settings.queue_limit,
        nameservice=nameservice,
    )
    # Each call has a timeout; a connection times out after the longest of these timeouts.
    timeout = max(DEFAULT_TIMEOUT, settings.longest_call)
    clients: dict[str, NodeClient] = {
        str(node): QJournalClient(node.host, node.port, user=user, timeout=timeout, nameservice=nameservice)
        for node in address.nodes
    }
    driver = ThreadDriver(ensemble, clients)
    return QuorumJournal(address, ensemble, driver, settings, source=http_source(settings), namespace=namespace)
