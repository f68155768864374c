"""Read access to a warm namespace: the base image with the changes since, without a copy of either.

Only inodes that edits touched have a row. The others are read from the base image and get no row, so reading a
directory takes no memory that stays. Snapshots are an exception: inodes with snapshot diffs are loaded, as in replay.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from engine.live_content import ContentWalk
from engine.loaded_image import LoadedImage
from engine.namespace import Namespace
from engine.namespace.diff_codec import Diffs
from engine.namespace.diffs import DirectoryDiffs, FileDiffs, row_of
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.index import Ids, ImageIndex
from image_format.inode_features import to_signed
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED, SYMLINK
from image_format.kernels.scan import find_id
from image_format.kernels.tables import UNKNOWN
from image_format.name_order import name_key
from image_format.policies import ErasurePolicy
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.dump.values import SerialNames
from image_tools.namespace_browser import ChildPage, ContentTotals, Enter, LocatedInode, SnapshotFolder, placed

_UINT64 = (1 << 64) - 1


class ChildIds(NamedTuple):
    """Children of a directory: ids of untouched inodes in name order, and ids of the others by name."""

    plain: Ids
    named: dict[bytes, int]


class LiveBrowser:
    """A `NamespaceBrowser` of a warm namespace, for the thread that holds its gate.

    Args:
        opened: returns the loaded image with its namespace.
        pause: lets edits be applied in between; afterwards another image may be loaded.
    """

    def __init__(self, opened: Callable[[], LoadedImage], pause: Callable[[], None]) -> None:
        self._opened = opened
        self._pause = pause
        self._bind()

    def _bind(self) -> None:
        loaded = self._opened()
        self.index: ImageIndex = loaded.index
        self.namespace: Namespace = loaded.namespace
        self.names = SerialNames(self.namespace.strings)
        self.erasure_policies: Mapping[int, ErasurePolicy] = {
            each.id: ErasurePolicy(
                each.name, each.codec, each.data_units, each.parity_units, each.cell_size, each.options
            )
            for each in self.namespace.erasure_coding.policies()
        }

    def pause(self) -> None:
        """Let edits be applied; rows are invalid afterwards, inode ids are not.

        Raises:
            NamespaceBusyError: the namespace did not become available again.
        """
        self._pause()
        self._bind()

    @property
    def txid(self) -> int:
        """Newest applied transaction."""
        return self.namespace.last_txid

    # ---- inodes --------------------------------------------------------------------------------------------

    def root(self) -> LocatedInode | None:
        """Return the root of the tree."""
        inode = self.inode(ROOT_INODE_ID)
        return None if inode is None else self._place(inode, None, None)

    def inode(self, inode_id: int) -> pb.INode | None:
        """Return an inode with its present attributes, also one that only snapshots have; None if it is missing."""
        table = self.namespace.table
        row = table.row_of.get(inode_id)
        if row is not None:
            return None if table.flags.item(row) & DROPPED else table.message(row)
        slot = self.index.slot(inode_id)
        if slot < 0 or self.namespace.tree.dropped[slot]:
            return None
        place = self.index.place("INODE")
        return parse_message(
            pb.INode, read_record(self.index.inode_buffer.data, self.index.inode_offset(slot), place), place
        )

    def chain(self, inode_id: int) -> list[LocatedInode]:
        """Return the inodes from the root to an inode; none if the current tree does not contain it."""
        places: list[LocatedInode] = []
        for each in self._ids_above(inode_id):
            inode = self.inode(each)
            if inode is None:
                return []
            places.append(self._place(inode, None, places[-1] if places else None))
        return places if places and to_signed(places[0].inode.id) == ROOT_INODE_ID else []

    def _ids_above(self, inode_id: int) -> list[int]:
        """Return the ids from the topmost inode above one to itself."""
        table = self.namespace.table
        below: list[int] = []
        if table.row_of.get(inode_id) is None:
            if self.index.slot(inode_id) < 0:
                return []
            (chain,) = self.index.history.chains(np.array([inode_id], np.int64))
            ids = chain.tolist()
            while ids and table.row_of.get(ids[-1]) is None:
                below.append(ids.pop())
            if not ids:
                return below[::-1]
            inode_id = ids[-1]
        row = table.row_of.get(inode_id)
        assert row is not None
        if not self.namespace.history.lookup.in_current_state(row):
            return []
        return [int(table.id[each]) for each in self.namespace.history.lookup.chain(row)] + below[::-1]

    def _place(self, inode: pb.INode, snapshot: int | None, above: LocatedInode | None) -> LocatedInode:
        return placed(inode, snapshot, above, self.names, self.erasure_policies)

    # ---- children ------------------------------------------------------------------------------------------

    def child(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        """Return a child of an inode by name, None if it is missing."""
        if not place.inode.HasField("directory"):
            return None
        if place.snapshot is not None:
            held = self._names_at(place)
            return self._at(place, name, held[name]) if name in held else None
        inode_id = self._child_id(to_signed(place.inode.id), name)
        inode = self.inode(inode_id) if inode_id else None
        return None if inode is None else self._place(inode, None, place)

    def _child_id(self, directory_id: int, name: bytes) -> int:
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        if row is not None:
            known = tree.links.get(row, name)
            if known is not None:
                return 0 if known == NO_ROW else int(table.id[known])
        found = self.index.child(directory_id, name)
        self._forget(directory_id, row)
        return found or self._referred(directory_id, row).get(name, 0)

    def _forget(self, directory_id: int, row: int | None) -> None:
        """Release the entry of a directory that edits do not touch."""
        if row is None:
            self.index.forget_directory(directory_id)

    def _referred(self, directory_id: int, row: int | None) -> dict[bytes, int]:
        """Return the children by reference that have no link, by name."""
        tree, table = self.namespace.tree, self.namespace.table
        if row is not None and tree.is_open(row):
            return {name: int(table.id[node.row]) for name, node in tree.misplaced(row).items()}
        found = {}
        for number in self.index.reference_children(directory_id).tolist():
            reference = self.index.history.reference(number)
            inode = self.inode(to_signed(reference.referredId))
            if inode is not None:
                found[reference.name or inode.name] = to_signed(inode.id)
        return found

    def children(self, directory_id: int, behind: bytes = b"") -> ChildIds:
        """Return the present children of a directory; of the untouched ones only those with names after `behind`."""
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        plain = self.index.children(directory_id)
        if behind and plain.size:
            positions, found = self.index.locate(directory_id, [behind])
            plain = plain[int(positions[0]) + bool(found[0]) :]
        named = self._referred(directory_id, row)
        self._forget(directory_id, row)
        if row is not None:
            links = tree.links.items(row)
            named |= {name: int(table.id[child]) for name, child in links if child != NO_ROW}
        plain = plain[table.row_of.get_all(plain) == UNKNOWN]
        return ChildIds(plain[~tree.dropped[self.index.slots_of(plain)]], named)

    def page(self, place: LocatedInode, behind: bytes, limit: int) -> ChildPage:
        """Return at most `limit` children of a directory with names after `behind`."""
        if place.snapshot is not None:
            held = self._names_at(place)
            wanted = sorted((name for name in held if name_key(name) > name_key(behind)), key=name_key)
            found = [self._at(place, name, held[name]) for name in wanted[:limit]]
            return ChildPage([each for each in found if each is not None], max(0, len(wanted) - limit))
        plain, named = self.children(to_signed(place.inode.id), behind)
        others = [each for name, each in named.items() if name_key(name) > name_key(behind)]
        untouched = [inode for each in plain[:limit].tolist() if (inode := self.inode(each)) is not None]
        touched = [inode for each in others if (inode := self.inode(each)) is not None]
        touched.sort(key=_order)
        chosen = list(heapq.merge(untouched, touched, key=_order))[:limit]
        return ChildPage([self._place(inode, None, place) for inode in chosen], plain.size + len(touched) - len(chosen))

    def child_count(self, place: LocatedInode) -> int:
        """Return the number of children of a directory; 0 for other inodes."""
        if not place.inode.HasField("directory"):
            return 0
        if place.snapshot is not None:
            return len(self._names_at(place))
        inode_id = to_signed(place.inode.id)
        row = self.namespace.table.row_of.get(inode_id)
        return self.index.child_count(inode_id) if row is None else self.namespace.tree.child_count(row)

    # ---- snapshots -----------------------------------------------------------------------------------------

    def is_snapshottable(self, place: LocatedInode) -> bool:
        """Return whether a directory of the current tree is snapshottable."""
        if place.snapshot is not None or not place.inode.HasField("directory"):
            return False
        return self.namespace.snapshots.is_snapshottable(to_signed(place.inode.id))

    def snapshottable(self) -> list[int]:
        """Return the ids of the snapshottable directories."""
        return list(self.namespace.snapshots.snapshottable_ids)

    def snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        """Return `.snapshot` of an inode of the current tree."""
        if place is None or not self.is_snapshottable(place):
            return SnapshotFolder(place, None)
        found = []
        for snapshot in self.namespace.snapshots.of_directory(to_signed(place.inode.id)):
            root = pb.INode(type=pb.INode.DIRECTORY, id=place.inode.id, name=snapshot.name)
            root.directory.CopyFrom(snapshot.directory)
            found.append(self._place(root, snapshot.id, place))
        return SnapshotFolder(place, found)

    def diffs(self, inode_id: int) -> Diffs | None:
        """Return the snapshot diffs of an inode, None for an inode without; only inodes with diffs are loaded."""
        lookup = self.namespace.history.lookup
        row = self.namespace.table.row_of.get(inode_id)
        if row is None:
            if find_id(lookup.diffs.owners, inode_id) < 0:
                return None
            row = lookup.load_detached(inode_id)
        found = None if row == NO_ROW else lookup.diffs.get(row)
        return found if found is not None and found.any else None

    def _names_at(self, place: LocatedInode) -> dict[bytes, int]:
        """Return the ids of the children of a directory in a snapshot, by name."""
        assert place.snapshot is not None
        return self.names_at(to_signed(place.inode.id), place.snapshot)

    def names_at(self, directory_id: int, snapshot: int) -> dict[bytes, int]:
        """Return the ids of the children that a directory had at a snapshot, by name."""
        diffs = self.diffs(directory_id)
        plain, named = self.children(directory_id)
        held = {self.index.name(each): each for each in plain.tolist()} | named
        if isinstance(diffs, DirectoryDiffs):
            table = self.namespace.table
            row = table.row_of.get(directory_id)
            assert row is not None
            since = self.namespace.history.created.changes_since(row, snapshot)
            for name in since.created:
                held.pop(name, None)
            held |= {name: int(table.id[row_of(node)]) for name, node in since.deleted.items()}
        return held

    def _at(self, above: LocatedInode, name: bytes, inode_id: int) -> LocatedInode | None:
        assert above.snapshot is not None
        inode = self.inode_at(inode_id, above.snapshot)
        if inode is None:
            return None
        inode.name = name
        return self._place(inode, above.snapshot, above)

    def inode_at(self, inode_id: int, snapshot: int) -> pb.INode | None:
        """Return an inode with its attributes at a snapshot; a file with diffs has one block with the length then."""
        inode, diffs = self.inode(inode_id), self.diffs(inode_id)
        if inode is None:
            table = self.namespace.table
            row = table.row_of.get(inode_id)
            # a deleted list keeps a copy of a symlink that was deleted since
            return table.message(row) if row is not None and table.kind[row] == SYMLINK else None
        if diffs is None:
            return inode
        encoder = self.namespace.history.diffs.encoder
        if isinstance(diffs, FileDiffs):
            files = (encoder.file_copy(diff) for diff in diffs.since(snapshot))
            copy = next((each for each in files if each is not None), None)
            diff = diffs.at(snapshot)
            length = sum(block.numBytes for block in inode.file.blocks) if diff is None else diff.file_size
            if copy is not None:
                inode.file.CopyFrom(copy)
            inode.file.ClearField("fileUC")
            del inode.file.blocks[:]
            inode.file.blocks.add(blockId=0, genStamp=0, numBytes=length & _UINT64)
        else:
            directories = (encoder.directory_copy(diff) for diff in diffs.since(snapshot))
            found = next((each for each in directories if each is not None), None)
            if found is not None:
                inode.directory.CopyFrom(found)
        return inode

    # ---- sums ----------------------------------------------------------------------------------------------

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode, as `ContentWalk` counts them.

        Raises:
            NamespaceBusyError: the namespace did not become available again after a pause.
        """
        return ContentWalk(self, enter).totals(place)


def _order(inode: pb.INode) -> bytes:
    return name_key(inode.name)
