"""Opens a journal on BookKeeper by its URI."""

from __future__ import annotations

from dataclasses import dataclass, field

from hadoop_common.storage_info import StorageInfo
from hadoop_common.zookeeper.znodes import ZNodes
from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.bookkeeper.connections import BookieConnections
from journal.bookkeeper.ledger_client import LedgerClient
from journal.bookkeeper.ledger_store import LedgerStore
from journal.bookkeeper.settings import BookKeeperAddress, BookKeeperSettings


@dataclass(frozen=True, slots=True)
class BookKeeperOptions:
    """Options of a journal on BookKeeper.

    Attributes:
        namespace: expected namespace for reading; None accepts any.
    """

    settings: BookKeeperSettings = field(default_factory=BookKeeperSettings)
    namespace: StorageInfo | None = None


def open_bookkeeper_journal(uri: str, options: BookKeeperOptions) -> BookKeeperJournal:
    """Return the journal at `bookkeeper://zookeeper:port;zookeeper:port/path` without connecting to it.

    Raises:
        JournalError: `uri` is invalid.
    """
    from journal.bookkeeper.zookeeper import JournalZNodes

    address = BookKeeperAddress.parse(uri)
    return journal_on(JournalZNodes(options.settings.ensemble(address.hosts)), address, options)


def journal_on(znodes: ZNodes, address: BookKeeperAddress, options: BookKeeperOptions) -> BookKeeperJournal:
    """Return the journal at `address` in these znodes."""
    settings = options.settings
    store = LedgerStore(znodes, settings.available)
    client = LedgerClient(store, BookieConnections(store.address), settings.limits, settings.password.encode())
    return BookKeeperJournal(address.uri, address.path, znodes, client, settings, namespace=options.namespace)
