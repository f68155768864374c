"""Snapshot diffs: the changes of one inode between snapshots, and the algebra over them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from engine.namespace.references import WithName
from engine.namespace.snapshots import Snapshot
from image_format.inode_table import Block, RowCopy, to_signed
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb

CURRENT_STATE = 2147483646
"""Snapshot id that stands for the tree as it is now (Snapshot.CURRENT_STATE_ID)."""
NO_SNAPSHOT = -1
LARGEST_ID = (1 << 31) - 3
"""The largest id of a snapshot that a row can hold."""
_UINT64 = (1 << 64) - 1


_id_of = attrgetter("snapshot_id")


@dataclass(slots=True, eq=False)
class LinkCopy:
    """A symlink as it was in a snapshot: a deleted entry with the id of a link that lives on elsewhere.

    Attributes:
        loaded: it is no copy but the link itself, as a NameNode takes the entry when it loads an image.
    """

    row: int
    name: bytes
    loaded: bool = False


_SEARCHES = 64
"""For so many names the bytes of diffs are searched: reading them takes as long as a hundred searches."""

Node = int | WithName | LinkCopy
"""What a directory or a deleted list holds: a row, or what an inode left in a snapshot."""


def row_of(node: Node) -> int:
    """Row of the inode that a node is or stands for."""
    return node if isinstance(node, int) else node.row


@dataclass(slots=True, eq=False)
class FileDiff:
    """`fsimage.proto FileDiff`: a file at a snapshot.

    Attributes:
        file_size: bytes it had.
        name, copy: its attributes then, None where they did not change since; a `RowCopy` has the name, too.
        blocks: its blocks then, None where they are those of the next diff that has some, or the present ones.
        detached: ids in `blocks` that do not follow the file's own block of that id any more.
    """

    snapshot_id: int
    file_size: int
    name: bytes = b""
    copy: pb.INodeFile | RowCopy | None = None
    blocks: list[Block] | None = None
    detached: set[int] = field(default_factory=set)

    def set_blocks(self, blocks: Sequence[Block]) -> None:
        """Keep the blocks that hold the file's bytes of then, unless some are kept already (FileDiff.setBlocks).

        An image may have blocks with the length NO_ACK, which Hadoop adds up like any other, in 64 bits.
        """
        if self.blocks is not None:
            return
        kept: list[Block] = []
        size = 0
        for block in blocks:
            if size >= self.file_size:
                break
            kept.append(block)
            size = to_signed((size + block.num_bytes) & _UINT64)
        self.blocks = kept


@dataclass(slots=True, eq=False)
class DirectoryDiff:
    """`fsimage.proto DirectoryDiff`: a directory at a snapshot.

    Attributes:
        children_size: children it had when the diff was made.
        is_root: the snapshot was taken of this very directory; then `name` and `copy` are the snapshot's.
        name, copy: as those of `FileDiff`.
        created: names that are there after but not at the snapshot. Who has one, the next diff or the directory
            tells, unless it is a stray: then its row stands here.
        deleted: what was there at the snapshot and is not after, by name.
    """

    snapshot_id: int
    children_size: int
    is_root: bool = False
    name: bytes = b""
    copy: pb.INodeDirectory | RowCopy | Snapshot | None = None
    created: dict[bytes, int | None] = field(default_factory=dict)
    deleted: dict[bytes, Node] = field(default_factory=dict)

    def create(self, name: bytes, stray: int | None = None) -> None:
        self.created[name] = stray

    def delete(self, name: bytes, node: Node) -> Node | None:
        """A child leaves; one that came after the snapshot leaves no trace and is returned."""
        if name in self.created:
            stray = self.created.pop(name)
            return node if stray is None else stray
        self.deleted[name] = node
        return None

    def forget_stray(self, node: Node) -> list[bytes]:
        """What is known as created under whatever name came after the snapshot, and left; the names are returned."""
        row = node if isinstance(node, int) else node.row
        names = [name for name, stray in self.created.items() if stray == row]
        for name in names:
            del self.created[name]
        return names

    def combine(
        self, later: DirectoryDiff, trashed: Callable[[Node], None], stops: Callable[[bytes], None] | None = None
    ) -> None:
        """Take the changes of the next diff into this one (Diff.combinePosterior).

        Args:
            trashed: told of what came after this snapshot and left before the next.
            stops: told of a name that leaves twice, at which a NameNode stops.
        """
        if not later.deleted:
            self.created.update(later.created)
            return
        names: Set[bytes] = later.deleted.keys()
        if any(self.created.values()) or any(later.created.values()):
            names = names | later.created.keys()
        else:
            # There may be many. Without strays no name has to do with another.
            came = later.created.copy()
            for name in names:
                came.pop(name, None)
            self.created.update(came)
        for name in sorted(names, key=name_key):
            gone = later.deleted.get(name)
            if gone is None:
                self.create(name, later.created[name])
            elif name not in later.created and name in self.deleted and name not in self.created:
                # one of them came in between, under another name
                if stops is not None:
                    stops(name)
                self.forget_stray(gone)
                trashed(gone)
            elif name not in later.created:
                previous = self.delete(name, gone)
                if previous is not None:
                    trashed(previous)
            elif name in self.created:
                self.created[name] = later.created[name]
                trashed(gone)
            elif name not in self.deleted:
                self.created[name] = later.created[name]
                self.deleted[name] = gone


D = TypeVar("D", FileDiff, DirectoryDiff)


@dataclass(frozen=True, slots=True, eq=False)
class OlderDiffs(Generic[D]):
    """Diffs that stand in the image, and that nobody looked at.

    Attributes:
        count: how many there are.
        records: their bytes, newest first.
        read: gives them, oldest first.
    """

    count: int
    records: memoryview
    read: Callable[[], list[D]]


@dataclass(slots=True, eq=False)
class DiffList(Generic[D]):
    """Diffs of one inode, oldest first; `AbstractINodeDiffList`.

    Attributes:
        known: those that were read or made.
        older: the ones before them, which are plain (`kernels.history.older_diffs`); None where all are known.
    """

    known: list[D] = field(default_factory=list)
    older: OlderDiffs[D] | None = None

    @property
    def items(self) -> list[D]:
        """All of them; they are read if need be."""
        if self.older is not None:
            older, self.older = self.older, None
            try:
                self.known[:0] = older.read()
            except BaseException:
                self.older = older
                raise
        return self.known

    def _position(self, snapshot_id: int) -> tuple[int, bool]:
        """(index among `known` of the first diff with at least this id, whether it is that very id)."""
        known = self.known
        # mostly it is the newest one that is asked for
        if not known or known[-1].snapshot_id < snapshot_id:
            return len(known), False
        if known[-1].snapshot_id == snapshot_id and (len(known) == 1 or known[-2].snapshot_id < snapshot_id):
            return len(known) - 1, True
        if known[0].snapshot_id > snapshot_id:
            known = self.items
        at = bisect_left(known, snapshot_id, key=_id_of)
        return at, at < len(known) and known[at].snapshot_id == snapshot_id

    def _before(self, at: int) -> D | None:
        """The diff before one of `known`, None before the first; it is read if need be."""
        if at:
            return self.known[at - 1]
        count = len(self.known)
        more = len(self.items) - count
        return self.known[more - 1] if more else None

    @property
    def any(self) -> bool:
        """Whether there are diffs."""
        return bool(self.known) or self.older is not None

    @property
    def last(self) -> D | None:
        return self.known[-1] if self.known else None

    @property
    def last_id(self) -> int:
        return self.known[-1].snapshot_id if self.known else CURRENT_STATE

    def add(self, diff: D) -> None:
        """One of a newer snapshot."""
        self.known.append(diff)

    def index_at(self, snapshot_id: int) -> int:
        """Index in `items` of the diff that tells of a snapshot, behind the last where the present state does."""
        count = len(self.items)
        return count if snapshot_id == CURRENT_STATE else self._position(snapshot_id)[0]

    def since(self, snapshot_id: int) -> list[D]:
        """The diff that tells of a snapshot, and those after it; none where the present state does."""
        if snapshot_id == CURRENT_STATE:
            return []
        at, _ = self._position(snapshot_id)
        return self.known[at:]

    def at(self, snapshot_id: int) -> D | None:
        """The diff that tells of a snapshot, None where the present state does."""
        return next(iter(self.since(snapshot_id)), None)

    def of(self, snapshot_id: int) -> D | None:
        """The diff of that very snapshot."""
        at, exact = self._position(snapshot_id)
        return self.known[at] if exact else None

    def prior(self, snapshot_id: int, *, exclusive: bool = False) -> int:
        """Id of the newest diff that is not after a snapshot, or before it; `NO_SNAPSHOT`."""
        if snapshot_id == CURRENT_STATE:
            last = self.last_id
            return NO_SNAPSHOT if exclusive and last == CURRENT_STATE else last
        at, exact = self._position(snapshot_id)
        if exact and not exclusive:
            return snapshot_id
        before = self._before(at)
        return NO_SNAPSHOT if before is None else before.snapshot_id

    def update_prior(self, snapshot_id: int, prior: int) -> int:
        """The nearer of `prior` and the diff before a snapshot."""
        own = self.prior(snapshot_id, exclusive=True)
        return own if own not in (CURRENT_STATE, NO_SNAPSHOT) and own > prior else prior

    def take_out(self, snapshot_id: int, prior: int) -> tuple[D | None, D | None] | None:
        """Delete the diff of a snapshot (AbstractINodeDiffList.deleteSnapshotDiff).

        Returns:
            (removed, earlier): the diff taken out, None where it only got the id `prior`; and the diff that has to take
            up its changes, None for the first. None where there is no such diff.
        """
        at, exact = self._position(snapshot_id)
        if not exact:
            return None
        removed, earlier = self.known[at], self._before(at)
        if (earlier is None and prior != NO_SNAPSHOT) or (earlier is not None and earlier.snapshot_id != prior):
            removed.snapshot_id = prior
            return None, None
        self.known.remove(removed)
        if earlier is not None and earlier.copy is None:
            earlier.name, earlier.copy = removed.name, removed.copy
        return removed, earlier


@dataclass(slots=True, eq=False)
class FileDiffs(DiffList[FileDiff]):
    """Diffs of a file.

    Attributes:
        current_deleted: the file is only in snapshots; None where nobody asked yet.
    """

    current_deleted: bool | None = False

    def follow(self, block: Block) -> None:
        """A block of the file has a new length or stamp; so have the diffs that share it."""
        for diff in self.items:
            if diff.blocks and block.block_id not in diff.detached:
                diff.blocks = [block if kept.block_id == block.block_id else kept for kept in diff.blocks]

    def newest_has(self, block_id: int) -> bool:
        """Whether the newest block list that a snapshot has of the file has a block (isBlockInLatestSnapshot)."""
        newest = next((diff.blocks for diff in reversed(self.items) if diff.blocks), ())
        return any(kept.block_id == block_id for kept in newest)

    def detach(self, block_id: int) -> None:
        """A block of the file became another object; the diffs keep what they have."""
        for diff in self.items:
            if diff.blocks and any(kept.block_id == block_id for kept in diff.blocks):
                diff.detached.add(block_id)


@dataclass(slots=True, eq=False)
class DirectoryDiffs(DiffList[DirectoryDiff]):
    """Diffs of a directory."""

    _searches: int = 0

    def created_node(self, diff: DirectoryDiff, name: bytes) -> Node | None:
        """Who has a created name of a diff; None where the directory as it is now has to tell."""
        stray = diff.created.get(name)
        if stray is not None:
            return stray
        for later in self.known[self.known.index(diff) + 1 :]:
            if name in later.deleted:
                return later.deleted[name]
        return None

    def newest_first(self, name: bytes) -> Iterator[DirectoryDiff]:
        """The diffs, less older ones that are not known and cannot have a name as created."""
        yield from reversed(list(self.known))
        self._searches += self.older is not None
        if self.older is not None and (self._searches > _SEARCHES or name in bytes(self.older.records)):
            count = len(self.known)
            yield from reversed(self.items[:-count])
