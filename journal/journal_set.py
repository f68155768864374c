"""Several journals as one journal that writes all members and reads the best copy (JournalSet).

    closed    `recover` makes the set ready. Before that, only `recover` writes.
    ready     `start_segment` makes the set writing.
    writing   The end of the segment makes the set ready. `abort`, or the failure of too many members, makes it closed.

Therefore, after a failure, nothing is written before a recovery has read every member. Members that lag are completed
while the set is being written. They receive only finalized segments, which no writer changes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from hadoop_common.storage_info import StorageInfo
from journal.binary_codec import check_layout
from journal.errors import JournalError, JournalExistsError, JournalStorageError
from journal.file_journal import FileJournal
from journal.journal import ReadableSegment, SegmentWriter
from journal.missing_segments import copy_missing_segments, is_near, lacks
from journal.segment_copies import SegmentCopies, chain_listed, group_copies
from journal.segment_writer import JournalLifecycle
from journal.set_members import JournalMember, MemberState, MemberStates, SetWriter, bounded, segments_of

__all__ = ["JournalMember", "JournalSet"]

_LOG = logging.getLogger(__name__)


class JournalSet:
    """A `Journal` with copies in several journals.

    A member that fails is dropped and reported, and its segment stays in progress. The set continues while all required
    members and at least `minimum` of the other members work (NameNodeResourcePolicy). With `restore`, a dropped member
    is recovered and rejoins the set at the start of the next segment. `copy_missing` copies the segments that the
    member missed.

    Args:
        members: members of the set, at least one.
        minimum: minimum number of working members, required members excluded (dfs.namenode.edits.dir.minimum).
        restore: whether dropped members are restored (dfs.namenode.name.dir.restore).
        on_failure: called for every dropped member; must not call the set.

    Raises:
        ValueError: `members` is empty.
    """

    def __init__(
        self,
        members: Sequence[JournalMember],
        *,
        minimum: int = 1,
        restore: bool = True,
        on_failure: Callable[[JournalMember, JournalError], None] | None = None,
    ) -> None:
        if not members:
            raise ValueError("a journal set needs at least one member")
        self._members = MemberStates(members, minimum, on_failure)
        self._restore = restore
        self._lifecycle: JournalLifecycle[StorageInfo, SetWriter] = JournalLifecycle(self.location)
        # The thread that adds or removes finalized segments holds this lock.
        self._upkeep = threading.Lock()
        self._lagging = self._incomplete = False
        self._purged_to = 0

    @property
    def location(self) -> str:
        return ",".join(state.location for state in self._members.states)

    @property
    def members(self) -> tuple[JournalMember, ...]:
        """All members, in the order of writing."""
        return tuple(state.member for state in self._members.states)

    @property
    def active(self) -> tuple[JournalMember, ...]:
        """The members to which the set currently writes."""
        return tuple(state.member for state in self._members.written)

    @property
    def faults(self) -> dict[str, JournalError]:
        """The error of each dropped member, by location."""
        return {state.location: state.fault for state in self._members.states if state.fault is not None}

    @property
    def lagging(self) -> bool:
        """Whether a directory lacks finalized segments that other members have; `copy_missing` copies them."""
        return self._lagging

    def is_formatted(self) -> bool:
        """Return whether any member already exists."""
        return any(state.journal.is_formatted() for state in self._members.states)

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Create all members. Without `force`, nothing is changed if any member exists."""
        for state in self._members.states:
            if not force and state.journal.is_formatted():
                raise JournalExistsError("a journal already exists", file=state.location)
        for state in self._members.states:
            state.journal.format(namespace, force=force)

    def recover(self, namespace: StorageInfo) -> None:
        """Recover all members, and copy missing transactions to directories that lack them.

        This method copies only segments that a directory has. `copy_missing` copies the segments that only other kinds
        of journals have, because these copies take longer (see `lagging`). A member whose storage fails is dropped. A
        member that is damaged, in use, or belongs to another namespace stops the recovery, because it may have
        transactions that the other members lack.
        """
        with self._lifecycle.lock:
            self._lifecycle.refuse_while_writing()
            self._lifecycle.recovered = None
            for state in self._members.states:
                state.fault = None
                with self._members.dropping(state, JournalStorageError):
                    state.journal.recover(namespace)
            self._members.require_enough("recovery", self._members.usable)
            self._lagging = False
            for state, journal, segments in self._directories(None):
                near = [segment for segment in segments if is_near(segment)]
                with self._members.dropping(state, JournalStorageError):
                    copy_missing_segments(journal.folder, near, namespace.layout_version)
                far = (segment for segment in segments if segment not in near)
                self._lagging |= any(lacks(journal.folder, segment) for segment in far)
            self._members.require_enough("recovery", self._members.usable)
            self._lifecycle.recovered = namespace

    def start_segment(self, first_txid: int, layout_version: int) -> SegmentWriter:
        with self._lifecycle.lock:
            namespace = self._lifecycle.require_recovered(first_txid)
            check_layout(layout_version)
            with self._failing():
                for state in self._members.states:
                    if state.fault is None:
                        with self._members.dropping(state):
                            state.writer = state.journal.start_segment(first_txid, layout_version)
                    elif self._restore:
                        self._restore_in(state, namespace, first_txid, layout_version)
                self._members.require_enough(f"start of segment {first_txid}", self._members.written)
            self._lagging |= self._incomplete
            return self._lifecycle.opened(SetWriter(self._members, first_txid, self._lifecycle))

    def _restore_in(self, state: MemberState, namespace: StorageInfo, first_txid: int, layout_version: int) -> None:
        try:
            state.journal.recover(namespace)
            state.writer = state.journal.start_segment(first_txid, layout_version)
        except JournalError as error:
            _LOG.info("%s cannot be restored yet: %s", state.location, error)
        else:
            _LOG.warning("%s is written again from txid %d on", state.location, first_txid)
            state.fault = None
            self._lagging = True

    def close(self) -> None:
        with self._lifecycle.lock:
            self._lifecycle.close()
            for state in self._members.states:
                state.journal.close()

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        """Return segments with the copies of all members; the open segment ends at its last durable transaction."""
        return chain_listed(lambda: self._readable(from_txid, in_progress=in_progress), from_txid)

    def finalized(self, from_txid: int) -> list[SegmentCopies]:
        """Return finalized segments that end at `from_txid` or later, in order; there may be gaps between them.

        Raises:
            JournalError: the segments cannot be listed.
        """
        return [each for each in group_copies(self._listed(from_txid, in_progress=False)) if each.last >= from_txid]

    def reach(self, member: JournalMember) -> int | None:
        """Return the newest finalized transaction of a member; None if no transaction is finalized.

        Raises:
            JournalError: the member cannot be listed.
        """
        found = segments_of(member.journal, 0, in_progress=False)
        return max((segment.last for segment in found), default=None)

    def _readable(self, from_txid: int, *, in_progress: bool) -> list[ReadableSegment]:
        writer = self._lifecycle.writer
        listed = self._listed(from_txid, in_progress=in_progress)
        if writer is not None:
            listed = [bounded(each, writer.first_txid, writer.last_txid) for each in listed]
        return [each for each in listed if each.last >= each.first]

    def _listed(self, from_txid: int, *, in_progress: bool) -> list[ReadableSegment]:
        """Return the segments of all members that can be listed; directories are first, because they are read fastest.

        Raises:
            JournalError: all listings fail, or the listing of a required member fails. The newest transactions may
                exist only on that member.
        """
        found: list[ReadableSegment] = []
        failures: list[JournalError] = []
        for state in sorted(self._members.states, key=lambda each: not isinstance(each.journal, FileJournal)):
            try:
                found += segments_of(state.journal, from_txid, in_progress=in_progress)
            except JournalError as error:
                if state.member.required:
                    raise
                level = logging.WARNING if state.fault is None else logging.DEBUG
                _LOG.log(level, "%s cannot be read: %s", state.location, error)
                failures.append(error)
        if len(failures) == len(self._members.states):
            raise failures[0]
        return found

    def purge(self, min_txid_to_keep: int) -> None:
        """Purge all members that are not dropped, even if the purge of a member fails."""
        failures = []
        with self._upkeep:
            self._purged_to = max(self._purged_to, min_txid_to_keep)
            for state in self._members.usable:
                try:
                    state.journal.purge(min_txid_to_keep)
                except JournalError as error:
                    failures.append(error)
        if failures:
            problem = "; ".join(error.message for error in failures)
            raise JournalStorageError(f"old segments remain: {problem}", txid=min_txid_to_keep) from failures[0]

    def copy_missing(self, cancelled: Callable[[], bool] = lambda: False) -> int:
        """Copy finalized segments to the directories that lack them, and return the number of copied segments.

        Other threads may write to the set during this call. A directory that cannot be completed is logged, and counts
        as lagging again when the next segment begins.

        Args:
            cancelled: called before each segment; if it returns true, the remaining segments are left to another call.
        """
        with self._lifecycle.lock:
            writer, namespace = self._lifecycle.writer, self._lifecycle.recovered
        if writer is None or namespace is None:
            return 0
        self._lagging, self._incomplete = False, True
        taken, failed = 0, False
        with self._upkeep:
            for state, journal, segments in self._directories(writer.first_txid):
                wanted = takewhile(lambda _: not cancelled(), segments)
                try:
                    taken += copy_missing_segments(journal.folder, wanted, namespace.layout_version)
                except JournalStorageError as error:
                    _LOG.error("%s still lacks segments: %s", state.location, error)
                    failed = True
        self._lagging |= cancelled()
        self._incomplete = failed
        return taken

    def _directories(self, open_first: int | None) -> Iterator[tuple[MemberState, FileJournal, list[SegmentCopies]]]:
        """Yield each directory with the segments that it should have.

        They end before `open_first`, because the open segment still changes.
        """
        segments = [
            each
            for each in group_copies(self._listed(0, in_progress=False))
            if each.last >= self._purged_to and (open_first is None or each.last < open_first)
        ]
        for state in self._members.usable:
            if isinstance(state.journal, FileJournal):
                yield state, state.journal, segments

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Stop writing on any error; only a recovery makes the journal ready again."""
        try:
            yield
        except BaseException:
            self._members.abort()
            self._lifecycle.ended(whole=False)
            raise
