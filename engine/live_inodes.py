"""Reads inodes, children and snapshots of a warm namespace from the base image and the later changes, without copies.

Only inodes that edits touched have a row. A reader reads all other inodes from the base image, without creating rows.
Therefore, it changes nothing that replay or the next image uses. `PastDiffs` reads snapshot diffs in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from engine.live_sums import LiveSums
from engine.loaded_image import LoadedImage
from engine.namespace import Namespace
from engine.past_diffs import PastDiffs
from engine.read_refusals import refused_read
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED, SYMLINK
from image_format.kernels.tables import UNKNOWN
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import SerialNames
from image_tools.namespace_browser import ChildIds, NamespaceBrowser

_MAX_CHANGED = 20_000
"""Maximum number of a directory's changed names that a reader reads at a time; reading them takes about 0.1 s."""
_MAX_REFERENCES = 5_000
"""Maximum number of renamed inodes with snapshots that a reader reads at a time in one directory."""
_MAX_SCANNED = 5_000_000
"""Maximum number of base inodes that a reader may scan for parent directories; the scan takes about 0.1 s."""


class LiveInodes(NamespaceBrowser):
    """Inodes of a warm namespace, for the thread that holds its gate; without sums of subtrees.

    Args:
        opened: returns the loaded image with its namespace.
        pause: releases the gate for a moment, so that edits can be applied; afterwards a different image may be loaded.
        bounded: whether to refuse reads that take a long time, or that only a NameNode can answer exactly.

    Attributes:
        before_pause: called before each pause of a long read; an exception from it ends the read.
    """

    def __init__(self, opened: Callable[[], LoadedImage], pause: Callable[[], None], *, bounded: bool = True) -> None:
        self._opened = opened
        self._pause = pause
        self._bounded = bounded
        self.before_pause: Callable[[], None] = lambda: None
        self._bind()

    def close(self) -> None:
        """Release a namespace that was replaced or is about to be replaced; nothing can be read afterwards."""
        for name in ("index", "namespace", "names", "erasure_policies", "sums", "past"):
            vars(self).pop(name, None)

    def _bind(self) -> None:
        loaded = self._opened()
        self.index = loaded.index
        self.namespace: Namespace = loaded.namespace
        self.names = SerialNames(self.namespace.strings)
        self.hadoop3 = self.namespace.hadoop3
        self.sums: LiveSums | None = loaded.sums
        self.erasure_policies = self.namespace.erasure_coding.by_id()
        self.past: PastDiffs = PastDiffs(self.index, self.namespace, self.refuse)

    def refuse(self, action: str) -> None:
        """Refuse a read unless reads are unbounded; the client can ask a NameNode instead."""
        if self._bounded:
            raise refused_read(action)

    def pause(self) -> None:
        """Pause so that edits can be applied; rows become invalid, inode ids stay valid.

        Raises:
            NamespaceBusyError: the namespace did not become available again.
        """
        self.before_pause()
        # otherwise, a load during the pause would keep two images in memory
        self.close()
        self._pause()
        self._bind()

    @property
    def txid(self) -> int:
        """Newest applied transaction."""
        return self.namespace.last_txid

    # ---- inodes --------------------------------------------------------------------------------------------

    def inode(self, inode_id: int) -> pb.INode | None:
        table = self.namespace.table
        row = table.row_of.get(inode_id)
        if row is not None:
            return None if table.flags.item(row) & DROPPED else table.message(row)
        slot = self.index.slot(inode_id)
        return None if slot >= 0 and self.namespace.tree.dropped[slot] else super().inode(inode_id)

    def _ids_above(self, inode_id: int, *, deleted: bool) -> list[int]:
        table, lookup = self.namespace.table, self.namespace.recorder.lookup
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
        """Return whether an inode was read from the base image, but its reference was not."""
        table = self.namespace.table
        if table.slot.item(row) < 0 or table.parent.item(row) != NO_ROW:
            return False
        return self.namespace.tree.references.hub(row) is not None

    def _ids_in_base(self, inode_id: int, *, deleted: bool) -> list[int]:
        """Do the same as `_ids_above` for an inode that is still at its place in the base image."""
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
        snapshot_index, ids, topmost = self.index.snapshot_index, list[int](), inode_id
        while topmost and topmost not in ids:
            (chain,) = snapshot_index.chains(np.array([topmost], np.int64))
            ids = chain.tolist() + ids
            topmost = int(snapshot_index.deleters(chain[:1])[0]) if deleted and ids[0] != ROOT_INODE_ID else 0
        return ids

    # ---- children ------------------------------------------------------------------------------------------

    def _child_id(self, directory_id: int, name: bytes) -> int:
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        if row is not None and (known := tree.links.get(row, name)) is not None:
            return 0 if known == NO_ROW else int(table.id[known])
        return super()._child_id(directory_id, name)

    def _forget(self, directory_id: int) -> None:
        """Release the entry of a directory if no edit has touched the directory."""
        if self.namespace.table.row_of.get(directory_id) is None:
            super()._forget(directory_id)

    def _referred(self, directory_id: int) -> dict[bytes, int]:
        """Return, by name, the referenced children that have no link."""
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        if row is not None and tree.is_open(row):
            return {name: int(table.id[node.row]) for name, node in tree.misplaced(row).items()}
        if self.index.reference_children(directory_id).size > _MAX_REFERENCES:
            self.refuse(f"reading a directory with more than {_MAX_REFERENCES:,} renamed entries in snapshots")
        return super()._referred(directory_id)

    def named_children(self, directory_id: int) -> dict[bytes, int]:
        tree, table = self.namespace.tree, self.namespace.table
        row = table.row_of.get(directory_id)
        if row is not None and tree.links.exceeds(row, _MAX_CHANGED):
            self.refuse(
                f"reading a directory with more than {_MAX_CHANGED:,} entries changed since the last checkpoint"
            )
        named = self._referred(directory_id)
        self._forget(directory_id)
        if row is not None:
            held = [(name, child) for name, child in tree.links.items(row) if child != NO_ROW]
            named |= {name: int(table.id[child]) for name, child in held if not table.flags.item(child) & DROPPED}
        return named

    def child_ids(self, directory_id: int, behind: bytes = b"") -> ChildIds:
        plain, named = super().child_ids(directory_id, behind)
        plain = plain[self.namespace.table.row_of.get_all(plain) == UNKNOWN]
        return ChildIds(plain[~self.namespace.tree.dropped[self.index.slots_of(plain)]], named)

    def _present_count(self, directory_id: int) -> int:
        row = self.namespace.table.row_of.get(directory_id)
        return super()._present_count(directory_id) if row is None else self.namespace.tree.child_count(row)

    # ---- snapshots -----------------------------------------------------------------------------------------

    def _has_snapshots(self, inode_id: int) -> bool:
        return self.namespace.snapshots.is_snapshottable(inode_id)

    def snapshottable(self) -> list[int]:
        return list(self.namespace.snapshots.snapshottable_ids)

    def _snapshots_of(self, directory_id: int) -> Iterator[tuple[int, pb.INode]]:
        for snapshot in self.namespace.snapshots.of_directory(directory_id):
            root = pb.INode(type=pb.INode.DIRECTORY, id=directory_id, name=snapshot.name)
            root.directory.CopyFrom(snapshot.directory)
            yield snapshot.id, root

    def inode_at(self, inode_id: int, snapshot: int) -> pb.INode | None:
        found = super().inode_at(inode_id, snapshot)
        if found is None:
            table = self.namespace.table
            row = table.row_of.get(inode_id)
            # a deleted list contains a copy of a symlink that has since been deleted
            return table.message(row) if row is not None and table.kind[row] == SYMLINK else None
        return found
