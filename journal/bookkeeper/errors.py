"""Errors of the BookKeeper journal; each names the bookie, ledger or znode."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.exit_codes import ExitCode
from journal.errors import JournalError


class BookKeeperError(JournalError):
    """Failure to read or write a ledger."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Make the bookies of the ledger available again, then retry."


class FrameError(BookKeeperError):
    """Receipt of bytes that are not a frame of BookKeeper's protocol."""

    default_hint = "Check that a bookie is running at this address, and that its release is between 4.2 and 4.17."


class EntryError(BookKeeperError):
    """Receipt of an entry whose digest or ids differ from those that the writer sent."""

    default_hint = "Another replica is read instead of this replica; check the bookie's disk for faults."


class LedgerMetadataError(JournalError):
    """Failure to read the metadata of a ledger, or to write the metadata back unchanged."""

    default_hint = "Use a release of this program that supports this version of the metadata."


class NoLedgerError(BookKeeperError):
    """A request for a ledger that does not exist."""

    default_hint = "The ledger's segment was purged, or the ledger was deleted manually; list the segments again."


class LedgerFencedError(BookKeeperError):
    """Refusal of a write to a ledger that another client has recovered; its writer must not write again."""

    default_hint = "Let the other writer continue, or restart this writer to take over the journal."


class LedgerChangedError(BookKeeperError):
    """A conflict with another client that has changed a ledger's metadata in an incompatible way."""

    default_hint = "Recover the journal: recovery finds the entries of the ledger."


class NotEnoughBookiesError(BookKeeperError):
    """A lack of writable bookies for an ensemble."""

    default_hint = "Start bookies, or free disk space on read-only bookies."


class MetadataStoreError(JournalError):
    """A request that ZooKeeper refused or did not answer in time."""

    exit_code: ClassVar[int] = ExitCode.TRANSFER
    default_hint = "Check that a majority of the ZooKeeper servers in the URI is running."


class MissingZnodeError(MetadataStoreError):
    """A request for a znode that does not exist."""


class ZnodeExistsError(MetadataStoreError):
    """A request to create a znode that already exists."""


class ZnodeVersionError(MetadataStoreError):
    """A conditional change of a znode that does not have the expected version."""
