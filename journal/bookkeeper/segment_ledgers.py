"""Names of ledgers in ZooKeeper: the list of segments, and notes about ledgers without a name.

    list    `inprogress_<hex>` while a segment is written, `edits_<first>_<last>` afterwards; each names its ledger.
    notes   `unnamed_<ledger>` for a ledger that has no name yet, or has lost its name. Hadoop does not have notes.

The transaction that adds or removes a ledger's name also removes or adds its note. Every ledger of this program
therefore has a name or a note. A recovery fences a ledger with a note, and marks the note so that the ledger's writer
can no longer name the ledger. Then it deletes the ledger and the note. BookKeeperJournalManager never deletes ledgers
without a name.
"""

from __future__ import annotations

import logging

from hadoop_common.zookeeper.znodes import Create, Delete, ZNodes
from journal.bookkeeper.errors import MissingZnodeError, NoLedgerError, ZnodeExistsError, ZnodeVersionError
from journal.bookkeeper.journal_znodes import (
    JournalPaths,
    SegmentLedger,
    format_segment,
    is_segment_name,
    parse_segment_znode,
    unnamed_id,
)
from journal.bookkeeper.ledger_client import LedgerClient
from journal.bookkeeper.writer_znodes import another_writer, not_formatted, remove_znode, znode_value
from journal.errors import JournalError, SegmentError

_LOG = logging.getLogger(__name__)

_NEW, _DOOMED = b"", b"to be deleted"


class SegmentLedgers:
    """The ledgers of a journal, with their names and notes.

    Args:
        location: location of the journal, for errors and logs.
    """

    def __init__(self, location: str, paths: JournalPaths, znodes: ZNodes, client: LedgerClient) -> None:
        self._location = location
        self._paths = paths
        self._znodes = znodes
        self._client = client

    def listed(self) -> list[SegmentLedger]:
        """Return all segments, sorted by first txid; a segment that ends or is purged during the call may be absent."""
        found = []
        try:
            names = self._znodes.children(self._paths.ledgers)
        except MissingZnodeError as fault:
            raise not_formatted(self._location) from fault
        for name in filter(is_segment_name, names):
            path = f"{self._paths.ledgers}/{name}"
            try:
                data, _ = self._znodes.get(path)
            except MissingZnodeError:
                continue
            found.append(parse_segment_znode(name, data, file=path))
        # Both names exist if a writer stopped between the two steps of the finalization.
        return sorted(found, key=lambda each: (each.first_txid, each.last_txid is None))

    def note(self, ledger_id: int) -> None:
        """Create the note of a ledger that is about to be created."""
        try:
            self._znodes.create(self._paths.unnamed(ledger_id), _NEW)
        except ZnodeExistsError:
            # Ids are used only once, so our earlier attempt created the note.
            return

    def name(self, segment: SegmentLedger) -> None:
        """Create the znode that names a ledger, unless a recovery has marked the note about the ledger.

        Raises:
            JournalInUseError: a recovery or another writer was faster.
        """
        path, data = segment.path(self._paths), format_segment(segment)
        try:
            self._znodes.commit([Delete(self._paths.unnamed(segment.ledger_id), 0), Create(path, data)])
        except (ZnodeExistsError, MissingZnodeError, ZnodeVersionError) as fault:
            if znode_value(self._znodes, path) != data:
                raise another_writer(self._location, path, segment.first_txid) from fault

    def rename(self, segment: SegmentLedger, last: int) -> None:
        """Rename a segment with a closed ledger to its final name.

        Raises:
            SegmentError: another segment has this name.
        """
        edits = SegmentLedger(segment.layout_version, segment.ledger_id, segment.first_txid, last)
        path, data = edits.path(self._paths), format_segment(edits)
        before = segment.path(self._paths)
        try:
            self._znodes.commit([Create(path, data), Delete(before)])
        except (ZnodeExistsError, MissingZnodeError):
            # Our earlier attempt succeeded, or an attempt stopped between the two steps.
            found = znode_value(self._znodes, path)
            if found != data:
                problem = "it names another ledger" if found is not None else "its segment in progress no longer exists"
                raise SegmentError(f"{path} cannot be created: {problem}", file=self._location, txid=last) from None
            remove_znode(self._znodes, before)

    def drop(self, segment: SegmentLedger) -> None:
        """Remove the name of a ledger, and delete the ledger."""
        note = self._paths.unnamed(segment.ledger_id)
        try:
            self._znodes.commit([Create(note, _DOOMED), Delete(segment.path(self._paths))])
        except (ZnodeExistsError, MissingZnodeError):
            if znode_value(self._znodes, segment.path(self._paths)) is not None:
                raise
            if znode_value(self._znodes, note) is None:
                return
        self._delete(segment.ledger_id)

    def delete_unnamed(self) -> None:
        """Delete all ledgers that have a note."""
        for name in self._znodes.children(self._paths.root):
            ledger_id = unnamed_id(name)
            if ledger_id is not None:
                self._delete_unnamed(ledger_id)

    def _delete_unnamed(self, ledger_id: int) -> None:
        """Delete a ledger without a name, after ensuring that its writer can neither write to it nor name it."""
        note = self._paths.unnamed(ledger_id)
        try:
            data, version = self._znodes.get(note)
            if data != _DOOMED:
                try:
                    if self._client.recover(ledger_id).last >= 0:
                        _LOG.warning("%s: ledger %d has entries but no name, and is kept", self._location, ledger_id)
                        return
                except NoLedgerError:
                    _LOG.debug("ledger %d was noted but not created", ledger_id)
                self._znodes.set(note, _DOOMED, version)
        except (MissingZnodeError, ZnodeVersionError):
            # The ledger has since received a name, or another recovery is deleting the note about the ledger.
            return
        self._delete(ledger_id)

    def _delete(self, ledger_id: int) -> None:
        self._client.store.delete(ledger_id)
        remove_znode(self._znodes, self._paths.unnamed(ledger_id))

    def discard(self) -> None:
        """Delete all ledgers, and only then the journal's znodes, so that no remaining ledger loses its name."""
        try:
            listed = self.listed()
        except JournalError as fault:
            _LOG.warning("%s: some ledgers may remain: %s", self._location, fault)
            listed = []
        noted = map(unnamed_id, self._znodes.children(self._paths.root))
        for ledger_id in (*(each.ledger_id for each in listed), *noted):
            if ledger_id is not None:
                self._client.store.delete(ledger_id)
        self._remove_tree(self._paths.root)

    def _remove_tree(self, path: str) -> None:
        try:
            names = self._znodes.children(path)
        except MissingZnodeError:
            return
        for name in names:
            self._remove_tree(f"{path}/{name}")
        remove_znode(self._znodes, path)
