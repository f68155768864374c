"""Snapshot diffs: the changes of one inode between snapshots, and the operations that combine them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from engine.namespace.references import WithName
from engine.namespace.snapshots import Snapshot
from hadoop_common.block import Block
from hadoop_common.java_numbers import signed64, unsigned64
from image_format.inode_features import RowCopy
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb

CURRENT_STATE = 2147483646
"""Snapshot id of the present state of the tree (Snapshot.CURRENT_STATE_ID)."""
NO_SNAPSHOT = -1
LARGEST_ID = (1 << 31) - 3
"""Largest snapshot id that a row can store."""


_id_of = attrgetter("snapshot_id")


@dataclass(slots=True, eq=False)
class LinkCopy:
    """State of a symlink in a snapshot: a deleted entry with the id of a link that still exists elsewhere.

    Attributes:
        loaded: whether the entry is the link itself and not a copy, as in a NameNode that has loaded the image.
    """

    row: int
    name: bytes
    loaded: bool = False


_SEARCHES = 64
"""Maximum number of names to search in the bytes of diffs; reading the diffs takes as long as 100 searches."""

Node = int | WithName | LinkCopy
"""An entry of a directory or deleted list: a row, or the entry that an inode left in a snapshot."""


def row_of(node: Node) -> int:
    """Return the row of a node's inode."""
    return node if isinstance(node, int) else node.row


@dataclass(slots=True, eq=False)
class FileDiff:
    """`fsimage.proto FileDiff`: a file at a snapshot.

    Attributes:
        file_size: size of the file in bytes.
        name, copy: its attributes at that time, or None if they have not changed since then; a `RowCopy` also contains
            the name.
        blocks: its blocks at that time; None if they equal the blocks in the next diff with blocks, or the file's
            present blocks.
        detached: ids in `blocks` that changes of the file's present blocks no longer affect.
    """

    snapshot_id: int
    file_size: int
    name: bytes = b""
    copy: pb.INodeFile | RowCopy | None = None
    blocks: list[Block] | None = None
    detached: set[int] = field(default_factory=set)

    def set_blocks(self, blocks: Sequence[Block]) -> None:
        """Store the blocks with the file's bytes at that time, unless blocks are already stored (FileDiff.setBlocks).

        An image may have blocks of length NO_ACK; Hadoop adds them like other lengths, in 64 bits.
        """
        if self.blocks is not None:
            return
        kept: list[Block] = []
        size = 0
        for block in blocks:
            if size >= self.file_size:
                break
            kept.append(block)
            size = signed64(unsigned64(size + block.num_bytes))
        self.blocks = kept


