"""Errors of the BookKeeper journal: which bookie, ledger or znode said what."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_TRANSFER
from journal.errors import JournalError


class BookKeeperError(JournalError):
    """A ledger cannot be read or written."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Bring the bookies of the ledger back, then try again."


class FrameError(BookKeeperError):
    """Bytes that are no frame of BookKeeper's protocol."""

    default_hint = "Check that the address is a bookie's, and its release between 4.2 and 4.17."


class EntryError(BookKeeperError):
    """An entry is not what its ledger's writer sent: its digest or its ids differ."""

    default_hint = "Another replica is read instead; look for a faulty disk at the bookie."


class LedgerMetadataError(JournalError):
    """A ledger's metadata cannot be read, or not be written back as they were."""

    default_hint = "Use a release of this program that knows this version of the metadata."


class NoLedgerError(BookKeeperError):
    """There is no ledger of this id."""

    default_hint = "Its segment was purged meanwhile, or the ledger was deleted by hand; list the segments again."


class LedgerFencedError(BookKeeperError):
    """Somebody else has recovered the ledger; its writer never writes to it again."""

    default_hint = "Leave the journal to the other writer, or restart this one if it is to take over."


class LedgerChangedError(BookKeeperError):
    """Another client changed the ledger's metadata in a way that does not go together with what is done here."""

    default_hint = "Recover the journal: that shows what the ledger holds."


class NotEnoughBookiesError(BookKeeperError):
    """Fewer bookies take writes than an ensemble needs."""

    default_hint = "Start bookies, or make room on those that are read-only."


class ZooKeeperError(JournalError):
    """ZooKeeper did not answer in time, or refused."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Check that a majority of the ZooKeeper servers that the URI names is up."


class NoNodeError(ZooKeeperError):
    """A znode is not there."""


class NodeExistsError(ZooKeeperError):
    """A znode is there already."""


class BadVersionError(ZooKeeperError):
    """A znode has another version than the one it was to be changed from."""
