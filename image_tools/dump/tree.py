"""The tree of an image: arrays of ids, record offsets and parents, and paths computed from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.inode_scan import scan_inode_section, scanners
from image_format.kernels.scan import collect_children, count_children, find_id, find_ids, scan_directories
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.directory_paths import MAX_PATH_BYTES, path_too_long
from image_tools.dump.records import ImageRecords

_CACHED_PATHS = 1 << 16
_CACHED_BYTES = 16 << 20
_Bytes = npt.NDArray[np.uint8]
_Ids = npt.NDArray[np.int64]


class ImageTree:
    """The current tree of an image, in 24 bytes per inode; references are resolved, and snapshots are ignored.

    An inode that exists only in snapshots has no parent, or its parent is outside the tree.

    Attributes:
        ids: ids of all inodes, ascending.
        offsets: offset of each inode's delimited record in the INODE section, in the order of `ids`.
        parents: inode id of each parent, or 0, in the order of `ids`.
        strays: rows of (directory, child) for entries whose child has no record or is also in another directory.

    Raises:
        RecordError: INODE, INODE_DIR or INODE_REFERENCE is damaged, or two records have the same id.
    """

    def __init__(self, records: ImageRecords) -> None:
        self._image = records.image
        self._inodes = _section(records.image, "INODE")
        self._paths: dict[int, bytes | None] = {ROOT_INODE_ID: b""}
        self._path_bytes = 0
        self.ids, self.offsets = self._scan_inodes()
        references = np.fromiter((r.referredId for r in records.references()), np.int64)
        directories, children = self._entries(references)
        self.parents, self.strays = self._place(directories, children)

    def position(self, inode_id: int) -> int:
        """Return the position of an inode in the arrays, or -1 if missing."""
        return int(find_id(self.ids, inode_id))

    def inode(self, position: int) -> pb.INode:
        """Return the decoded record of the inode at a position of the arrays.

        Raises:
            RecordError: the record is damaged.
        """
        place = self._image.place("INODE")
        return parse_message(pb.INode, read_record(self._inodes.data, int(self.offsets[position]), place), place)

    def record_bounds(self) -> tuple[_Ids, _Ids]:
        """Return the start and the end of each record in `inode_buffer`, in the order of `ids`."""
        order = np.argsort(self.offsets, kind="stable")
        ends = np.empty_like(self.offsets)
        ends[order] = np.append(self.offsets[order[1:]], self._inodes.size)
        return self.offsets, ends

    @property
    def inode_buffer(self) -> _Bytes:
        """The INODE section."""
        return self._inodes

    def path(self, inode_id: int) -> bytes | None:
        """Return the path in the current tree, such as `/a/b`; None for an inode outside the tree.

        Raises:
            RecordError: directories contain each other.
        """
        if inode_id == ROOT_INODE_ID:
            return b"/"
        position = self.position(inode_id)
        if position < 0:
            return None
        directory = self.directory_path(int(self.parents[position]))
        return None if directory is None else directory + b"/" + self.inode(position).name

    def directory_path(self, directory_id: int) -> bytes | None:
        """Return the path of a directory without a trailing slash, b"" for the root; None for directory 0.

        Raises:
            RecordError: directories contain each other, or the path is longer than 128 KiB.
        """
        waiting: dict[int, bytes] = {}
        current = directory_id
        while current not in self._paths:
            position = self.position(current) if current else -1
            if position < 0:
                self._remember(current, None)
                break
            if current in waiting:
                text = f"directory {directory_id} contains itself"
                raise self._image.place("INODE_DIR").error(RecordError, text, 0)
            waiting[current] = self.inode(position).name
            current = int(self.parents[position])
        path = self._paths[current]
        for inode_id, name in reversed(waiting.items()):
            path = None if path is None else path + b"/" + name
            if path is not None and len(path) > MAX_PATH_BYTES:
                raise self._image.place("INODE_DIR").error(RecordError, path_too_long(inode_id), 0)
            self._remember(inode_id, path)
        return path

    def _remember(self, directory_id: int, path: bytes | None) -> None:
        if len(self._paths) >= _CACHED_PATHS or self._path_bytes >= _CACHED_BYTES:
            self._paths = {ROOT_INODE_ID: b""}
            self._path_bytes = 0
        self._paths[directory_id] = path
        self._path_bytes += len(path or b"")

    def _scan_inodes(self) -> tuple[_Ids, _Ids]:
        with scanners(self._image) as executor:
            records = scan_inode_section(self._image, executor, ArrayAllocator())
        ids, offsets = records.ids.all(), records.offsets.all()
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        if twice := ordered[1:][np.diff(ordered) == 0].tolist():
            raise self._image.place("INODE").error(RecordError, f"inode {twice[0]} has two records", 0)
        return ordered, offsets[order]

    def _entries(self, references: _Ids) -> tuple[_Ids, _Ids]:
        """Return (directory, child) of every entry of INODE_DIR; references are resolved to inodes."""
        buffer, place = _section(self._image, "INODE_DIR"), self._image.place("INODE_DIR")
        parents, offsets = self._scan_directories(buffer)
        counts = np.empty((parents.size, 2), np.int64)
        for i, offset in enumerate(offsets.tolist()):
            counts[i] = count_children(buffer, offset)
        bounds = np.zeros((parents.size + 1, 2), np.int64)
        np.cumsum(np.maximum(counts, 0), axis=0, out=bounds[1:])
        children, indexes = (np.empty(total, np.int64) for total in bounds[-1])
        for i, offset in enumerate(offsets.tolist()):
            (plain, reference), (plain_end, reference_end) = bounds[i], bounds[i + 1]
            part = children[plain:plain_end], indexes[reference:reference_end]
            if counts[i, 0] < 0 or collect_children(buffer, offset, *part)[1]:
                raise place.error(RecordError, f"damaged entry of directory {parents[i]}", offset)
        outside = (indexes < 0) | (indexes >= references.size)
        if outside.any():
            text = f"INODE_REFERENCE has no record {indexes[outside][0]}"
            raise place.error(RecordError, text, 0)
        directories = np.concatenate([np.repeat(parents, counts[:, 0]), np.repeat(parents, counts[:, 1])])
        return directories, np.concatenate([children, references[indexes]])

    def _scan_directories(self, buffer: _Bytes) -> tuple[_Ids, _Ids]:
        ids, offsets = np.empty(1024, np.int64), np.empty(1024, np.int64)
        count = pos = 0
        while True:
            count, _, pos, damaged = scan_directories(buffer, pos, ids, offsets, count)
            if damaged:
                raise self._image.place("INODE_DIR").error(RecordError, "damaged directory entry", pos)
            if pos == buffer.size:
                return ids[:count].copy(), offsets[:count].copy()
            ids, offsets = (np.concatenate([array, np.empty_like(array)]) for array in (ids, offsets))

    def _place(self, directories: _Ids, children: _Ids) -> tuple[_Ids, _Ids]:
        positions = find_ids(self.ids, children)
        parents = np.zeros(self.ids.size, np.int64)
        known = positions >= 0
        parents[positions[known]] = directories[known]
        stray = ~known
        stray[known] = parents[positions[known]] != directories[known]
        return parents, np.unique(np.column_stack([directories[stray], children[stray]]), axis=0)


def _section(image: ImageFile, name: str) -> _Bytes:
    section = image.section(name)
    return np.zeros(0, np.uint8) if section is None else section