@dataclass(slots=True, eq=False)
class DirectoryDiff:
    """`fsimage.proto DirectoryDiff`: a directory at a snapshot.

    Attributes:
        children_size: number of children when the diff was made.
        is_root: whether the directory is the snapshot's root; `name` and `copy` then belong to the snapshot.
        name, copy: see `FileDiff`.
        created: names that were added after the snapshot. The value is the row of a stray; for other names it is None,
            and the next diff or the directory contains the inode.
        deleted: nodes that existed at the snapshot and were removed after it, by name.
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
        """Record the removal of a child; a child that was created after the snapshot is not recorded, but returned."""
        if name in self.created:
            stray = self.created.pop(name)
            return node if stray is None else stray
        self.deleted[name] = node
        return None

    def forget_stray(self, node: Node) -> list[bytes]:
        """Remove all created names of a node; return these names."""
        row = node if isinstance(node, int) else node.row
        names = [name for name, stray in self.created.items() if stray == row]
        for name in names:
            del self.created[name]
        return names

    def combine(
        self, later: DirectoryDiff, trashed: Callable[[Node], None], stops: Callable[[bytes], None] | None = None
    ) -> None:
        """Add the changes of the next diff to this diff (Diff.combinePosterior).

        Args:
            trashed: called with each node that was created after this snapshot and removed before the next snapshot.
            stops: called with each name that is deleted twice; a NameNode terminates when it combines such diffs.
        """
        if not later.deleted:
            self.created.update(later.created)
            return
        names: Set[bytes] = later.deleted.keys()
        if any(self.created.values()) or any(later.created.values()):
            names = names | later.created.keys()
        else:
            # There may be many names. Without strays, the names are independent of one another.
            came = later.created.copy()
            for name in names:
                came.pop(name, None)
            self.created.update(came)
        for name in sorted(names, key=name_key):
            gone = later.deleted.get(name)
            if gone is None:
                self.create(name, later.created[name])
            elif name not in later.created and name in self.deleted and name not in self.created:
                # One of the two nodes was created between the diffs, under another name.
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
    """Unread diffs in the image.

    Attributes:
        count: number of diffs.
        records: bytes of the diffs, newest first.
        read: returns the diffs, oldest first.
    """

    count: int
    records: memoryview
    read: Callable[[], list[D]]


@dataclass(slots=True, eq=False)
class DiffList(Generic[D]):
    """Diffs of one inode, oldest first (AbstractINodeDiffList).

    Attributes:
        known: diffs that were read or created.
        older: the diffs before them, which contain no references or symlinks (`kernels.history.older_diffs`); None if
            all are known.
    """

    known: list[D] = field(default_factory=list)
    older: OlderDiffs[D] | None = None

    @property
    def items(self) -> list[D]:
        """All diffs; older diffs are read if necessary."""
        if self.older is not None:
            older, self.older = self.older, None
            try:
                self.known[:0] = older.read()
            except BaseException:
                self.older = older
                raise
        return self.known

    def _position(self, snapshot_id: int) -> tuple[int, bool]:
        """Return (index in `known` of the first diff with at least this id, whether it has exactly this id)."""
        known = self.known
        # Most calls request the newest diff.
        if not known or known[-1].snapshot_id < snapshot_id:
            return len(known), False
        if known[-1].snapshot_id == snapshot_id and (len(known) == 1 or known[-2].snapshot_id < snapshot_id):
            return len(known) - 1, True
        if known[0].snapshot_id > snapshot_id:
            known = self.items
        at = bisect_left(known, snapshot_id, key=_id_of)
        return at, at < len(known) and known[at].snapshot_id == snapshot_id

    def _before(self, at: int) -> D | None:
        """Return the diff that precedes an item of `known`, read if necessary; None for the first diff."""
        if at:
            return self.known[at - 1]
        count = len(self.known)
        more = len(self.items) - count
        return self.known[more - 1] if more else None

    @property
    def any(self) -> bool:
        """Whether the list contains diffs."""
        return bool(self.known) or self.older is not None

    @property
    def last(self) -> D | None:
        return self.known[-1] if self.known else None

    @property
    def last_id(self) -> int:
        return self.known[-1].snapshot_id if self.known else CURRENT_STATE

    def add(self, diff: D) -> None:
        """Append a diff of a newer snapshot."""
        self.known.append(diff)

    def index_at(self, snapshot_id: int) -> int:
        """Return the index of the diff for a snapshot, or the number of diffs if the present state applies."""
        count = len(self.items)
        return count if snapshot_id == CURRENT_STATE else self._position(snapshot_id)[0]

    def since(self, snapshot_id: int) -> list[D]:
        """Return the diff for a snapshot and all later diffs; empty if the present state applies."""
        if snapshot_id == CURRENT_STATE:
            return []
        at, _ = self._position(snapshot_id)
        return self.known[at:]

    def at(self, snapshot_id: int) -> D | None:
        """Return the diff for a snapshot, or None if the present state applies."""
        return next(iter(self.since(snapshot_id)), None)

    def has(self, snapshot_id: int) -> bool:
        """Return whether a diff with exactly this snapshot id exists."""
        known = self.known
        return (bool(known) and known[-1].snapshot_id == snapshot_id) or self._position(snapshot_id)[1]

    def of(self, snapshot_id: int) -> D | None:
        """Return the diff with exactly this snapshot id, or None."""
        at, exact = self._position(snapshot_id)
        return self.known[at] if exact else None

    def prior(self, snapshot_id: int, *, exclusive: bool = False) -> int:
        """Return the id of the newest diff up to a snapshot (before it if `exclusive`), or `NO_SNAPSHOT` if none."""
        if snapshot_id == CURRENT_STATE:
            last = self.last_id
            return NO_SNAPSHOT if exclusive and last == CURRENT_STATE else last
        at, exact = self._position(snapshot_id)
        if exact and not exclusive:
            return snapshot_id
        before = self._before(at)
        return NO_SNAPSHOT if before is None else before.snapshot_id

    def update_prior(self, snapshot_id: int, prior: int) -> int:
        """Return the newer of `prior` and the id of the diff before a snapshot."""
        own = self.prior(snapshot_id, exclusive=True)
        return own if own not in (CURRENT_STATE, NO_SNAPSHOT) and own > prior else prior

    def remove_diff(self, snapshot_id: int, prior: int) -> tuple[D | None, D | None] | None:
        """Delete the diff of a snapshot (AbstractINodeDiffList.deleteSnapshotDiff).

        Returns:
            (removed, earlier), or None if the snapshot has no diff. `removed` is the removed diff, or None if the diff
            was only assigned the id `prior`. `earlier` is the diff that must receive the removed diff's changes, or
            None if the first diff was removed.
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
        current_deleted: whether the file exists only in snapshots; None if unknown.
    """

    current_deleted: bool | None = False

    def follow(self, block: Block) -> None:
        """Apply a new length or generation stamp of a block to the diffs that share the block."""
        for diff in self.items:
            if diff.blocks and block.block_id not in diff.detached:
                diff.blocks = [block if kept.block_id == block.block_id else kept for kept in diff.blocks]

    def newest_has(self, block_id: int) -> bool:
        """Return whether the newest block list of the file in a snapshot contains a block (isBlockInLatestSnapshot)."""
        newest = next((diff.blocks for diff in reversed(self.items) if diff.blocks), ())
        return any(kept.block_id == block_id for kept in newest)

    def detach(self, block_id: int) -> None:
        """Detach a block that became another object; the diffs retain its present state."""
        for diff in self.items:
            if diff.blocks and any(kept.block_id == block_id for kept in diff.blocks):
                diff.detached.add(block_id)


@dataclass(slots=True, eq=False)
class DirectoryDiffs(DiffList[DirectoryDiff]):
    _searches: int = 0

    def created_node(self, diff: DirectoryDiff, name: bytes) -> Node | None:
        """Return the node of a diff's created name; None if only a current child can have the name."""
        stray = diff.created.get(name)
        if stray is not None:
            return stray
        for later in self.known[self.known.index(diff) + 1 :]:
            if name in later.deleted:
                return later.deleted[name]
        return None

    def newest_first(self, name: bytes) -> Iterator[DirectoryDiff]:
        """Yield the diffs, newest first, except unread diffs that cannot contain the created name."""
        yield from reversed(list(self.known))
        self._searches += self.older is not None
        if self.older is not None and (self._searches > _SEARCHES or name in bytes(self.older.records)):
            count = len(self.known)
            yield from reversed(self.items[:-count])
