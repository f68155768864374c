"""Opens the configured journals for the NameNode's edits (FSEditLog.initJournals)."""

from __future__ import annotations

from collections.abc import Iterable

from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_set import JournalMember, JournalSet
from journal.open_journal import open_journal
from journal.quorum.open_quorum import QuorumOptions
from journal.shared_edits import directory_of
from namenode_stub.config import StubConfig


def open_edit_journals(
    config: StubConfig, locks: Iterable[StorageLock], namespace: StorageInfo | None = None
) -> JournalSet:
    """Open all configured journals as a set without recovering them; the shared journal is required.

    Args:
        locks: locks of storage directories, held by the caller.
        namespace: sent to JournalNodes with requests for segments; a journal on BookKeeper must belong to this
            namespace.

    Raises:
        JournalError: a URI does not name a journal.
    """
    held = list(locks)
    members = [
        JournalMember(
            _open(config, uri, held, namespace),
            required=uri in (config.shared_edits, *config.required_edits),
            shared=uri == config.shared_edits,
        )
        for uri in config.edits
    ]
    return JournalSet(members, minimum=config.minimum_edits, restore=config.restore_edits)


def open_other_journals(config: StubConfig) -> list[Journal]:
    """Open the configured journals that are not storage directories.

    Raises:
        JournalError: a URI does not name a journal.
    """
    return [_open(config, uri, [], None) for uri in config.edits if directory_of(uri) is None]


def check_shared_edits(journals: JournalSet, last_txid: int) -> None:
    """Check that the recovered shared journal reaches the loaded transactions; accept an empty journal as new.

    Raises:
        StorageError: the journal ends earlier, so a standby could not continue from the journal.
        JournalError: the journal cannot be listed.
    """
    for member in journals.members:
        reached = journals.reach(member) if member.shared else None
        if reached is not None and reached < last_txid:
            raise StorageError(
                f"{journal_name(member.journal)} ends at txid {reached}, "
                f"but images or edits of this NameNode continue to {last_txid}",
                hint="Find the other NameNode's edits. If only this NameNode had the later edits, set them aside.",
            )


def journal_name(journal: Journal) -> str:
    """Return the name of a journal for messages: its directory, otherwise its URI."""
    return str(journal.folder) if isinstance(journal, FileJournal) else journal.location


def _open(config: StubConfig, uri: str, locks: list[StorageLock], namespace: StorageInfo | None) -> Journal:
    options = QuorumOptions(
        user=config.rpc_user, settings=config.quorum, namespace=namespace, nameservice=config.nameservice or None
    )
    bookkeeper = BookKeeperOptions(config.bookkeeper, namespace)
    return open_journal(uri, locks=locks, quorum=options, bookkeeper=bookkeeper)
