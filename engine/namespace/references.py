"""References: the entries at the old and new places of an inode that was renamed out of a snapshot.

As in Hadoop, each of these inodes has a hub, which counts the inode's names in snapshots (WithName) and its present
place (DstReference). No object represents a DstReference: its fields are in the hub, and the inode's own row represents
the reference in children and in deleted lists.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.errors import InconsistentNamespaceError, UnsupportedNamespaceError
from image_format.inode_features import has_unknown_fields
from image_format.inode_table import NO_ROW, InodeTable
from image_format.proto import fsimage_pb2 as pb
from image_format.snapshot_index import SnapshotIndex
from image_format.varint import encode_delimited

NEW = -1
"""Value of `number` for every reference that is not in the base image."""


@dataclass(slots=True, eq=False)
class WithName:
    """Name of an inode in snapshots up to a last snapshot (`INodeReference` with a name).

    Attributes:
        last_snapshot: id of the newest snapshot that contains the inode under this name.
        parent: row of the directory whose diffs list the name as deleted.
        number: number of its record in the base image, or `NEW`.
    """

    row: int
    name: bytes
    last_snapshot: int
    parent: int
    number: int = NEW


@dataclass(slots=True, eq=False)
class Hub:
    """All references to one inode (INodeReference.WithCount).

    Attributes:
        with_names: names in snapshots, ordered by `last_snapshot`.
        dst_snapshot: newest snapshot of the present place when the inode was moved to this place; None if the inode has
            no present place.
        dst_number: record number of the present place, in the form of `WithName.number`.
        dst_unknown: whether the record of the present place has fields that this version does not know.
    """

    row: int
    with_names: list[WithName] = field(default_factory=list)
    dst_snapshot: int | None = None
    dst_number: int = NEW
    dst_unknown: bool = False

    @property
    def count(self) -> int:
        return len(self.with_names) + (self.dst_snapshot is not None)

    def before(self, with_name: WithName) -> WithName | None:
        """Return the name that precedes `with_name`, which may already have been removed."""
        older = [other for other in self.with_names if other.last_snapshot < with_name.last_snapshot]
        return older[-1] if older else None


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers of the references in the image that is being written.

    Attributes:
        data: the INODE_REFERENCE section.
        moved: new numbers of the records that were moved into gaps, by old number.
        assigned: numbers of the references that are not in the base image.
    """

    data: bytes
    moved: dict[int, int]
    assigned: dict[WithName | Hub, int]

    def of(self, reference: WithName | Hub) -> int:
        """Return the number of a name in snapshots, or of the present place of a hub's inode."""
        number = _number(reference)
        return self.assigned[reference] if number == NEW else self.moved.get(number, number)


def _number(reference: WithName | Hub) -> int:
    """Return the base image's number of a name in snapshots, or of the present place of a hub's inode."""
    return reference.dst_number if isinstance(reference, Hub) else reference.number


