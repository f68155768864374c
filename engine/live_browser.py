"""Read access to a warm namespace: the base image with the changes since, without a copy of either.

Only inodes that edits touched have a row. The others are read from the base image and get no row: a reader changes
nothing that replay or the next image uses. `PastDiffs` reads snapshot diffs in the same way.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from engine.live_content import ContentWalk
from engine.live_sums import LiveSums
from engine.loaded_image import LoadedImage
from engine.namespace import Namespace
from engine.past_diffs import PastDiffs
from engine.read_refusals import refused_read
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.index import Ids, ImageIndex
from image_format.inode_features import to_signed
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED, SYMLINK
from image_format.kernels.tables import UNKNOWN
from image_format.name_order import name_key
from image_format.policies import ErasurePolicy
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.dump.values import SerialNames
from image_tools.namespace_browser import ChildPage, ContentTotals, Enter, LocatedInode, SnapshotFolder, placed

_MAX_CHANGED = 20_000
"""Names of one directory changed since the base image that a reader reads at once, in about 0.1 s."""
_MAX_REFERENCES = 5_000
"""The same for renamed inodes that snapshots have, too: reading one takes longer."""
_MAX_SCANNED = 5_000_000
"""Inodes of the base image for which a reader may find out the directory of each, in about 0.1 s."""
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
        bounded: whether reads that take long, or that only a NameNode answers exactly, are refused.

    Attributes:
        before_pause: called before each pause, which only long reads have; what it raises ends the read.
    """

    def __init__(self, opened: Callable[[], LoadedImage], pause: Callable[[], None], *, bounded: bool = True) -> None:
        self._opened = opened
        self._pause = pause
        self._bounded = bounded
        self.before_pause: Callable[[], None] = lambda: None
        self._bind()

    def close(self) -> None:
        """Release the namespace, which is replaced by then or soon; nothing can be read afterwards."""
        for name in ("index", "namespace", "names", "erasure_policies", "sums", "past"):
            vars(self).pop(name, None)

    def _bind(self) -> None:
        loaded = self._opened()
        self.index: ImageIndex = loaded.index
        self.namespace: Namespace = loaded.namespace
        self.names = SerialNames(self.namespace.strings)
        self.hadoop3: bool = self.namespace.hadoop3
        self.sums: LiveSums | None = loaded.sums
        self.erasure_policies: Mapping[int, ErasurePolicy] = self.namespace.erasure_coding.by_id()
        self.past = PastDiffs(self.index, self.namespace, self.refuse)

    def refuse(self, action: str) -> None:
        """Refuse an action that a NameNode can be asked for, unless reads are not bounded."""
        if self._bounded:
            raise refused_read(action)

    def pause(self) -> None:
        """Let edits be applied; rows are invalid afterwards, inode ids are not.

        Raises:
            NamespaceBusyError: the namespace did not become available again.
        """
        self.before_pause()
        # a load must not have two images in memory
        self.close()
        self._pause()
        self._bind()

    @property
    def txid(self) -> int:
        """Newest applied transaction."""
        return self.namespace.last_txid

    # ---- inodes --------------------------------------------------------------------------------------------

    def root(self) -> LocatedInode | None:
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

    def opened_a_file(self, client: str) -> bool:
        """Return whether a client opened a file for write since the base image."""
        return self.namespace.table.pool.find(client.encode("utf-8", "replace")) >= 0

    def has_open_file_in_base(self, client: str) -> bool:
        """Return whether a client has a file open for write that has not changed since the base image."""
        name, index = client.encode("utf-8", "replace"), self.index
        slots = index.slots_of(self.namespace.leases.unread_ids())
        data, place = index.inode_buffer.data, index.place("INODE")
        offsets = index.inode_offsets(slots[slots >= 0]).tolist()
        return any(name in read_record(data, offset, place).body.tobytes() for offset in offsets)

    def chain(self, inode_id: int, *, deleted: bool = False) -> list[LocatedInode]:
        places: list[LocatedInode] = []
        for each in self._ids_above(inode_id, deleted=deleted):
            inode = self.inode(each)
            if inode is None:
                return []
            places.append(self._place(inode, None, places[-1] if places else None))
        return places if places and to_signed(places[0].inode.id) == ROOT_INODE_ID else []

    def _ids_above(self, inode_id: int, *, deleted: bool) -> list[int]:
        """Return the ids from the topmost inode above one to itself; none if no directory has it, unless `deleted`."""
        table, lookup = self.namespace.table, self.namespace.history.lookup
        row = table.row_of.get(inode_id)
        if row is None or self._is_unplaced(row):
            return self._ids_in_base(inode_id, deleted=deleted)
        rows = lookup.chain(row)
        ids = [int(table.id[each]) for each in rows]
        for directory_id, each, child_id in zip(ids, rows[1:], ids[1:], strict=False):
            if not deleted and self._child_id(directory_id, table.name(each)) != child_id:
                return []
        return self._ids_in_base(ids[0], deleted=deleted)[:-1] + ids if self._is_unplaced(rows[0]) else ids

    def _is_unplaced(self, row: int) -> bool:
        """Return whether an inode was read from the base image, but not yet the reference that leads to it."""
        table = self.namespace.table
        if table.slot.item(row) < 0 or table.parent.item(row) != NO_ROW:
            return False
        return self.namespace.tree.references.hub(row) is not None

    def _ids_in_base(self, inode_id: int, *, deleted: bool) -> list[int]:
        """Return the same for an inode that is where the base image has it."""
        if self.index.slot(inode_id) < 0:
            return []
        if self.index.slot_count > _MAX_SCANNED:
            self.refuse(f"finding the path of an inode in a namespace of more than {_MAX_SCANNED:,} inodes")
        ids, below = self._chain_in_base(inode_id, deleted=deleted)[:-1], [inode_id]
        while ids and self.namespace.table.row_of.get(ids[-1]) is None:
            below.append(ids.pop())
        above = self._ids_above(ids[-1], deleted=deleted) if ids else []
        found = above + below[::-1]
        inode = self.inode(inode_id)
        if not above or inode is None or not (deleted or self._child_id(found[-2], inode.name) == inode_id):
            return []
        return found

    def _chain_in_base(self, inode_id: int, *, deleted: bool) -> list[int]:
        history, ids, topmost = self.index.history, list[int](), inode_id
        while topmost and topmost not in ids:
            (chain,) = history.chains(np.array([topmost], np.int64))
            ids = chain.tolist() + ids
            topmost = int(history.deleters(chain[:1])[0]) if deleted and ids[0] != ROOT_INODE_ID else 0
        return ids

    def _place(self, inode: pb.INode, snapshot: int | None, above: LocatedInode | None) -> LocatedInode:
        return placed(inode, snapshot, above, self.names, self.erasure_policies)

    # ---- children ------------------------------------------------------------------------------------------

    def child(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        if not place.inode.HasField("directory"):
            return None
        directory_id = to_signed(place.inode.id)
        if place.snapshot is not None:
            changed = self.past.names_at(directory_id, place.snapshot)
            if name in changed:
                entry = changed[name]
                return None if entry is None else self._at(place, entry.inode_id, name)
        inode_id = self._child_id(directory_id, name)
        return self._at(place, inode_id, name) if inode_id else None

    def _at(self, above: LocatedInode, inode_id: int, name: bytes = b"") -> LocatedInode | None:
        """Return an inode below a place, with its name there if that is not its present name; None if it is missing."""
        inode = self.inode(inode_id) if above.snapshot is None else self.inode_at(inode_id, above.snapshot)
        if inode is None:
            return None
        inode.name = name or inode.name
        return self._place(inode, above.snapshot, above)

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
        numbers = self.index.reference_children(directory_id)
        if numbers.size > _MAX_REFERENCES:
            self.refuse(f"reading a directory with more than {_MAX_REFERENCES:,} renamed entries that snapshots hold")
        for number in numbers.tolist():
            reference = self.index.history.reference(number)
            inode = self.inode(to_signed(reference.referredId))
            if inode is not None:
                found[reference.name or inode.name] = to_signed(inode.id)
        return found

    def named_children(self, directory_id: int) -> dict[bytes, int]:
        """Return the ids of the present children of a directory by name, without the untouched ones.

        Raises:
            ReadRefusedError: the directory has too many changes to read them in time.
        """
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        if row is not None and tree.links.exceeds(row, _MAX_CHANGED):
            self.refuse(
                f"reading a directory with more than {_MAX_CHANGED:,} entries changed since the last checkpoint"
            )
        named = self._referred(directory_id, row)
        self._forget(directory_id, row)
        if row is not None:
            held = [(name, child) for name, child in tree.links.items(row) if child != NO_ROW]
            named |= {name: int(table.id[child]) for name, child in held if not table.flags.item(child) & DROPPED}
        return named

    def children(self, directory_id: int, behind: bytes = b"") -> ChildIds:
        """Return the present children of a directory; of the untouched ones only those with names after `behind`.

        Raises:
            ReadRefusedError: see `named_children`.
        """
        named = self.named_children(directory_id)
        plain = self.index.children(directory_id)
        if behind and plain.size:
            positions, found = self.index.locate(directory_id, [behind])
            plain = plain[int(positions[0]) + bool(found[0]) :]
        self._forget(directory_id, self.namespace.table.row_of.get(directory_id))
        plain = plain[self.namespace.table.row_of.get_all(plain) == UNKNOWN]
        return ChildIds(plain[~self.namespace.tree.dropped[self.index.slots_of(plain)]], named)

    def children_at(self, directory_id: int, snapshot: int, behind: bytes = b"") -> ChildIds:
        """Return the children that a directory had at a snapshot; otherwise as `children`."""
        changed = self.past.names_at(directory_id, snapshot)
        plain, named = self.children(directory_id, behind)
        if changed:
            replaced = self.index.children(directory_id)
            if replaced.size:
                positions, found = self.index.locate(directory_id, sorted(changed, key=name_key))
                plain = plain[~np.isin(plain, replaced[positions[found]])]
            named = {name: each for name, each in named.items() if name not in changed}
            named |= {name: entry.inode_id for name, entry in changed.items() if entry is not None}
        return ChildIds(plain, named)

    def page(self, place: LocatedInode, behind: bytes, limit: int) -> ChildPage:
        directory_id = to_signed(place.inode.id)
        if place.snapshot is None:
            plain, named = self.children(directory_id, behind)
        else:
            plain, named = self.children_at(directory_id, place.snapshot, behind)
        others = [(key, name) for name in named if (key := name_key(name)) > name_key(behind)]
        first = heapq.nsmallest(limit, others)
        touched = ((key, found) for key, name in first if (found := self._at(place, named[name], name)))
        untouched = ((name_key(each.inode.name), each) for i in plain[:limit].tolist() if (each := self._at(place, i)))
        entries = [each for _, each in itertools.islice(heapq.merge(untouched, touched, key=itemgetter(0)), limit)]
        return ChildPage(entries, plain.size + len(others) - len(entries))

    def child_count(self, place: LocatedInode) -> int:
        if not place.inode.HasField("directory"):
            return 0
        inode_id = to_signed(place.inode.id)
        if place.snapshot is not None and self.past.names_at(inode_id, place.snapshot):
            plain, named = self.children_at(inode_id, place.snapshot)
            return plain.size + len(named)
        row = self.namespace.table.row_of.get(inode_id)
        return self.index.child_count(inode_id) if row is None else self.namespace.tree.child_count(row)

    # ---- snapshots -----------------------------------------------------------------------------------------

    def is_snapshottable(self, place: LocatedInode) -> bool:
        if place.snapshot is not None or not place.inode.HasField("directory"):
            return False
        return self.namespace.snapshots.is_snapshottable(to_signed(place.inode.id))

    def snapshottable(self) -> list[int]:
        return list(self.namespace.snapshots.snapshottable_ids)

    def snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        if place is None or not self.is_snapshottable(place):
            return SnapshotFolder(place, None)
        found = []
        for snapshot in self.namespace.snapshots.of_directory(to_signed(place.inode.id)):
            root = pb.INode(type=pb.INode.DIRECTORY, id=place.inode.id, name=snapshot.name)
            root.directory.CopyFrom(snapshot.directory)
            found.append(self._place(root, snapshot.id, place))
        return SnapshotFolder(place, found)

    def inode_at(self, inode_id: int, snapshot: int) -> pb.INode | None:
        """Return an inode with its attributes at a snapshot, and the present quotas, which a NameNode shows there.

        A file that changed since has one block with its length of that time.
        """
        inode = self.inode(inode_id)
        if inode is None:
            table = self.namespace.table
            row = table.row_of.get(inode_id)
            # a deleted list keeps a copy of a symlink that was deleted since
            return table.message(row) if row is not None and table.kind[row] == SYMLINK else None
        if inode.HasField("file") and (files := self.past.of_file(inode_id, snapshot)):
            file_copy = next((each.attributes for each in files if each.attributes is not None), None)
            if file_copy is not None:
                inode.file.CopyFrom(file_copy)
            inode.file.ClearField("fileUC")
            del inode.file.blocks[:]
            inode.file.blocks.add(blockId=0, genStamp=0, numBytes=files[0].length & _UINT64)
        elif inode.HasField("directory"):
            changes = self.past.of_directory(inode_id, snapshot)
            copy = next((each.attributes for each in changes if each.attributes is not None), None)
            if copy is not None:
                present = pb.INodeDirectory()
                present.CopyFrom(inode.directory)
                inode.directory.CopyFrom(copy)
                inode.directory.nsQuota, inode.directory.dsQuota = present.nsQuota, present.dsQuota
        return inode

    # ---- sums ----------------------------------------------------------------------------------------------

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode, as `ContentWalk` counts them.

        Raises:
            NamespaceBusyError: the namespace did not become available again after a pause.
            ReadRefusedError: a NameNode is asked, see `ContentWalk.totals`.
        """
        if place.inode.directory.typeQuotas.quotas:
            self.refuse("summing a directory with quotas by storage type")
        return ContentWalk(self, enter).totals(place)
