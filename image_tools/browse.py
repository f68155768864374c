"""The current tree of an image by path: what an inode is, the children of a directory, what lies below it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.inode_columns import read_inode_columns
from image_format.kernels.directory_tree import add_upwards
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.scan import count_children, find_id
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.room import Room
from image_format.varint import parse_message, read_record
from image_tools.directory_paths import chain_directories, place_inodes
from image_tools.dump.values import Names, signed32, signed64

_BATCH = 1 << 16
_COUNTS = 4

Numbers = npt.NDArray[np.int64]


class Content(NamedTuple):
    """What a path has below it, itself included.

    Attributes:
        length: bytes of all files; space: with replicas.
    """

    files: int
    directories: int
    length: int
    space: int


class ImageBrowser:
    """Looks up inodes in a mapped image; for several threads.

    An inode in the tree by a reference stands under its current path; snapshots are not shown.

    Attributes:
        names: decodes owners, ACL entries and attributes.

    Args:
        room: for the index, and for what `content` adds up at its first call.

    Raises:
        ImageFormatError: the image is damaged.
        ImageStorageError: there is no room.
    """

    def __init__(self, image: ImageFile, room: Room | None = None) -> None:
        self._image = image
        self._room = Room() if room is None else room
        self._index = ImageIndex(image, room=self._room)
        self._guard = threading.Lock()
        self.names = Names(image.string_table())

    def find(self, path: bytes) -> pb.INode | None:
        """The inode with a path such as `/a/b`, None where there is none; slashes in a row count once.

        Raises:
            RecordError: a record on the way is damaged.
        """
        inode_id = ROOT_INODE_ID
        for name in filter(None, path.split(b"/")):
            inode_id = self._child(inode_id, name)
            if not inode_id:
                return None
        return self._inode(inode_id)

    def child_count(self, inode: pb.INode) -> int:
        """How many children a directory has; 0 for what is none.

        Raises:
            RecordError: its entry is damaged.
        """
        row = self._row(inode)
        if row < 0:
            return 0
        offset = int(self._index.arrays.directory_offsets[row])
        plain, references = count_children(self._index.directory_buffer, offset)
        if plain < 0:
            raise self._image.place("INODE_DIR").error(RecordError, f"damaged entry of directory {inode.id}", offset)
        return int(plain + references)

    def children(self, inode: pb.INode, behind: bytes = b"") -> Iterator[pb.INode]:
        """The children of a directory whose names come behind `behind`, in the order of names.

        Raises:
            RecordError: a record is damaged.
        """
        plain, referred = self._entry(signed64(inode.id))
        if not referred.size:
            for child in plain[self._first(signed64(inode.id), behind) if behind else 0 :].tolist():
                if (found := self._inode(child)) is not None:
                    yield found
            return
        inodes = [self._inode(child) for child in np.concatenate([plain, referred]).tolist()]
        found_inodes = [found for found in inodes if found is not None and name_key(found.name) > name_key(behind)]
        yield from sorted(found_inodes, key=lambda found: name_key(found.name))

    def content(self, inode: pb.INode) -> Content:
        """What an inode and all below it hold; a symlink counts as an empty file.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: there is no room.
        """
        if not inode.HasField("directory"):
            length = sum(block.numBytes for block in inode.file.blocks)
            return Content(1, 0, length, length * signed32(inode.file.replication))
        row = self._row(inode)
        counts = [0] * _COUNTS if row < 0 else self._totals[row].tolist()
        return Content(counts[0], counts[1] + 1, counts[2], counts[3])

    @functools.cached_property
    def _totals(self) -> Numbers:
        """By row of a directory with children: numbers of `Content`, itself left out."""
        arrays, place = self._index.arrays, self._image.place("INODE")
        parents = place_inodes(self._image, arrays, self._room)
        totals: Numbers = self._room.zeros((arrays.directory_ids.size, _COUNTS), np.int64)
        for first in range(0, parents.size, _BATCH):
            columns = read_inode_columns(self._index.inode_buffer, arrays.offsets.part(first, first + _BATCH), place)
            rows = parents[first : first + _BATCH]
            placed = rows >= 0
            space = columns.length * columns.replication
            is_directory = columns.kind == DIRECTORY
            for number, values in enumerate((~is_directory, is_directory, columns.length, space)):
                sized = values if number < 2 else np.where(columns.kind == FILE, values, 0)
                np.add.at(totals[:, number], rows[placed], sized[placed])
        chain = chain_directories(self._image, arrays, parents, self._room)
        add_upwards(chain.parents, chain.order, totals)
        return totals

    def _row(self, inode: pb.INode) -> int:
        """Row of a directory with children, -1 for any other inode."""
        return int(find_id(self._index.directory_ids, signed64(inode.id)))

    def _child(self, directory_id: int, name: bytes) -> int:
        with self._guard:
            child = self._index.child(directory_id, name)
            self._index.forget_directory(directory_id)
        if child:
            return child
        for referred in map(int, self._entry(directory_id)[1]):
            inode = self._inode(referred)
            if inode is not None and inode.name == name:
                return referred
        return 0

    def _first(self, directory_id: int, behind: bytes) -> int:
        """Number of the first plain child behind a name."""
        with self._guard:
            positions, found = self._index.locate(directory_id, [behind])
            self._index.forget_directory(directory_id)
        return int(positions[0]) + bool(found[0])

    def _entry(self, directory_id: int) -> tuple[Numbers, Numbers]:
        """Ids of the plain children in the order of names, and of those by reference."""
        with self._guard:
            plain = self._index.children(directory_id)
            numbers = self._index.reference_children(directory_id)
            self._index.forget_directory(directory_id)
        return plain, self._index.history.referred[numbers] if numbers.size else numbers

    def _inode(self, inode_id: int) -> pb.INode | None:
        slot = self._index.slot(inode_id)
        if slot < 0:
            return None
        place = self._image.place("INODE")
        record = read_record(self._index.inode_buffer.data, self._index.inode_offset(slot), place)
        return parse_message(pb.INode, record, place)
