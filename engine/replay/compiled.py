"""Replay of the frequent operations by kernels; what they leave is for the plain functions.

A run goes to and fro: `_enter` tells the kernels the counters, `_point` where the arrays are, `run` applies
operations, and `_leave` takes the counters back and reads the features of what was decoded. `_settle` and `_give_acls`
do what kernels only noted. Then Python sees the namespace as if it had applied the operations itself.

    a run ends with AGAIN   arrays grow, and the run goes on. If it ends there a second time without having moved, the
                            operation is larger than what arrays grow by: it is left to the plain function.
    a run ends with PAUSE   Python deletes a snapshot, and the run goes on.
    a plain operation       `learn` takes up names that it brought, and forgets paths that it may have moved.
    another segment         all paths are forgotten: they lie in its bytes.

Kernels and Python never work at the same time, and kernels never hold a place in an array longer than a run. So tables
may grow, and move, whenever Python is at it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from engine.namespace import Namespace
from engine.namespace.noted import NOTE_DTYPE
from engine.replay import snapshots
from engine.replay.features import inherit_default_acl, replace_acl
from engine.replay.kernels import state
from engine.replay.kernels.ahead import COLUMNS as COMING_COLUMNS
from engine.replay.kernels.ahead import COMING
from engine.replay.kernels.base_children import UNREAD
from engine.replay.kernels.frames import BODY, NO_END
from engine.replay.kernels.layouts import FIRST_LAYOUT
from engine.replay.kernels.open_files import find_open_files, load_open_files, place_open_files
from engine.replay.kernels.run import run
from engine.replay.kernels.snapshots import DELETED, RENAMED
from engine.replay.registry import OpErrorTranslator
from engine.replay.table import REPLAYED
from hadoop_common.errors import HdfsError
from image_format.array_allocator import ArrayAllocator, GrowableArray
from image_format.errors import ImageStorageError, RecordError
from image_format.index import ImageIndex
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import ACL_DUE, FEATURES, HOLDS, INODE_DTYPE
from image_format.kernels.open_files import UNREAD_DTYPE
from image_format.key_tables import BytesTable
from image_format.packed import Packed
from image_format.string_table import MAX_SERIAL, StringKind
from journal.attribute_kinds import ACL_ENTRIES
from journal.binary_codec import decode_op
from journal.ops import AddOp, AllowSnapshotOp, EditOp, MkdirOp, SetOwnerOp
from journal.primitives import Buffer, PrimitiveReader, encode_cesu8
from journal.segment import SegmentCursor

_ROWS = 1 << 12
_NAME_BYTES = 1 << 16
_BLOCKS = 1 << 12
_STRINGS = 1 << 8
_NOTES = 1 << 12
_ACLS = 1 << 12
_SNAPSHOT_CHANGES = 1 << 10
_FEWEST_PATHS, _MOST_PATHS = 1 << 12, 1 << 18
_NAMED = 1 << 14
_NAMES = 1 << 6
_LONGEST_NAME = 0xFFFF
_OPENED_COLUMNS = 6
_NO_NAMES = np.zeros(0, np.uint32)
_NO_ROOM = -1
_BYTES_A_ROW = 700
"""Of edits to each inode that they touch, about."""
_MOST_EXPECTED = 1 << 20
_KINDS: Final = (state.KNOWN_USER, StringKind.USER), (state.KNOWN_GROUP, StringKind.GROUP)
"""Under what kernels know a string of the table."""


def is_at_hand(edits: Buffer) -> bool:
    """Return whether the kernel that replays such a segment is compiled; if not, it is compiled in the background."""
    buffer = np.frombuffer(edits, np.uint8)
    # as `CompiledReplay._run` calls it
    return run.is_at_hand(np.zeros(state.NUMBERS, np.int64), buffer, 0, 0, 0, 0)


class CompiledReplay:
    """Applies runs of plain operations to one namespace without a Python object for any of them.

    There is one for a namespace (`of`), since rows of directories point into what it keeps.

    Args:
        namespace: what they are applied to.
        index: its base image.
    """

    @classmethod
    def of(cls, namespace: Namespace) -> CompiledReplay | None:
        """The one of a namespace; None where its base image is none that kernels can look into."""
        if namespace.compiled is None and isinstance(namespace.base, ImageIndex):
            namespace.compiled = cls(namespace, namespace.base)
        found = namespace.compiled
        return found if isinstance(found, CompiledReplay) else None

    def __init__(self, namespace: Namespace, index: ImageIndex) -> None:
        self._namespace = namespace
        self._index = index
        self._state = np.zeros(state.NUMBERS + 2 * len(state.ARRAYS), np.int64)
        allocator = namespace.table.allocator
        self._opened: npt.NDArray[np.int64] = allocator.zeros((1 << 8, _OPENED_COLUMNS), np.int64)
        self._opened_used = 0
        self._named_room = GrowableArray(allocator, np.uint32, _NAMED)
        self._named: npt.NDArray[np.uint32] = self._named_room.array
        self._named_used = self._named_wanted = 0
        self._waiting: npt.NDArray[np.int64] = allocator.zeros(index.directory_ids.size + 1, np.int64)
        self._special_ids = np.union1d(namespace.history.diffs.owners, index.history.referred)
        namespace.tree.mark_special(self._special_ids)
        self._required_marks: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._notes: npt.NDArray[np.void] = np.zeros(_NOTES, NOTE_DTYPE)
        self._copies: npt.NDArray[np.void] = np.zeros(_NOTES, INODE_DTYPE)
        self._acls: npt.NDArray[np.int64] = np.empty((_ACLS, 4), np.int64)
        self._snapshot_changes: npt.NDArray[np.int64] = np.empty((_SNAPSHOT_CHANGES, 6), np.int64)
        # its entries begin where cache lines do
        self._paths: npt.NDArray[np.void] = ArrayAllocator().zeros(_places_for_paths(index), state.PATH_DTYPE)
        self._coming: npt.NDArray[np.int64] = np.zeros((COMING + 1, COMING_COLUMNS), np.int64)
        self._unread: npt.NDArray[np.int64] = np.zeros((UNREAD, 2), np.int64)
        self._era = self._moved = self._directories = self._layout = 0
        # weak, for an array that somebody holds cannot grow where it lies
        self._pointed: list[Callable[[], npt.NDArray[Any] | None]] = [lambda: None] * len(state.MOVING)
        self._holders_known = False
        self._known = BytesTable(allocator)
        self._values: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._know_names()
        self._point_to_fixed()

    @property
    def table_places(self) -> int:
        """Places in the tables of names, see `kernels.base_children`."""
        return self._named_used

    def begin(self, cursor: SegmentCursor) -> bool:
        """Begin a segment; whether its operations have the form that kernels know, and all counters are positive."""
        self._forget_paths()
        self._coming[COMING] = 0
        self._layout = cursor.layout_version
        # Hash tables that grow step by step are refilled at each.
        expected = min((len(cursor.buffer) - cursor.position) // _BYTES_A_ROW, _MOST_EXPECTED)
        self._namespace.table.row_of.reserve(expected)
        self._namespace.tree.links.reserve_slots(expected)
        return cursor.layout_version <= FIRST_LAYOUT and cursor.expected is not None and self._counters_fit()

    def _counters_fit(self) -> bool:
        namespace, info = self._namespace, self._namespace.info
        counters = (info.genstampV2, info.lastAllocatedBlockId, info.transactionId, namespace.last_inode_id)
        return max(counters) <= NO_END

    def run(self, cursor: SegmentCursor, limit: int, checked: int) -> int:
        """Apply at most `limit` operations from the cursor on, and move it; returns how many were applied.

        Fewer than `limit` mean that the plain function has to look at the next one.

        Args:
            checked: position in the segment before which all checksums are known to be right.

        Raises:
            RecordError: the base image is damaged; the namespace is of no use any more.
            ImageStorageError: there is no room for a table to grow.
        """
        applied, status = self._run(cursor, limit, checked)
        if status == state.DAMAGED:
            what = "an entry of a directory that is deleted is damaged"
            raise self._index.place("INODE_DIR").error(RecordError, what, 0)
        return applied

    def _run(self, cursor: SegmentCursor, limit: int, checked: int) -> tuple[int, int]:
        """(how many operations were applied, why it stopped)."""
        buffer = np.frombuffer(cursor.buffer, np.uint8)
        last_txid = NO_END if cursor.last_txid is None else cursor.last_txid
        applied, status, grown_at = 0, state.DONE, -1
        try:
            while applied < limit:
                if not self._holders_known:
                    self._mark_holders()
                self._enter()
                self._point()
                position, count, status = run(self._state, buffer, cursor.position, limit - applied, last_txid, checked)
                self._leave()
                self._settle(cursor)
                if self._state[state.ACLS_USED]:
                    self._give_acls(cursor)
                applied += count
                cursor.advance(position, self._namespace.last_txid + 1)
                self._grow_named()
                if self._state[state.WANTS_MARKS] and not self._required_marks.size:
                    self._required_marks = self._namespace.tree.required_marks()
                elif status == state.PAUSE:
                    continue
                elif status != state.AGAIN or position == grown_at:
                    break
                else:
                    grown_at = position
                    self._grow()
        finally:
            # An error that keeps this frame must not keep the segment mapped.
            del buffer
        return applied, int(status)

    def _mark_holders(self) -> None:
        """Mark the snapshottable directories and all above them."""
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
            self._go_through(files.size, lambda number: find_open_files(self._state, section, spans, files, number))
            # the paths that were looked up lie in this section
            self._forget_paths()
        found = np.flatnonzero(files["slot"] >= 0)
        found = found[np.argsort(ids[found], kind="stable")]
        found = found[np.diff(ids[found], prepend=0) > 0]
        placed = np.zeros(found.size, np.bool_)
        self._point()
        place_open_files(self._state, ids[found], files["directory"][found], placed)
        return found[placed], files[found[placed]]

    def load_open_files(self, files: npt.NDArray[np.void]) -> None:
        """See `leases.OpenFileFinder`."""
        if self._counters_fit():
            self._go_through(files.size, lambda number: load_open_files(self._state, files, number))

    def _go_through(self, count: int, go_on: Callable[[int], int]) -> None:
        """Let a kernel look at so many things; `go_on` tells the number of the first that finds a table full."""
        number, grown_at = 0, -1
        while number < count:
            self._enter()
            self._point()
            number = go_on(number)
            self._leave()
            self._grow_named()
            if number == grown_at:
                # a record larger than what a table grows by
                number += 1
            elif number < count:
                grown_at = number
                self._grow()

    def invalidate(self) -> None:
        """Operations may have been applied without `learn`."""
        self._holders_known = False
        self._forget_paths()

    def _forget_paths(self) -> None:
        """Look all paths up again: they lie in another buffer now, or something else than a kernel changed them."""
        self._era += 1

    def after_plain_op(self, op: EditOp) -> None:
        """Remember the names in an operation that was applied plainly, and what it may have moved."""
        directories = self._namespace.history.diffs.directories_changed
        if directories != self._directories or not REPLAYED[type(op)].keeps_paths:
            self._forget_paths()
        self._directories = directories
        self._learn_moves()
        if isinstance(op, AllowSnapshotOp):
            self._holders_known = False
        if isinstance(op, AddOp | MkdirOp):
            self._remember(op.permissions.user, op.permissions.group)
        elif isinstance(op, SetOwnerOp):
            self._remember(op.username, op.groupname)

    def _learn_moves(self) -> None:
        moved = self._namespace.tree.moved
        if moved != self._moved:
            self._holders_known = False
        self._moved = moved

    def _know_names(self) -> None:
        """Let kernels know the names that the image has."""
        strings = self._namespace.strings
        serials: dict[tuple[int, bytes], int] = {}
        for kind, _, text in strings.entries():
            key = None if kind == StringKind.XATTR else _name_key(text)
            if key is not None:
                for group, of in _KINDS:
                    serial = strings.find(text, of)
                    if 0 < serial <= MAX_SERIAL:
                        serials[group, key] = serial
        self._known.add_all([key for _, key in serials], [group for group, _ in serials])
        self._values = np.array([*serials.values(), *([0] * (_NAMES - len(serials)))], np.uint64)

    def _remember(self, user: str | None, group: str | None) -> None:
        """Let kernels know names that the string table has."""
        for (of, kind), text in zip(_KINDS, (user or "", group or ""), strict=True):
            key, serial = _name_key(text), self._namespace.strings.find(text, kind)
            if key is None or not 0 < serial <= MAX_SERIAL or self._known.find(key, of) >= 0:
                continue
            number = self._known.add(key, of)
            if number == self._values.size:
                self._values = np.concatenate([self._values, np.zeros_like(self._values)])
            self._values[number] = serial

    # ---- to and fro ----------------------------------------------------------------------------------------

    def _enter(self) -> None:
        namespace = self._namespace
        table, tree, rules, info = namespace.table, namespace.tree, namespace.rules, namespace.info
        self._state[: state.NUMBERS] = (
            table.count,
            table.names_used,
            table.blocks_used,
            tree.links.count,
            self._opened_used,
            table.pool.count,
            table.pool.used,
            tree.inode_count,
            info.transactionId,
            namespace.last_inode_id,
            info.lastAllocatedBlockId,
            info.genstampV2,
            namespace.hadoop3,
            rules.min_replication,
            rules.max_replication,
            namespace.leases.plain,
            namespace.leases.changed,
            False,
            self._era,
            0,
            0,
            0,
            0,
            not namespace.history.created.may_be_inconsistent,
            tree.moved,
            0,
            self._named_used,
            self._named_wanted,
            self._layout,
            rules.skip_access_time_changes,
            -1 if rules.capture_open_files else namespace.snapshots.next_id,
            0 if namespace.hadoop3 else snapshots.now(),
            0,
            0,
        )

    def _leave(self) -> None:
        namespace, numbers = self._namespace, self._state[: state.NUMBERS].tolist()
        table, tree, info = namespace.table, namespace.tree, namespace.info
        first = table.count
        table.count = table.row_of.count = numbers[state.ROWS_USED]
        if numbers[state.FEATURES_READ]:
            self._read_features(first)
        table.names_used = numbers[state.NAMES_USED]
        table.blocks_used = numbers[state.BLOCKS_USED]
        tree.links.count = numbers[state.LINKS_USED]
        self._opened_used = numbers[state.OPENED_USED]
        self._named_used = numbers[state.NAMED_USED]
        self._named_wanted = numbers[state.NAMED_WANTED]
        table.pool.count = numbers[state.POOL_USED]
        table.pool.used = numbers[state.POOL_BYTES_USED]
        tree.inode_count = numbers[state.INODES]
        # A field that the image does not have is not written with its default.
        if info.transactionId != numbers[state.LAST_TXID]:
            info.transactionId = numbers[state.LAST_TXID]
        namespace.last_inode_id = numbers[state.LAST_INODE_ID]
        if info.lastAllocatedBlockId != numbers[state.LAST_BLOCK_ID]:
            info.lastAllocatedBlockId = numbers[state.LAST_BLOCK_ID]
        if info.genstampV2 != numbers[state.GENERATION_STAMP]:
            info.genstampV2 = numbers[state.GENERATION_STAMP]
        namespace.leases.changed = bool(numbers[state.LEASES_CHANGED])
        self._era = numbers[state.ERA]
        if numbers[state.DIRECTORIES_MOVED] != tree.moved:
            tree.moved = self._moved = numbers[state.DIRECTORIES_MOVED]
            tree.paths.clear_cache()

    def _settle(self, cursor: SegmentCursor) -> None:
        """Make diffs of what kernels noted, and the snapshots that they made, renamed and deleted in between.

        Raises:
            ReplayError, UnsupportedOperationError: see `registry.apply`; later operations may have been applied.
        """
        namespace, diffs = self._namespace, self._namespace.history.diffs
        notes, taken = self._notes[: self._state[state.NOTES_USED]].tolist(), 0
        changed = diffs.directories_changed
        changes = self._snapshot_changes[: self._state[state.SNAPSHOT_CHANGES_USED]]
        for until, row, kept, body, place, mtime in changes.tolist():
            namespace.apply_notes(notes[taken:until], self._copies)
            taken = until
            name, behind = _plain_name(cursor.buffer, place)
            try:
                if kept == DELETED:
                    snapshots.remove(namespace, row, name, mtime)
                    self._learn_moves()
                    self._forget_paths()
                elif kept == RENAMED:
                    snapshots.rename_snapshot(namespace, row, name, _plain_name(cursor.buffer, behind)[0], mtime)
                else:
                    snapshots.make(namespace, row, name, mtime, self._copies[kept])
            except (HdfsError, ValueError, OverflowError, RecursionError) as error:
                self._fail(cursor, body, error)
        namespace.apply_notes(notes[taken:], self._copies)
        # Paths lead on to where they led: a new diff is of the newest snapshot that they are in.
        self._directories += diffs.directories_changed - changed

    @staticmethod
    def _fail(cursor: SegmentCursor, body: int, error: Exception) -> NoReturn:
        """Raise an error as one of the operation whose body stands there."""
        op, _ = decode_op(cursor.buffer, body - BODY, cursor.layout_version)
        with OpErrorTranslator(op):
            raise error

    def _read_features(self, first: int) -> None:
        """Read the features of rows that kernels decoded, from row `first` on."""
        table = self._namespace.table
        for row in (first + np.flatnonzero(table.flags[first : table.count] & FEATURES)).tolist():
            table.read_features(row, self._index.inode_buffer, self._index.inode_offset(int(table.slot[row])))

    def _give_acls(self, cursor: SegmentCursor) -> None:
        """Give new inodes their ACLs, in the order in which they were made: they inherit from each other.

        Raises:
            ReplayError, UnsupportedOperationError: see `registry.apply`; later operations may have been applied.
        """
        namespace = self._namespace
        for row, directory, body, place in self._acls[: self._state[state.ACLS_USED]].tolist():
            namespace.table.marks[row] &= 0xFF ^ ACL_DUE
            try:
                inherit_default_acl(namespace, directory, row)
                if place >= 0:
                    replace_acl(namespace, row, ACL_ENTRIES.read(PrimitiveReader(cursor.buffer, place)))
            except (HdfsError, ValueError, OverflowError) as error:
                self._fail(cursor, body, error)

    def _point(self) -> None:
        """Tell the kernels where the arrays are that may have moved; they stay there while a kernel runs."""
        table, links, known = self._namespace.table, self._namespace.tree.links, self._known
        pool, early = table.pool, self._namespace.history.diffs.early
        # in the order of `state.MOVING`
        arrays: tuple[npt.NDArray[Any], ...] = (
            table.rows,
            table.names,
            table.blocks,
            table.row_of.slots,
            links.links,
            links.slots,
            self._opened,
            self._named,
            pool.items,
            pool.slots,
            pool.arena,
            known.items,
            known.slots,
            known.arena,
            self._values,
            early.items,
            early.slots,
            early.arena,
            self._required_marks,
            self._namespace.tree.leased_ids,
        )
        for number, (array, pointed) in enumerate(zip(arrays, self._pointed, strict=True)):
            if array is not pointed():
                self._point_to(number, array)
                self._pointed[number] = weakref.ref(array)

    def _point_to(self, number: int, array: npt.NDArray[Any]) -> None:
        """Array `number` of `state.ARRAYS` is this one."""
        place = state.NUMBERS + 2 * number
        self._state[place : place + 2] = array.ctypes.data, array.shape[0]

    def _point_to_fixed(self) -> None:
        """Tell the kernels, once, where the arrays are that never move."""
        index = self._index
        arrays: dict[str, npt.NDArray[Any]] = {
            **_columns("base_ids", index.arrays.ids),
            "base_slots": index.arrays.slots,
            **_columns("base_offsets", index.arrays.offsets),
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
        for number, name in enumerate(state.ARRAYS[len(state.MOVING) :], len(state.MOVING)):
            self._point_to(number, arrays[name])

    def _grow(self) -> None:
        """Make room for the next operations; tables double where they are full."""
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
        """Make room for a table of names that found none."""
        if self._named_wanted <= 0:
            return
        self._named = _NO_NAMES
        try:
            self._named_room.grow(self._named_used, self._named_used + self._named_wanted)
            self._named_wanted = 0
        except (ImageStorageError, MemoryError):
            # Names are found without tables as well, so there are no new ones from here on.
            self._named_wanted = _NO_ROOM
        finally:
            self._named = self._named_room.array


def _places_for_paths(index: ImageIndex) -> int:
    """A power of two: twice the directories there are with children, so that few paths drive others out."""
    wanted = 1 << (2 * index.arrays.directory_ids.size).bit_length()
    return min(max(wanted, _FEWEST_PATHS), _MOST_PATHS)


def _columns(name: str, column: Packed) -> dict[str, npt.NDArray[Any]]:
    return {f"{name}_{key}": array for key, array in column._asdict().items()}


def _plain_name(buffer: Buffer, place: int) -> tuple[bytes, int]:
    """A string that a kernel found to be plain, see `is_plain_text`; and the position behind it."""
    start = place + 2
    end = start + int.from_bytes(buffer[place:start])
    return bytes(buffer[start:end]), end


def _name_key(text: str) -> bytes | None:
    """A name as operations have it; None where their two encodings do not agree, as beyond the basic plane.

    None, too, for a longer one than `BytesTable` takes.
    """
    key = encode_cesu8(text)
    return key if key == text.encode("utf-8", "replace") and len(key) <= _LONGEST_NAME else None
