"""Rows of the few inodes with a feature: the tables `acls`, `xattrs` and `under_construction`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed64
from image_format.errors import BufferOrigin, RecordError
from image_format.index import Bytes
from image_format.packed import Packed
from image_format.permission import AclType, unpack_acl_entry, unpack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import parse_message, read_record
from image_tools.dump.values import rwx
from pipeline.kernels import features as kernel
from pipeline.sources.image_tables.batches import text, to_micros, total_bytes

_T = TypeVar("_T")
_Row = dict[str, Any]
FoundInode = tuple[int, pb.INode]
"""An inode's slot and its record."""
Marks = npt.NDArray[np.uint8]
PathOf = Callable[[int, bytes], str | None]
"""Returns the current path of the inode in a slot with a name."""
_SERIALS = {AclType.USER: StringKind.USER, AclType.GROUP: StringKind.GROUP}


def inodes_with(mark: int, buf: Bytes, offsets: Packed, slots: range, place: BufferOrigin) -> Iterator[FoundInode]:
    """Yield the inodes in `slots` with a feature, in the order of the file.

    Args:
        mark: bits of `kernels.features`; the function yields an inode with any of these bits.
        buf: the INODE section; offsets: offset of each slot's record; place: location of INODE, for errors.

    Raises:
        RecordError: a record is damaged.
    """
    wanted = (feature_marks(buf, offsets, slots, place) & mark) != 0
    yield from inodes_in((np.flatnonzero(wanted) + slots.start).tolist(), buf, offsets, place)


def feature_marks(buf: Bytes, offsets: Packed, slots: range, place: BufferOrigin) -> Marks:
    """Return the bits of `kernels.features` of each inode in `slots`.

    Raises:
        RecordError: a record is damaged.
    """
    marks: Marks = kernel.mark_features(buf, offsets, slots.start, slots.stop)
    damaged = np.flatnonzero(marks & kernel.DAMAGED)
    if damaged.size:
        raise place.error(RecordError, "damaged inode record", offsets.item(slots.start + int(damaged[0])))
    return marks


def inodes_in(slots: Iterable[int], buf: Bytes, offsets: Packed, place: BufferOrigin) -> Iterator[FoundInode]:
    """Yield the inodes in these slots."""
    for slot in slots:
        yield slot, parse_message(pb.INode, read_record(buf.data, offsets.item(slot), place), place)


def _body(inode: pb.INode) -> pb.INodeFile | pb.INodeDirectory:
    return inode.file if inode.HasField("file") else inode.directory


def _unpacked(unpack: Callable[[int], _T], packed: int, inode: pb.INode, place: BufferOrigin) -> _T:
    try:
        return unpack(packed)
    except RecordError as error:
        what = f"inode {signed64(inode.id)}: {error.detail}"
        raise RecordError(what, file=place.file, section=place.section) from error


def acl_rows(
    inodes: Iterable[FoundInode], strings: StringTable, path_of: PathOf, place: BufferOrigin
) -> Iterator[_Row]:
    """Yield a row for each ACL entry; `place` is the location of INODE, for errors.

    Raises:
        RecordError: an entry has unknown bits, or a name that is missing in the string table.
    """
    for slot, inode in inodes:
        head = {"inode_id": signed64(inode.id), "path": path_of(slot, inode.name)}
        for index, packed in enumerate(_body(inode).acl.entries):
            entry = _unpacked(unpack_acl_entry, packed, inode, place)
            kind = _SERIALS.get(entry.type)
            yield {
                **head,
                "index": index,
                "scope": entry.scope.name,
                "type": entry.type.name,
                "name": None if kind is None else text(strings.lookup(entry.name, kind)),
                "permission": rwx(entry.permission),
            }


def xattr_rows(
    inodes: Iterable[FoundInode], strings: StringTable, path_of: PathOf, place: BufferOrigin
) -> Iterator[_Row]:
    """Yield a row for each extended attribute; `place` is the location of INODE, for errors.

    Raises:
        RecordError: an attribute has an unknown namespace, or a name that is missing in the string table.
    """
    for slot, inode in inodes:
        head = {"inode_id": signed64(inode.id), "path": path_of(slot, inode.name)}
        for index, attribute in enumerate(_body(inode).xAttrs.xAttrs):
            packed = _unpacked(unpack_xattr_name, attribute.name, inode, place)
            yield {
                **head,
                "index": index,
                "namespace": packed.namespace.name,
                "name": text(strings.lookup(packed.name, StringKind.XATTR)),
                "value": attribute.value if attribute.HasField("value") else None,
            }


def open_file_rows(inodes: Iterable[FoundInode], leases: Mapping[int, str | bytes]) -> Iterator[_Row]:
    """Yield a row for each open file.

    Args:
        inodes: inodes with a lease entry or FileUnderConstructionFeature.
        leases: paths in FILES_UNDERCONSTRUCTION by inode id.
    """
    for _, inode in inodes:
        file, inode_id = inode.file, signed64(inode.id)
        row: _Row = {
            "inode_id": inode_id,
            "path": text(leases.get(inode_id)),
            "mtime": to_micros(file.modificationTime),
            "length": total_bytes(file.blocks),
            "block_count": len(file.blocks),
            "block_ids": [signed64(block.blockId) for block in file.blocks],
        }
        if file.HasField("fileUC"):
            row["client_name"], row["client_machine"] = text(file.fileUC.clientName), text(file.fileUC.clientMachine)
        if file.blocks:
            last = file.blocks[-1]
            row["last_block_genstamp"], row["last_block_bytes"] = signed64(last.genStamp), signed64(last.numBytes)
        yield row
