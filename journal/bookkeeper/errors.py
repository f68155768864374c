"""Errors of the BookKeeper journal, with the bookie, ledger or znode."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_TRANSFER
from journal.errors import JournalError


class BookKeeperError(JournalError):
    """A ledger cannot be read or written."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Bring the bookies of the ledger back, then try again."


class FrameError(BookKeeperError):
    """Bytes that are not a frame of BookKeeper's protocol."""

    default_hint = "Check that the address is a bookie's, and its release between 4.2 and 4.17."


class EntryError(BookKeeperError):
    """An entry whose digest or ids differ from the writer's."""

    default_hint = "Another replica is read instead; check the bookie's disk for faults."


class LedgerMetadataError(JournalError):
    """A ledger's metadata cannot be read, or cannot be written back unchanged."""

    default_hint = "Use a release of this program that knows this version of the metadata."


class NoLedgerError(BookKeeperError):
    """The ledger with this id does not exist."""

    default_hint = "Its segment was purged, or the ledger was deleted by hand; list the segments again."


class LedgerFencedError(BookKeeperError):
    """Another client has recovered the ledger; its writer must not write again."""

    default_hint = "Leave the journal to the other writer, or restart this writer to take over."


class LedgerChangedError(BookKeeperError):
    """Another client changed the ledger's metadata in an incompatible way."""

    default_hint = "Recover the journal: recovery finds the entries of the ledger."


class NotEnoughBookiesError(BookKeeperError):
    """Fewer bookies are writable than an ensemble needs."""

    default_hint = "Start bookies, or free disk space on read-only bookies."


class MetadataStoreError(JournalError):
    """ZooKeeper did not answer in time, or refused."""

    exit_code: ClassVar[int] = EXIT_TRANSFER
    default_hint = "Check that a majority of the ZooKeeper servers in the URI is running."


class MissingZnodeError(MetadataStoreError):
    """A znode does not exist."""


class ZnodeExistsError(MetadataStoreError):
    """A znode already exists."""


class ZnodeVersionError(MetadataStoreError):
    """A znode has a different version than expected."""
