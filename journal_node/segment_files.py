"""The segments of a journal on a JournalNode, and the records of their recoveries (FileJournalManager, JNStorage)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from errno import ENOENT
from os import strerror
from struct import Struct
from typing import BinaryIO

from hadoop_common.names import SegmentName, parse_segment
from hadoop_rpc.errors import IllegalStateError
from journal.primitives import Buffer
from journal.quorum.agreement import same_transactions
from journal_node import names
from journal_node.disk import JournalDisk, JournalOutput
from journal_node.paxos import AcceptedRecovery, decode_accepted, encode_accepted
from journal_node.segment_scan import SegmentEnd, scan_end

_LOG = logging.getLogger(__name__)

_HEADER = Struct(">ii")
_TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True)
class StoredSegment(SegmentName):
    """A segment file of a JournalNode, described by its name."""

    name: str


class SegmentFiles:
    """Segment files in `current` of the folder `disk`. One thread at a time may change them; any thread may read.

    Methods raise OSError, and RemoteError if the content of the folder does not allow the change.

    Attributes:
        naming: lock for changing and listing names.
    """

    def __init__(self, disk: JournalDisk) -> None:
        self._disk = disk
        self.naming = threading.Lock()

    def listed(self) -> list[StoredSegment]:
        """Return the segments sorted by first txid, without in-progress copies of finalized segments.

        Raises:
            FileNotFoundError: the folder is missing, for example because its disk is no longer mounted. An empty list
                would mean that this node never had a segment.
        """
        with self.naming:
            return self._listed()

    def find(self, first: int) -> StoredSegment | None:
        """Return the segment that begins with `first`; raise IllegalStateError if several segments do."""
        return self._only(first, self.listed())

    def open(self, first: int, *, in_progress_ok: bool) -> tuple[StoredSegment, BinaryIO] | None:
        """Open the segment that begins with `first`; the file may be renamed while it is read."""
        with self.naming:
            segment = self._only(first, self._listed())
            if segment is None or (segment.in_progress and not in_progress_ok):
                return None
            return segment, self._disk.open(segment.name)

    def _listed(self) -> list[StoredSegment]:
        if not self._disk.exists(names.CURRENT):
            raise FileNotFoundError(ENOENT, strerror(ENOENT), f"{self._disk.location}/{names.CURRENT}")
        found = [
            StoredSegment(parsed.first, parsed.last, f"{names.CURRENT}/{name}")
            for name in self._disk.names(names.CURRENT)
            if (parsed := parse_segment(name)) is not None
        ]
        ended = {segment.first for segment in found if not segment.in_progress}
        kept = [segment for segment in found if not segment.in_progress or segment.first not in ended]
        return sorted(kept, key=lambda segment: (segment.first, segment.last or 0))

    def _only(self, first: int, segments: list[StoredSegment]) -> StoredSegment | None:
        found = [segment for segment in segments if segment.first == first]
        if len(found) > 1:
            listed = ", ".join(segment.name for segment in found)
            problem = f"{self._disk.location} has several segments that begin with txid {first}: {listed}"
            raise IllegalStateError(problem)
        return found[0] if found else None

    def end_of(self, segment: StoredSegment) -> SegmentEnd:
        """Return the end of a segment; a segment in progress is scanned."""
        if segment.last is not None:
            return SegmentEnd(segment.last)
        with self._disk.content(segment.name) as content:
            return scan_end(content, segment.first)

    def start(self, first: int, layout_version: int) -> JournalOutput:
        """Create a durable `edits_inprogress_FIRST` that contains only a header; replace an existing file."""
        name = names.in_progress(first)
        output = self._disk.create(name + _TEMPORARY)
        try:
            output.append(_HEADER.pack(layout_version, 0), sync=True)
            self._rename(name + _TEMPORARY, name)
        except Exception:
            output.close()
            raise
        return output

    def finalize(self, first: int, last: int) -> None:
        """Make a segment in progress durable, and rename it to its final name, which contains the last txid."""
        target = names.finalized(first, last)
        if self._disk.exists(target):
            raise IllegalStateError(f"{target} already exists in {self._disk.location}")
        self._disk.sync(names.in_progress(first))
        self._rename(names.in_progress(first), target)

    def set_aside(self, segment: StoredSegment, suffix: str) -> None:
        """Add `suffix`, such as `.empty` or `.trash`, to the name of a segment that is no longer valid."""
        _LOG.warning("%s: %s becomes %s%s", self._disk.location, segment.name, segment.name, suffix)
        self._rename(segment.name, segment.name + suffix)

    def purge(self, min_txid_to_keep: int, *, keep: int | None) -> None:
        """Remove segments older than `min_txid_to_keep`, except the open segment that begins with `keep`.

        Files that cannot be removed are logged.
        """
        open_name = None if keep is None else names.in_progress(keep)
        doomed = [f"{names.CURRENT}/{name}" for name in self._disk.names(names.CURRENT)]
        doomed = [name for name in doomed if names.is_obsolete(name.rpartition("/")[2], min_txid_to_keep)]
        records = [names.paxos(first) for first in self.recovered() if first < min_txid_to_keep]
        for name in [*doomed, *records]:
            if name == open_name:
                continue
            try:
                with self.naming:
                    self._disk.remove(name)
            except OSError as error:
                _LOG.warning("%s: the obsolete %s cannot be removed: %s", self._disk.location, name, error)

    def move_in(self, source: str, first: int, last: int) -> bool:
        """Store a fetched finalized segment; return whether it replaces this node's in-progress copy.

        The replaced copy is set aside.
        """
        own = self.find(first)
        superseded = own is not None and own.in_progress
        if own is not None and superseded:
            self.set_aside(own, ".stale")
        self._rename(source, names.finalized(first, last))
        return superseded

    def _rename(self, source: str, target: str) -> None:
        with self.naming:
            self._disk.rename(source, target)

    def accepted(self, first: int) -> AcceptedRecovery | None:
        """Return the accepted recovery of the segment that begins with `first`."""
        name = names.paxos(first)
        return decode_accepted(self._disk.read(name), first) if self._disk.exists(name) else None

    def recovered(self) -> list[int]:
        """Return the first txids of the segments with an accepted recovery."""
        return [int(name) for name in self._disk.names(names.PAXOS) if name.isdecimal()]

    def save_accepted(self, accepted: AcceptedRecovery) -> None:
        self._disk.make_directory(names.PAXOS)
        self._disk.write(names.paxos(accepted.segment.first), encode_accepted(accepted))

    def forget_accepted(self, first: int) -> None:
        if self._disk.exists(names.paxos(first)):
            self._disk.remove(names.paxos(first))

    def receive(self, target: str, chunks: Iterable[bytes], check: Callable[[Buffer], None]) -> None:
        """Store a file from another node as `target` durably, after `check` has accepted the whole file."""
        output = self._disk.create(target + _TEMPORARY)
        try:
            for chunk in chunks:
                output.append(chunk, sync=False)
            output.sync()
            output.close()
            with self._disk.content(target + _TEMPORARY) as content:
                check(content)
        except Exception:
            output.close()
            self._disk.remove(target + _TEMPORARY)
            raise
        self._rename(target + _TEMPORARY, target)

    def sync(self, first: int) -> None:
        """Make the whole segment that begins with `first` durable, regardless of the process that wrote it."""
        segment = self.find(first)
        if segment is not None:
            self._disk.sync(segment.name)

    def same_as_fetched(self, first: int, last: int, epoch: int) -> bool:
        """Return whether the in-progress copy equals, up to `last`, the copy that the recovery of `epoch` fetched."""
        own, fetched = names.in_progress(first), names.download(first, epoch)
        with self._disk.content(own) as one, self._disk.content(fetched) as other:
            return same_transactions(one, other, first, last)

    def drop_fetched(self, first: int, epoch: int) -> None:
        """Remove the copy that the recovery of `epoch` fetched."""
        self._disk.remove(names.download(first, epoch))

    def put_in_place(self, first: int, epoch: int) -> bool:
        """Replace this node's copy with the copy that the recovery of `epoch` fetched; return False if none exists."""
        fetched = names.download(first, epoch)
        if not self._disk.exists(fetched):
            return False
        self._rename(fetched, names.in_progress(first))
        return True