class InodeReferences:
    """References of the base image that were looked up, and new references.

    Args:
        place: records the directory of an inode; both are rows.

    Attributes:
        changed: whether a reference was added or removed.
    """

    def __init__(
        self, base: SnapshotIndex, table: InodeTable, load: Callable[[int], int], place: Callable[[int, int], None]
    ) -> None:
        self._base = base
        self._table = table
        self._load = load
        self._place = place
        self._in_base = base.reference_count > 0
        self._hubs: dict[int, Hub | None] = {}
        self._named: dict[int, WithName] = {}
        self.changed = False

    @property
    def any(self) -> bool:
        """Whether references may exist."""
        return self._in_base or bool(self._hubs)

    def hub(self, row: int) -> Hub | None:
        """Return the hub of an inode that was renamed out of a snapshot, or None for other inodes."""
        hub = self._hubs.get(row)
        if hub is not None or not self._in_base or row in self._hubs or self._table.slot.item(row) < 0:
            return hub
        for number in self._base.references_to(int(self._table.id[row])).tolist():
            hub = hub or Hub(row)
            record = self._base.reference(number)
            if record.HasField("dstSnapshotId"):
                hub.dst_snapshot, hub.dst_number = record.dstSnapshotId, number
                hub.dst_unknown = has_unknown_fields(record)
            else:
                known = WithName(row, record.name, record.lastSnapshotId, -1, number)
                insort(hub.with_names, known, key=lambda name: name.last_snapshot)
                self._named[number] = known
        self._hubs[row] = hub
        return hub

    def is_dst(self, row: int) -> bool:
        """Return whether the directory of an inode refers to it by a DstReference."""
        hub = self.hub(row)
        return hub is not None and hub.dst_snapshot is not None

    def check_known(self, row: int) -> None:
        """Check, before a move, that the record of an inode's place can be rebuilt.

        Raises:
            UnsupportedNamespaceError: the record has fields that this version does not know.
        """
        hub = self.hub(row)
        if hub is not None and hub.dst_number != NEW and hub.dst_unknown:
            raise UnsupportedNamespaceError(
                f"reference {hub.dst_number} to inode {int(self._table.id[row])} (section INODE_REFERENCE) has fields "
                "that are unknown to this version"
            )

    def resolve(self, number: int, parent: int) -> int | WithName:
        """Return the node for a record number of the base image in a directory: a row, or a name in snapshots.

        Raises:
            RecordError: the record does not exist, or its inode is in two places.
            InconsistentNamespaceError: its inode does not exist.
        """
        row = self._load(self._base.reference(number).referredId)
        if row == NO_ROW or self.hub(row) is None:
            raise InconsistentNamespaceError(f"reference {number} refers to an inode that does not exist")
        named = self._named.get(number)
        if named is None:
            self._place(row, parent)
            return row
        named.parent = parent
        return named

    def add_name(self, row: int, name: bytes, last_snapshot: int, parent: int) -> WithName:
        """Add a name that only snapshots retain, and remove the inode's present place.

        Raises:
            InconsistentNamespaceError: the inode has another name in the same snapshot.
        """
        hub = self._hub_of(row)
        if any(other.last_snapshot == last_snapshot for other in hub.with_names):
            raise InconsistentNamespaceError(
                f"inode {int(self._table.id[row])} has two names in snapshot {last_snapshot}",
                hint="A NameNode that replays these edits also stops at this operation: do not restart a running "
                "NameNode.",
            )
        self.remove_dst(hub)
        named = WithName(row, name, last_snapshot, parent)
        insort(hub.with_names, named, key=lambda other: other.last_snapshot)
        self.changed = True
        return named

    def name_in_snapshot(self, row: int, name: bytes, last_snapshot: int, parent: int) -> WithName | None:
        """Add a name in snapshots, and keep the present place; return None if that snapshot contains another name."""
        hub = self._hub_of(row)
        if any(other.last_snapshot == last_snapshot for other in hub.with_names):
            return None
        named = WithName(row, name, last_snapshot, parent)
        self.keep_name(named)
        return named

    def keep_name(self, named: WithName) -> None:
        """Restore a removed name in snapshots."""
        hub = self._hub_of(named.row)
        if named not in hub.with_names:
            named.number = NEW
            insort(hub.with_names, named, key=lambda other: other.last_snapshot)
            self.changed = True

    def refer(self, row: int, snapshot: int) -> None:
        """Convert the entry of an inode in its directory to a reference; see `set_dst`."""
        self.set_dst(self._hub_of(row), snapshot)

    def _hub_of(self, row: int) -> Hub:
        hub = self.hub(row)
        if hub is None:
            hub = self._hubs[row] = Hub(row)
            self._table.mark_special(row)
            self._table.newest[row] = 0
        return hub

    def set_dst(self, hub: Hub, snapshot: int) -> None:
        """Record the inode's new place; `snapshot` is the newest snapshot of that place."""
        self.remove_dst(hub)
        hub.dst_snapshot = snapshot
        self.changed = True

    def remove_dst(self, hub: Hub) -> None:
        if hub.dst_snapshot is not None:
            hub.dst_snapshot = None
            hub.dst_number = NEW
            self.changed = True

    def remove_name(self, hub: Hub, named: WithName) -> None:
        if named in hub.with_names:
            hub.with_names.remove(named)
            self.changed = True

    def forget(self, row: int) -> None:
        """Remove all references to a removed inode."""
        hub = self.hub(row)
        if hub is not None:
            self.remove_dst(hub)
            for named in list(hub.with_names):
                self.remove_name(hub, named)

    # ---- writing -------------------------------------------------------------------------------------------

    def number(self, held: Iterable[WithName | Hub], knows: Callable[[int], bool]) -> Numbering:
        """Number all references from 0 without gaps, and retain most numbers of the base image.

        New references fill the gaps first; then the last records move into the remaining gaps.

        Args:
            held: the references in children and deleted lists that were read.
            knows: returns whether `held` contains all remaining references of a holder in the base image; see
                `SnapshotIndex.holders`.

        Raises:
            InconsistentNamespaceError: a reference is in two places.
        """
        if not self.changed:
            return Numbering(b"", {}, {})
        count = self._base.reference_count
        new: list[WithName | Hub] = []
        kept: set[int] = set()
        seen: set[WithName | Hub] = set()
        for reference in held:
            if reference in seen:
                raise InconsistentNamespaceError(
                    f"a reference to inode {int(self._table.id[reference.row])} is in two places, so the edits do not "
                    "fit the image",
                    hint="A NameNode that replays these edits also stops at this operation: do not restart a running "
                    "NameNode.",
                )
            seen.add(reference)
            number = _number(reference)
            if number == NEW:
                new.append(reference)
            else:
                kept.add(number)
        holders = self._base.holders().tolist()
        gaps = [number for number in range(count) if number not in kept and knows(holders[number])]
        return self._fill(count, gaps, new)

    def _fill(self, count: int, gaps: list[int], new: list[WithName | Hub]) -> Numbering:
        placed: dict[int, bytes] = {}
        appended: list[bytes] = []
        assigned: dict[WithName | Hub, int] = {}
        free = deque(gaps)
        for reference in new:
            record = encode_delimited(self._record(reference))
            if free:
                assigned[reference] = free.popleft()
                placed[assigned[reference]] = record
            else:
                assigned[reference] = count + len(appended)
                appended.append(record)
        end = count - len(free)
        holes = iter([gap for gap in free if gap < end])
        gone = set(gaps)
        moved = {number: next(holes) for number in range(end, count) if number not in gone}
        for old, number in moved.items():
            placed[number] = bytes(self._base.reference_bytes(old, old + 1))
        data = self._joined(placed, end) + b"".join(appended)
        return Numbering(data, moved, assigned)

    def _joined(self, placed: dict[int, bytes], end: int) -> bytes:
        pieces: list[memoryview | bytes] = []
        at = 0
        for number in sorted(placed):
            pieces += [self._base.reference_bytes(at, number), placed[number]]
            at = number + 1
        pieces.append(self._base.reference_bytes(at, end))
        return b"".join(pieces)

    def _record(self, reference: WithName | Hub) -> pb.INodeReference:
        referred = int(self._table.id[reference.row])
        if isinstance(reference, Hub):
            return pb.INodeReference(referredId=referred, dstSnapshotId=reference.dst_snapshot)
        return pb.INodeReference(referredId=referred, name=reference.name, lastSnapshotId=reference.last_snapshot)
