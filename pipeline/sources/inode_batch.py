"""Rows of the `inodes` table: decoded inodes, from which columns are made on demand."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from image_format.erasure_policies import policies_of
from image_format.inode_columns import read_inode_columns
from image_format.inode_scan import inode_section
from image_format.kernels.directory_tree import fill_names, fill_paths
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.permission import GROUP_SHIFT, SERIAL_MASK, USER_SHIFT
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames, directory_policies, ec_policy_name, java_text, storage_policy_name
from pipeline.host_image import HostImage
from pipeline.schema import TIMESTAMP
from pipeline.tables.inodes import INODES

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_KINDS = pa.array([None, "FILE", "DIRECTORY", "SYMLINK"], pa.string())
_MICROS = 1000
_MAX_MILLIS = ((1 << 63) - 1) // _MICROS
_MODE = 0o1777  # all bits of FsPermission
_ASCII = 0x80
_TYPES = {column.name: column.type for column in INODES.columns}


class InodeLookups:
    """Names of owners and policies by number, shared by all batches of a task.

    Raises:
        RecordError: the string table or the ERASURE_CODING section is damaged.
    """

    def __init__(self, image: HostImage) -> None:
        self.image = image
        self.names = SerialNames(image.image.string_table())
        section = ImageRecords(image.image).erasure_coding()
        self.ec_policies = {number: policy.name for number, policy in policies_of(section).items()}

    def owner(self, permission: int) -> tuple[str | None, str | None]:
        """Return the user and group of a fixed64 permission."""
        found = self.names.owner(permission)
        return _text(found.user), _text(found.group)


def _text(value: str | None) -> str | None:
    return None if value is None else java_text(value)


class InodeBatch:
    """The inodes of a range of slots that are in the current tree.

    Args:
        slots: slots of inodes, whose paths need less than 2 GiB in total.

    Raises:
        RecordError: a record is damaged.
    """

    def __init__(self, lookups: InodeLookups, slots: range) -> None:
        self._lookups, self._image, self._slots = lookups, lookups.image, slots
        self._buffer = inode_section(lookups.image.image)
        self._place = lookups.image.image.place("INODE")
        self._offsets = lookups.image.arrays.offsets.part(slots.start, slots.stop)
        self._columns = read_inode_columns(self._buffer, self._offsets, self._place)
        self._directory_rows = lookups.image.parent_rows[slots.start : slots.stop]
        in_tree = lookups.image.in_tree(slots)
        self._rows: Ids | None = None if in_tree.all() else np.flatnonzero(in_tree)

    @property
    def count(self) -> int:
        """Number of rows of the current tree."""
        return len(self._slots) if self._rows is None else self._rows.size

    def directories(self) -> InodeBatch:
        """Return a batch of only the directories."""
        found = copy.copy(self)
        is_directory = self._columns.kind == DIRECTORY
        rows = np.arange(is_directory.size) if self._rows is None else self._rows
        found._rows = rows[is_directory[rows]]
        return found

    def to_arrow(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows with these columns."""
        schema = INODES.select(columns).arrow_schema()
        return pa.RecordBatch.from_arrays([_decoded(_MAKERS[name](self)) for name in columns], schema=schema)

    def to_encoded(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows with these columns; strings that many rows share are dictionary-encoded."""
        return pa.RecordBatch.from_arrays([_MAKERS[name](self) for name in columns], list(columns))

    # ---- numbers -------------------------------------------------------------------------------------------

    def _taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self._rows is None else values[self._rows]

    def _is(self, kind: int) -> Mask:
        marks: Mask = self._taken(self._columns.kind) == kind
        return marks

    def _of_kind(self, name: str, kind: int) -> pa.Array:
        return _numbers(self._taken(getattr(self._columns, name)), _TYPES[name], ~self._is(kind))

    def _id(self) -> pa.Array:
        return _numbers(self._taken(self._columns.id), pa.int64())

    def _parent(self) -> pa.Array:
        rows = self._taken(self._directory_rows)
        ids = self._image.directories.ids
        parents = ids[rows] if ids.size else np.zeros(rows.size, np.int64)
        return _numbers(parents, pa.int64(), rows < 0)

    def _permission(self) -> pa.Array:
        return _numbers(self._taken(self._columns.permission) & _MODE, pa.int32())

    def _mtime(self) -> pa.Array:
        return _times(self._taken(self._columns.mtime))

    def _atime(self) -> pa.Array:
        return _times(self._taken(self._columns.atime), self._is(DIRECTORY))

    def _replication(self) -> pa.Array:
        striped = self._taken(self._columns.ec_policy) >= 0
        values = np.where(striped, 0, self._taken(self._columns.replication))
        return _numbers(values, pa.int32(), ~self._is(FILE))

    # ---- text ----------------------------------------------------------------------------------------------

    def _type(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(self._taken(self._columns.kind), _KINDS)

    def _owner(self) -> pa.Array:
        return self._owners(USER_SHIFT, 0)

    def _group(self) -> pa.Array:
        return self._owners(GROUP_SHIFT, 1)

    def _owners(self, shift: int, which: int) -> pa.Array:
        present, codes = _distinct((self._taken(self._columns.permission) >> shift) & SERIAL_MASK)
        names = [self._lookups.owner(serial << shift)[which] for serial in present.tolist()]
        return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))

    def _name(self) -> pa.Array:
        starts, sizes = self._taken(self._columns.name_start), self._taken(self._columns.name_size)
        bounds, out = np.empty(sizes.size + 1, np.int32), np.empty(int(sizes.sum()), np.uint8)
        fill_names(self._buffer, starts, sizes, bounds, out)
        return _strings(bounds, out)

    def _path(self) -> pa.Array:
        directories = self._image.directories
        rows = self._taken(self._directory_rows)
        sizes = np.where(rows < 0, 0, self._taken(self._columns.name_size))
        lengths = np.diff(directories.bounds)
        above = np.where(rows < 0, 0, lengths[rows]) if lengths.size else np.zeros(rows.size, np.int64)
        bounds = np.empty(sizes.size + 1, np.int32)
        out = np.empty(int(sizes.sum() + above.sum()) + sizes.size, np.uint8)
        starts = self._taken(self._columns.name_start)
        fill_paths(self._buffer, rows, directories.bounds, directories.paths, starts, sizes, bounds, out)
        return _strings(bounds, out)

    # ---- policies ------------------------------------------------------------------------------------------

    def _storage_policy(self) -> pa.Array:
        return self._policies(self._columns.storage_policy, storage_policy_name, 0)

    def _ec_policy(self) -> pa.Array:
        return self._policies(self._columns.ec_policy, self._ec_name, 1)

    def _ec_name(self, number: int) -> str | None:
        return ec_policy_name(number, self._lookups.ec_policies)

    def _policies(self, column: Ids, name_of: Callable[[int], str | None], which: int) -> pa.Array:
        numbers = self._taken(column)
        special = np.flatnonzero(self._taken(self._columns.has_xattrs))
        if not special.size and (numbers <= -1).all():
            return pa.nulls(numbers.size, pa.string())
        present, codes = _distinct(numbers)
        names = pa.array([name_of(number) for number in present.tolist()], pa.string())
        array = pa.DictionaryArray.from_arrays(codes, names)
        if not special.size:
            return array
        values = array.to_pylist()
        for row in special.tolist():
            values[row] = directory_policies(self._directory(row), self._lookups.names)[which]
        return pa.array(values, pa.string())

    def _directory(self, row: int) -> pb.INodeDirectory:
        offset = int(self._offsets[row if self._rows is None else self._rows[row]])
        return parse_message(pb.INode, read_record(self._buffer.data, offset, self._place), self._place).directory


def _of_kind(name: str, kind: int) -> Callable[[InodeBatch], pa.Array]:
    return lambda batch: batch._of_kind(name, kind)


_MAKERS: dict[str, Callable[[InodeBatch], pa.Array]] = {
    "id": InodeBatch._id,
    "parent": InodeBatch._parent,
    "path": InodeBatch._path,
    "name": InodeBatch._name,
    "type": InodeBatch._type,
    "owner": InodeBatch._owner,
    "group": InodeBatch._group,
    "permission": InodeBatch._permission,
    "length": _of_kind("length", FILE),
    "mtime": InodeBatch._mtime,
    "atime": InodeBatch._atime,
    "replication": InodeBatch._replication,
    "block_size": _of_kind("block_size", FILE),
    "block_count": _of_kind("block_count", FILE),
    "storage_policy": InodeBatch._storage_policy,
    "ec_policy": InodeBatch._ec_policy,
    "ns_quota": _of_kind("ns_quota", DIRECTORY),
    "ds_quota": _of_kind("ds_quota", DIRECTORY),
}


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _numbers(values: npt.NDArray[Any], kind: pa.DataType, nulls: Mask | None = None) -> pa.Array:
    """Return an array of fixed width, null where marked; shares the memory of `values` if the width is equal."""
    valid = None
    if nulls is not None and nulls.any():
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(
        kind, values.size, [valid, pa.py_buffer(np.ascontiguousarray(values, f"i{kind.bit_width // 8}"))]
    )


def _times(millis: Ids, nulls: Mask | None = None) -> pa.Array:
    """Return timestamps; null where marked, and for times that a timestamp cannot represent."""
    outside = (millis > _MAX_MILLIS) | (millis < -_MAX_MILLIS)
    if outside.any():
        nulls = outside if nulls is None else nulls | outside
    return _numbers(millis * _MICROS, TIMESTAMP, nulls)


def _strings(bounds: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> pa.Array:
    """Return the strings between the bounds, decoded as in Java."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    if (data < _ASCII).all():
        return pa.Array.from_buffers(pa.string(), bounds.size - 1, buffers)
    array = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([java_text(value) for value in array.to_pylist()], pa.string())


def _distinct(values: Ids) -> tuple[Ids, npt.NDArray[Any]]:
    """Return (the distinct values, the index of each value among them)."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
