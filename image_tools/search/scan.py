"""The scan of a search: batches of the current tree below some paths, filtered by criteria.

The arrays of the tree need about 30 bytes per inode, plus the paths of all directories; beyond the allocator's limit,
they are stored in files. Each batch is decoded, filtered and released before the next batch is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.errors import HdfsError
from hadoop_common.java_utf8 import decode_java_utf8
from image_format.array_allocator import ArrayAllocator
from image_format.index_arrays import IndexArrays
from image_format.inode_columns import InodeColumns, read_inode_columns
from image_format.inode_scan import inode_section
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.dump.inode_paths import inode_paths, path_of
from image_tools.dump.values import SerialNames, own_policies, storage_policy_name
from image_tools.namespace_reads import parse_long
from image_tools.search.criteria import Criteria, CriteriaMatcher

_BATCH = 1 << 16

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class NoSuchPathError(HdfsError):
    """A search for a path that the current tree of an image does not contain."""


class FoundInodes(NamedTuple):
    """The matching inodes of a batch: their slots and columns."""

    slots: Ids
    columns: InodeColumns


class NamespaceScan:
    """The current tree of an open image, for any number of searches.

    Args:
        allocator: allocator of the tree's arrays.

    Raises:
        RecordError: a record is damaged.
        ImageStorageError: not enough disk space.
    """

    def __init__(self, image: ImageFile, allocator: ArrayAllocator) -> None:
        image.decompress(("INODE", "INODE_DIR", "INODE_REFERENCE"))
        # the folder of an archive's image is temporary
        self._image_name = image.path.name
        self._arrays = IndexArrays.scan(image, allocator)
        self._paths = inode_paths(image, allocator, self._arrays)
        self._buffer = inode_section(image)
        self._place = image.place("INODE")
        self.names = SerialNames(image.string_table())

    def find(self, tops: Sequence[str], criteria: Criteria) -> Iterator[FoundInodes]:
        """Yield the matching inodes at the paths `tops` and below, in the order of the INODE section.

        Raises:
            NoSuchPathError: a path does not exist.
            RecordError: a record is damaged.
        """
        matcher = CriteriaMatcher(criteria, self.names)
        rows, slots = self._below([each.encode("utf-8", "surrogateescape") for each in tops])
        parents = self._paths.parents
        for first in range(0, parents.size, _BATCH):
            # index -1 is the last row, which represents an inode without a parent
            wanted = rows[parents[first : first + _BATCH]]
            wanted[[slot - first for slot in slots if first <= slot < first + _BATCH]] = True
            found = self._narrowed(np.flatnonzero(wanted) + first, matcher, criteria)
            if found.slots.size:
                yield found

    def path(self, slot: int, columns: InodeColumns, number: int) -> bytes:
        """Return the path of the inode in `slot`, which has the index `number` in `columns`."""
        return path_of(self._paths, slot, self._name(columns, number))

    def paths(self, found: FoundInodes) -> Iterator[bytes]:
        content = self._buffer.data
        prefixes: dict[int, bytes] = {}
        columns = found.columns
        ends = (columns.name_start + columns.name_size).tolist()
        places = zip(self._paths.parents[found.slots].tolist(), columns.name_start.tolist(), ends, strict=True)
        for row, start, end in places:
            prefix = prefixes.get(row)
            if prefix is None:
                # only the root has no parent
                prefix = prefixes[row] = b"/" if row < 0 else self.directory(row).rstrip(b"/") + b"/"
            yield prefix + bytes(content[start:end])

    def directory(self, row: int) -> bytes:
        """Return the path of the directory in a row."""
        bounds = self._paths.bounds
        return self._paths.paths[bounds[row] : bounds[row + 1]].tobytes() or b"/"

    def rows_of(self, slots: Ids) -> Ids:
        """Return the row of the directory that contains each inode, or -1 for the root."""
        return self._paths.parents[slots].astype(np.int64)

    def inode(self, slot: int) -> pb.INode:
        """Return the record in a slot.

        Raises:
            RecordError: the record is damaged.
        """
        offset = int(self._arrays.offsets.at(np.array([slot]))[0])
        return parse_message(pb.INode, read_record(self._buffer.data, offset, self._place), self._place)

    def policy(self, slot: int, columns: InodeColumns, number: int) -> str | None:
        """Return the name of the storage policy set directly on an inode, or None."""
        if columns.has_xattrs[number]:
            return storage_policy_name(own_policies(self.inode(slot).directory, self.names)[0])
        return storage_policy_name(int(columns.storage_policy[number]))

    def _name(self, columns: InodeColumns, number: int) -> bytes:
        start = int(columns.name_start[number])
        return self._buffer[start : start + int(columns.name_size[number])].tobytes()

    def _columns(self, slots: Ids) -> InodeColumns:
        """Return the columns with the replication factors that a NameNode reports (`reported_replication`)."""
        columns = read_inode_columns(self._buffer, self._arrays.offsets.at(slots), self._place)
        return columns._replace(replication=np.where(columns.ec_policy >= 0, 1, columns.replication))

    def _narrowed(self, slots: Ids, matcher: CriteriaMatcher, criteria: Criteria) -> FoundInodes:
        found = FoundInodes(slots, self._columns(slots))
        found = _only(found, matcher.mask(found.columns))
        if criteria.name:
            found = _only(found, matcher.named(self._buffer, found.columns))
        if criteria.needs_records:
            chosen = [
                self._has(slot, found.columns, number, criteria) for number, slot in enumerate(found.slots.tolist())
            ]
            found = _only(found, np.array(chosen, np.bool_))
        return found

    def _has(self, slot: int, columns: InodeColumns, number: int, criteria: Criteria) -> bool:
        if criteria.policy and self.policy(slot, columns, number) != criteria.policy:
            return False
        if not criteria.acl:
            return True
        inode = self.inode(slot)
        return bool(inode.file.acl.entries or inode.directory.acl.entries)

    # ---- paths ---------------------------------------------------------------------------------------------

    def _below(self, tops: Sequence[bytes]) -> tuple[Mask, list[int]]:
        """Return a mask of the directories at or below `tops`, with False for the row -1, and the slots of `tops`."""
        chosen = np.zeros(self._paths.in_tree.size + 1, np.bool_)
        slots = []
        for top in tops:
            path = b"/" + b"/".join(self._names(top))
            slots.append(self._slot_at(path))
            chosen[:-1] |= self._rows_below(path.rstrip(b"/"))
        chosen[:-1] &= self._paths.in_tree
        return chosen, slots

    def _names(self, top: bytes) -> list[bytes]:
        """Return the components of a path, which may begin with `/.reserved/raw` or `/.reserved/.inodes/ID`."""
        match [each for each in top.split(b"/") if each]:
            case [b".reserved", b"raw", *names]:
                return names
            case [b".reserved", b".inodes", number, *names]:
                slot = self._arrays.slot(parse_long(number.decode("latin-1")) or -1)
                if slot == self._paths.root:
                    return names
                row = int(self._paths.parents[slot]) if slot >= 0 else -1
                if row < 0 or not self._paths.in_tree[row]:
                    raise self._missing(top)
                columns = self._columns(np.array([slot], np.int64))
                return [*filter(None, self.directory(row).split(b"/")), self._name(columns, 0), *names]
            case names:
                return names

    def _missing(self, path: bytes) -> NoSuchPathError:
        text = decode_java_utf8(path)
        return NoSuchPathError(
            f"{text} does not exist in {self._image_name}", hint="Specify a path of the current tree."
        )

    def _rows_below(self, path: bytes) -> Mask:
        """Return a mask of the directories whose path is `path`, or begins with `path` and a slash."""
        bounds, content = self._paths.bounds, self._paths.paths
        starts, sizes = bounds[:-1], np.diff(bounds)
        rows = np.flatnonzero(sizes >= len(path))
        for at, byte in enumerate(path):
            rows = rows[content[starts[rows] + at] == byte]
        longer = sizes[rows] > len(path)
        fits = ~longer
        fits[longer] = content[starts[rows[longer]] + len(path)] == ord("/")
        mask = np.zeros(sizes.size, np.bool_)
        mask[rows[fits]] = True
        return mask

    def _slot_at(self, path: bytes) -> int:
        if path == b"/":
            return self._paths.root
        above, _, name = path.rpartition(b"/")
        for row in np.flatnonzero(self._rows_below(above) & (np.diff(self._paths.bounds) == len(above))).tolist():
            if not self._paths.in_tree[row]:
                continue
            slots = np.flatnonzero(self._paths.parents == row)
            columns = self._columns(slots)
            for number in np.flatnonzero(columns.name_size == len(name)).tolist():
                if self._name(columns, number) == name:
                    return int(slots[number])
        raise self._missing(path)


def _only(found: FoundInodes, mask: Mask) -> FoundInodes:
    return FoundInodes(found.slots[mask], InodeColumns(*(column[mask] for column in found.columns)))
