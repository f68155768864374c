"""Answers requests of replay from a host's index of the image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from image_format.index import ImageIndex
from pipeline.host_image import HostImage
from pipeline.merge.closure import DirectoryChildren, DirectoryEntry, ImageAnswer, ImageRequest, PathLookup

Ids = npt.NDArray[np.int64]


class _Node:
    """Names to look up in one directory, each with the names below; `below` requests all descendants."""

    __slots__ = ("below", "names")

    def __init__(self) -> None:
        self.names: dict[bytes, _Node] = {}
        self.below = False

    def add(self, walk: PathLookup) -> None:
        node = self
        for name in walk.path.split(b"/"):
            if name:
                node = node.names.setdefault(name, _Node())
        node.below = node.below or walk.below


def resolve(host: HostImage, wanted: ImageRequest) -> ImageAnswer:
    """Answer a request.

    Raises:
        RecordError: a record that was read is damaged.
    """
    return _Resolver(host).answer(wanted)


class _Resolver:
    def __init__(self, host: HostImage) -> None:
        self._host = host
        self._index: ImageIndex = host.index
        self._found: dict[int, int] = {}
        self._absent: list[int] = []
        self._names: list[tuple[int, bytes, int]] = []
        self._subtrees: list[DirectoryChildren] = []
        self._opened: set[int] = set()

    def answer(self, wanted: ImageRequest) -> ImageAnswer:
        self._take(wanted.inode_ids)
        self._take(self._ids_in(wanted.slots))
        below = dict.fromkeys(wanted.below)
        below.update(dict.fromkeys(self._walk(wanted.walks)))
        for directory_id in below:
            self._subtrees.extend(self._subtree(directory_id))
        entries = [self._entry(inode_id) for inode_id in self._with_entries()]
        for directory_id in self._opened:
            self._index.forget_directory(directory_id)
        return self._packed(entries)

    def _ids_in(self, slots: list[int]) -> list[int]:
        ids: list[int] = self._host.arrays.ids_at(np.array(slots, np.int64)).tolist()
        return ids

    def _take(self, inode_ids: list[int]) -> list[int]:
        """Add these inodes to the answer; return those that the image contains."""
        present = []
        slots = self._index.slots_of(np.array(inode_ids, np.int64)).tolist()
        for inode_id, slot in zip(inode_ids, slots, strict=True):
            if slot < 0:
                self._absent.append(inode_id)
            else:
                self._found[inode_id] = slot
                present.append(inode_id)
        return present

    # ---- paths -----------------------------------------------------------------------------------------------------

    def _walk(self, walks: list[PathLookup]) -> list[int]:
        """Join names with INODE_DIR, one level of all paths at a time; return the inodes whose descendants are
        requested.
        """
        roots: dict[int, _Node] = {}
        for walk in walks:
            roots.setdefault(walk.directory_id, _Node()).add(walk)
        below = []
        level = [(directory_id, roots[directory_id]) for directory_id in self._take(list(roots))]
        while level:
            following: list[tuple[int, _Node]] = []
            for inode_id, node in level:
                if node.below:
                    below.append(inode_id)
                if node.names:
                    following.extend(self._look_up(inode_id, node.names))
            level = following
        return below

    def _look_up(self, directory_id: int, names: dict[bytes, _Node]) -> Iterator[tuple[int, _Node]]:
        index = self._index
        self._opened.add(directory_id)
        children = index.children(directory_id)
        wanted = list(names)
        if children.size:
            positions, found = index.locate(directory_id, wanted)
            ids = np.where(found, children[np.minimum(positions, children.size - 1)], 0).tolist()
        else:
            ids = [0] * len(wanted)
        self._take([child for child in ids if child])
        for name, child in zip(wanted, ids, strict=True):
            self._names.append((directory_id, name, child))
            if child:
                yield child, names[name]
        for name, child in self._referred(directory_id):
            if name in names:
                yield child, names[name]

    def _referred(self, directory_id: int) -> Iterator[tuple[bytes, int]]:
        """Yield (name, inode id) of the children by reference."""
        for number in self._index.reference_children(directory_id).tolist():
            record = self._index.history.reference(number)
            inode_id = record.referredId
            if self._take([inode_id]):
                yield (record.name if record.HasField("name") else self._index.name(inode_id)), inode_id

    # ---- directories -----------------------------------------------------------------------------------------------

    def _subtree(self, top: int) -> Iterator[DirectoryChildren]:
        index = self._index
        pending = [top]
        while pending:
            directory_id = pending.pop()
            children = index.children(directory_id)
            if directory_id not in self._opened:
                index.forget_directory(directory_id)
            if children.size:
                yield DirectoryChildren(directory_id, children, index.slots_of(children))
            pending.extend(index.with_entries(children).tolist())

    def _with_entries(self) -> list[int]:
        ids: list[int] = self._index.with_entries(np.array(list(self._found), np.int64)).tolist()
        return ids

    def _entry(self, directory_id: int) -> DirectoryEntry:
        index = self._index
        self._opened.add(directory_id)
        references = index.reference_children(directory_id).tolist()
        return DirectoryEntry(
            directory_id, index.children(directory_id).size, references, index.has_unknown_fields(directory_id)
        )

    # ---- records ---------------------------------------------------------------------------------------------------

    def _packed(self, entries: list[DirectoryEntry]) -> ImageAnswer:
        index, host = self._index, self._host
        ids = np.array(list(self._found), np.int64)
        slots = np.array(list(self._found.values()), np.int64)
        starts = index.offsets.at(slots)
        ends = np.where(
            slots + 1 == host.count, index.inode_buffer.size, index.offsets.at(np.minimum(slots + 1, host.count - 1))
        )
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        bounds = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        records = b"".join(index.inode_buffer[start:end].tobytes() for start, end in spans)
        in_tree = np.array([host.in_tree(range(slot, slot + 1))[0] for slot in slots.tolist()], np.bool_)
        return ImageAnswer(
            ids, slots, starts, in_tree, bounds, records, self._absent, entries, self._names, self._subtrees
        )
