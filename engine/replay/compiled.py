"""Replay of the frequent operations by kernels; plain functions replay the other operations.

`_enter` sets the state's counters, and `_point` sets the addresses of its arrays. `run` applies operations. `_leave`
copies the counters back and reads the features of decoded rows. `_settle` and `_give_acls` apply the kernels' notes.
The namespace is then in the same state as if Python had applied the operations.

    a run ends with AGAIN   Python grows the arrays, and the run continues. If it ends again at the same operation, the
                            operation needs more space than the arrays gained, and the plain function applies it.
    a run ends with PAUSE   Python deletes a snapshot, and the run continues.
    a plain operation       `after_plain_op` adds its new names, and invalidates paths that it may have moved.
    another segment         all cached paths become invalid, because they refer to the bytes of the previous segment.

Kernels and Python code never run at the same time, and kernels do not keep references to arrays after a run. Therefore,
Python code may grow and move tables between runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from engine.namespace import Namespace
from engine.namespace.diffs import DirectoryDiff
from engine.namespace.noted import NOTE_DTYPE, note_numbers
from engine.replay import snapshots
from engine.replay.features import inherit_default_acl, replace_acl
from engine.replay.kernel_state import AT, RESULTS, KernelState, columns, path_table
from engine.replay.kernels import state
from engine.replay.kernels.ahead import COLUMNS as COMING_COLUMNS
from engine.replay.kernels.ahead import COMING
from engine.replay.kernels.base_children import UNREAD
from engine.replay.kernels.frames import BODY, NO_END
from engine.replay.kernels.layouts import FIRST_LAYOUT
from engine.replay.kernels.open_files import find_open_files, load_open_files, place_open_files
from engine.replay.kernels.run import run
from engine.replay.kernels.snapshots import DELETED, RENAMED
from engine.replay.kernels.state import Counters
from engine.replay.known_names import KnownNames
from engine.replay.path_pages import read_path_pages
from engine.replay.registry import OpErrorTranslator
from engine.replay.table import REPLAYED
from hadoop_common.errors import HdfsError
from image_format.array_allocator import GrowableArray
from image_format.errors import ImageStorageError, RecordError
from image_format.index import ImageIndex
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import ACL_DUE, FEATURES, HOLDS, INODE_DTYPE
from image_format.kernels.open_files import UNREAD_DTYPE
from journal.attribute_kinds import ACL_ENTRIES
from journal.binary_codec import decode_op
from journal.ops import AddOp, AllowSnapshotOp, EditOp, MkdirOp, SetOwnerOp
from journal.primitives import Buffer, PrimitiveReader
from journal.segment_format import SegmentCursor

_ROWS = 1 << 12
_NAME_BYTES = 1 << 16
_BLOCKS = 1 << 12
_STRINGS = 1 << 8
_NOTES = 1 << 12
_ACLS = 1 << 12
_SNAPSHOT_CHANGES = 1 << 10
_NAMED = 1 << 14
_OPENED_COLUMNS = 6
_NO_NAMES = np.zeros(0, np.uint32)
_NO_ROOM = -1
_BYTES_A_ROW = 700
"""Approximate number of bytes of edits per changed inode."""
_MAX_EXPECTED = 1 << 20


def is_at_hand(edits: Buffer) -> bool:
    """Return whether the kernel for this kind of segment is compiled; if not, compile it in the background."""
    buffer = np.frombuffer(edits, np.uint8)
    # the arguments have the same types as in `CompiledReplay._run`
    return run.is_at_hand(np.zeros(1, state.STATE_DTYPE), buffer, 0, 0, 0, 0)


class CompiledReplay:
    """Replay of runs of operations onto one namespace, without creating Python objects for the operations.

    A namespace has one instance (`of`), because rows of directories point into its arrays.

    Args:
        namespace: the namespace to modify.
        index: its base image.
    """

    @classmethod
    def of(cls, namespace: Namespace) -> CompiledReplay:
        """Return the instance of a namespace; create it at the first call."""
        if namespace.compiled is None:
            namespace.compiled = cls(namespace, namespace.base)
        assert isinstance(namespace.compiled, CompiledReplay)
        return namespace.compiled

    def __init__(self, namespace: Namespace, index: ImageIndex) -> None:
        self._namespace = namespace
        self._index = index
        self._state = KernelState()
        allocator = namespace.table.allocator
        self._opened: npt.NDArray[np.int64] = allocator.zeros((1 << 8, _OPENED_COLUMNS), np.int64)
        self._opened_used = 0
        self._named_room = GrowableArray(allocator, np.uint32, _NAMED)
        self._named: npt.NDArray[np.uint32] = self._named_room.array
        self._named_used = self._named_wanted = 0
        self._waiting: npt.NDArray[np.int64] = allocator.zeros(index.directory_ids.size + 1, np.int64)
        self._special_ids = np.union1d(namespace.recorder.diffs.owners, index.snapshot_index.referred)
        namespace.tree.mark_special(self._special_ids)
        self._required_marks: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._notes: npt.NDArray[np.void] = np.zeros(_NOTES, NOTE_DTYPE)
        self._note_numbers = note_numbers(self._notes)
        self._copies: npt.NDArray[np.void] = np.zeros(_NOTES, INODE_DTYPE)
        self._acls: npt.NDArray[np.int64] = np.empty((_ACLS, 4), np.int64)
        self._snapshot_changes: npt.NDArray[np.int64] = np.empty((_SNAPSHOT_CHANGES, 6), np.int64)
        self._paths = path_table(index.directory_ids.size)
        self._coming: npt.NDArray[np.int64] = np.zeros((COMING + 1, COMING_COLUMNS), np.int64)
        self._unread: npt.NDArray[np.int64] = np.zeros((UNREAD, 2), np.int64)
        self._era = self._moved = self._directories = self._layout = 0
        self._holders_known = False
        self._known = KnownNames(namespace.strings, allocator)
        self._point_to_fixed()

    def begin(self, cursor: SegmentCursor) -> bool:
        """Begin a segment; return whether kernels support the form of its operations and all counters are positive."""
        self._forget_paths()
        self._coming[COMING] = 0
        self._layout = cursor.layout_version
        # Hash tables that grow step by step are refilled at each step.
        expected = min((len(cursor.buffer) - cursor.position) // _BYTES_A_ROW, _MAX_EXPECTED)
        self._namespace.table.row_of.reserve(expected)
        self._namespace.tree.links.reserve_slots(expected)
        return cursor.layout_version <= FIRST_LAYOUT and cursor.expected is not None and self._counters_fit()

    def _counters_fit(self) -> bool:
        namespace, info = self._namespace, self._namespace.info
        counters = (info.genstampV2, info.lastAllocatedBlockId, info.transactionId, namespace.last_inode_id)
        return max(counters) <= NO_END

    def run(self, cursor: SegmentCursor, limit: int, checked: int) -> int:
        """Apply at most `limit` operations from the cursor, and advance it; return the number of applied operations.

        If fewer than `limit` operations are applied, the plain function must apply the next operation.

        Args:
            checked: position in the segment before which all checksums were verified.

        Raises:
            RecordError: the base image is damaged; the namespace must be discarded.
            ImageStorageError: a table cannot grow.
        """
        applied, status = self._run(cursor, limit, checked)
        if status == state.DAMAGED:
            what = "an entry of a directory that is deleted is damaged"
            raise self._index.place("INODE_DIR").error(RecordError, what, 0)
        return applied

    def _run(self, cursor: SegmentCursor, limit: int, checked: int) -> tuple[int, int]:
        """Return (number of applied operations, reason for the stop)."""
        buffer, record = np.frombuffer(cursor.buffer, np.uint8), self._state.record
        last_txid = NO_END if cursor.last_txid is None else cursor.last_txid
        applied, status, grown_at = 0, state.DONE, -1
        try:
            while applied < limit:
                if not self._holders_known:
                    self._mark_holders()
                self._enter()
                self._point()
                position, count, status = run(record, buffer, cursor.position, limit - applied, last_txid, checked)
                counters = self._leave()
                self._settle(cursor, counters)
                if counters.acls_used:
                    self._give_acls(cursor, counters)
                applied += count
                cursor.advance(position, counters.last_txid + 1)
                self._grow_named()
                if counters.wants_marks and not self._required_marks.size:
                    self._required_marks = self._namespace.tree.required_marks()
                elif status == state.PAUSE:
                    continue
                elif status != state.AGAIN or position == grown_at:
                    break
                else:
                    grown_at = position
                    self._grow()
        finally:
            # An error that retains this frame must not keep the segment mapped.
            del buffer
        return applied, int(status)

    def _mark_holders(self) -> None:
        """Mark the snapshottable directories and their ancestors."""
        table, tree = self._namespace.table, self._namespace.tree
        for row in tree.locate(list(self._namespace.snapshots.snapshottable_ids)):
            at = row
            while at != NO_ROW:
                table.marks[at] |= HOLDS
                at = int(table.parent[at])
        self._holders_known = True

    def find_open_files(
        self, section: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        """See `leases.OpenFileFinder`."""
        files = np.zeros(ids.size, UNREAD_DTYPE)
        files["id"], files["slot"] = ids, -1
        if self._counters_fit():
            self._forget_paths()
            record = self._state.record
            if self._index.inode_reads is not None:
                read_path_pages(record, section, spans)
            self._go_through(files.size, lambda number: find_open_files(record, section, spans, files, number))
            # the cached paths refer to this section, not to a segment
            self._forget_paths()
        found = np.flatnonzero(files["slot"] >= 0)
        found = found[np.argsort(ids[found], kind="stable")]
        found = found[np.diff(ids[found], prepend=0) > 0]
        placed = np.zeros(found.size, np.bool_)
        self._point()
        place_open_files(self._state.record, ids[found], files["directory"][found], placed)
        return found[placed], files[found[placed]]

    def load_open_files(self, files: npt.NDArray[np.void]) -> None:
        """See `leases.OpenFileFinder`."""
        if self._counters_fit():
            self._go_through(files.size, lambda number: load_open_files(self._state.record, files, number))

    def _go_through(self, count: int, go_on: Callable[[int], int]) -> None:
        """Process `count` elements; `go_on` returns the number of the first element that did not fit into a table."""
        number, grown_at = 0, -1
        while number < count:
            self._enter()
            self._point()
            number = go_on(number)
            self._leave()
            self._grow_named()
            if number == grown_at:
                # the record does not fit even into the grown table, so it is skipped
                number += 1
            elif number < count:
                grown_at = number
                self._grow()

    def invalidate(self) -> None:
        """Invalidate all caches, because operations may have been applied without `after_plain_op`."""
        self._holders_known = False
        self._forget_paths()

    def _forget_paths(self) -> None:
        """Invalidate all cached paths, because they are in another buffer now, or Python changed a directory."""
        self._era += 1

    def after_plain_op(self, op: EditOp) -> None:
        """Update the caches after a plainly applied operation, which may contain new names and move inodes."""
        directories = self._namespace.recorder.diffs.directories_changed
        if directories != self._directories or not REPLAYED[type(op)].keeps_paths:
            self._forget_paths()
        self._directories = directories
        self._learn_moves()
        if isinstance(op, AllowSnapshotOp):
            self._holders_known = False
        if isinstance(op, AddOp | MkdirOp):
            self._known.remember(op.permissions.user, op.permissions.group)
        elif isinstance(op, SetOwnerOp):
            self._known.remember(op.username, op.groupname)

    def _learn_moves(self) -> None:
        moved = self._namespace.tree.moved
        if moved != self._moved:
            self._holders_known = False
        self._moved = moved

    # ---- before and after a run ----------------------------------------------------------------------------

    def _enter(self) -> None:
        namespace = self._namespace
        table, tree, rules, info = namespace.table, namespace.tree, namespace.rules, namespace.info
        counters = self._state.counters
        counters[AT.rows_used] = table.count
        counters[AT.names_used] = table.names_used
        counters[AT.blocks_used] = table.blocks_used
        counters[AT.links_used] = tree.links.count
        counters[AT.opened_used] = self._opened_used
        counters[AT.pool_used] = table.pool.count
        counters[AT.pool_bytes_used] = table.pool.used
        counters[AT.inodes] = tree.inode_count
        counters[AT.last_txid] = info.transactionId
        counters[AT.last_inode_id] = namespace.last_inode_id
        counters[AT.last_block_id] = info.lastAllocatedBlockId
        counters[AT.generation_stamp] = info.genstampV2
        counters[AT.hadoop3] = namespace.hadoop3
        counters[AT.min_replication] = rules.min_replication
        counters[AT.max_replication] = rules.max_replication
        counters[AT.leases_plain] = namespace.leases.plain
        counters[AT.leases_changed] = namespace.leases.changed
        counters[AT.era] = self._era
        counters[AT.snapshots_plain] = not namespace.recorder.created.may_be_inconsistent
        counters[AT.directories_moved] = tree.moved
        counters[AT.named_used] = self._named_used
        counters[AT.named_wanted] = self._named_wanted
        counters[AT.layout] = self._layout
        counters[AT.skips_access_times] = rules.skip_access_time_changes
        counters[AT.next_snapshot] = snapshots.next_for_kernels(namespace)
        counters[AT.changes] = table.changes
        counters[AT.clock] = 0 if namespace.hadoop3 else snapshots.now()
        for result in RESULTS:
            counters[result] = 0

    def _leave(self) -> Counters:
        namespace, counters = self._namespace, self._state.read_counters()
        table, tree, info = namespace.table, namespace.tree, namespace.info
        first = table.count
        table.count = table.row_of.count = counters.rows_used
        if counters.features_read:
            self._read_features(first)
        table.names_used = counters.names_used
        table.blocks_used = counters.blocks_used
        table.changes = counters.changes
        tree.links.count = counters.links_used
        self._opened_used = counters.opened_used
        self._named_used = counters.named_used
        self._named_wanted = counters.named_wanted
        table.pool.count = counters.pool_used
        table.pool.used = counters.pool_bytes_used
        tree.inode_count = counters.inodes
        # Assigning an unset field, even its default, would write it to the image.
        if info.transactionId != counters.last_txid:
            info.transactionId = counters.last_txid
        namespace.last_inode_id = counters.last_inode_id
        if info.lastAllocatedBlockId != counters.last_block_id:
            info.lastAllocatedBlockId = counters.last_block_id
        if info.genstampV2 != counters.generation_stamp:
            info.genstampV2 = counters.generation_stamp
        namespace.leases.changed = bool(counters.leases_changed)
        self._era = counters.era
        if counters.directories_moved != tree.moved:
            tree.moved = self._moved = counters.directories_moved
            tree.paths.clear_cache()
        return counters

    def _settle(self, cursor: SegmentCursor, counters: Counters) -> None:
        """Apply the kernels' notes to the diffs; create, rename and delete snapshots at their places between the notes.

        Raises:
            ReplayError, UnsupportedOperationError: see `registry.apply`; later operations may have been applied.
        """
        namespace, diffs = self._namespace, self._namespace.recorder.diffs
        notes, taken = self._note_numbers[: counters.notes_used].tolist(), 0
        changed = diffs.directories_changed
        changes = self._snapshot_changes[: counters.snapshot_changes_used]
        newest: dict[int, DirectoryDiff] = {}
        for until, row, kept, body, place, mtime in changes.tolist():
            namespace.apply_notes(notes[taken:until], self._copies, newest)
            taken = until
            newest.pop(row, None)
            name, behind = _plain_name(cursor.buffer, place)
            try:
                if kept == DELETED:
                    newest.clear()
                    snapshots.remove(namespace, row, name, mtime)
                    self._learn_moves()
                    self._forget_paths()
                elif kept == RENAMED:
                    snapshots.rename_snapshot(namespace, row, name, _plain_name(cursor.buffer, behind)[0], mtime)
                else:
                    snapshots.make(namespace, row, name, mtime, self._copies[kept])
            except (HdfsError, ValueError, OverflowError, RecursionError) as error:
                self._fail(cursor, body, error)
        namespace.apply_notes(notes[taken:], self._copies, newest)
        # Cached paths stay valid, because a new diff belongs to the newest snapshot that contains them.
        self._directories += diffs.directories_changed - changed

    @staticmethod
    def _fail(cursor: SegmentCursor, body: int, error: Exception) -> NoReturn:
        """Raise `error` as an error of the operation whose body starts at `body`."""
        op, _ = decode_op(cursor.buffer, body - BODY, cursor.layout_version)
        with OpErrorTranslator(op):
            raise error

    def _read_features(self, first: int) -> None:
        """Read the features of rows that kernels decoded, from row `first`."""
        table = self._namespace.table
        for row in (first + np.flatnonzero(table.flags[first : table.count] & FEATURES)).tolist():
            table.read_features(row, self._index.inode_buffer, self._index.inode_offset(int(table.slot[row])))

    def _give_acls(self, cursor: SegmentCursor, counters: Counters) -> None:
        """Set the ACLs of new inodes in the order of their creation, because inodes inherit from one another.

        Raises:
            ReplayError, UnsupportedOperationError: see `registry.apply`; later operations may have been applied.
        """
        namespace = self._namespace
        for row, directory, body, place in self._acls[: counters.acls_used].tolist():
            namespace.table.marks[row] &= 0xFF ^ ACL_DUE
            try:
                inherit_default_acl(namespace, directory, row)
                if place >= 0:
                    replace_acl(namespace, row, ACL_ENTRIES.read(PrimitiveReader(cursor.buffer, place)))
            except (HdfsError, ValueError, OverflowError) as error:
                self._fail(cursor, body, error)

    def _point(self) -> None:
        """Set the addresses of the arrays that may have moved; arrays do not move while a kernel runs."""
        table, links, known = self._namespace.table, self._namespace.tree.links, self._known.table
        pool, early = table.pool, self._namespace.recorder.diffs.early
        arrays: dict[str, npt.NDArray[Any]] = {
            "rows": table.rows,
            "names": table.names,
            "blocks": table.blocks,
            "ids": table.row_of.slots,
            "links": links.links,
            "link_slots": links.slots,
            "opened": self._opened,
            "named": self._named,
            "pool": pool.items,
            "pool_slots": pool.slots,
            "pool_arena": pool.arena,
            "known": known.items,
            "known_slots": known.slots,
            "known_arena": known.arena,
            "known_values": self._known.serials,
            "early": early.items,
            "early_slots": early.slots,
            "early_arena": early.arena,
            "required_marks": self._required_marks,
            "leased_ids": self._namespace.tree.leased_ids,
            "changed": table.changed,
        }
        self._state.point(arrays)

    def _point_to_fixed(self) -> None:
        """Set, once, the addresses of the arrays that never move."""
        index = self._index
        arrays: dict[str, npt.NDArray[Any]] = {
            **columns("base_ids", index.arrays.ids),
            "base_slots": index.arrays.slots,
            **columns("base_offsets", index.arrays.offsets),
            "inodes": index.inode_buffer,
            "dropped": self._namespace.tree.dropped,
            "directory_ids": index.arrays.directory_ids,
            "directory_offsets": index.arrays.directory_offsets,
            "directories": index.directory_buffer,
            "waiting": self._waiting,
            "special_ids": self._special_ids,
            "notes": self._notes,
            "copies": self._copies,
            "acls": self._acls,
            "snapshot_changes": self._snapshot_changes,
            "paths": self._paths,
            "coming": self._coming,
            "unread": self._unread,
        }
        for name, array in arrays.items():
            self._state.point_to(name, array)

    def _grow(self) -> None:
        """Reserve space for the next operations; double full tables."""
        table, links = self._namespace.table, self._namespace.tree.links
        table.reserve_rows(_ROWS)
        table.reserve_names(_NAME_BYTES)
        table.reserve_blocks(_BLOCKS)
        table.pool.reserve(_STRINGS, _NAME_BYTES)
        links.reserve(_ROWS)
        if self._opened_used == self._opened.shape[0]:
            wider = table.allocator.zeros((2 * self._opened_used, _OPENED_COLUMNS), np.int64)
            wider[: self._opened_used] = self._opened
            self._opened = wider

    def _grow_named(self) -> None:
        """Reserve space for a table of names that did not fit."""
        if self._named_wanted <= 0:
            return
        self._named = _NO_NAMES
        try:
            self._named_room.grow(self._named_used, self._named_used + self._named_wanted)
            self._named_wanted = 0
        except (ImageStorageError, MemoryError):
            # Names can also be found without tables, so no new tables are created from now on.
            self._named_wanted = _NO_ROOM
        finally:
            self._named = self._named_room.array


def _plain_name(buffer: Buffer, place: int) -> tuple[bytes, int]:
    """Return a plain string (see `is_plain_text`) and the position after it."""
    start = place + 2
    end = start + (buffer[place] << 8 | buffer[place + 1])
    return bytes(buffer[start:end]), end
