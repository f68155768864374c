"""Check and repair of STRING_TABLE: existing serials, missing serials in use, and the completed table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hadoop_common.quantities import counted
from image_format.permission import NAME_SHIFT, SERIAL_MASK, pack_permission, unpack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import MAX_SERIAL, StringKind, last_serial
from image_format.varint import encode_delimited
from image_tools.verify.kernels.attribute_audit import MISSING_USE
from image_tools.verify.view import SectionView

Known = npt.NDArray[np.uint8]

_KINDS = (StringKind.USER, StringKind.GROUP, StringKind.XATTR)
_MAX_MASK_BITS = 3
# Hadoop 2 needs a contiguous table; a missing serial beyond this distance receives a new number instead.
_FILL = 256


class StringTableCheck:
    """The serials of a string table, in arrays that the kernels read and mark.

    Attributes:
        users, groups, xattrs: 1 by serial if the table contains it, `MISSING_USE` if a record uses a missing serial.
            All three are the same array if the table has one id space.
    """

    def __init__(self, view: SectionView) -> None:
        self._view = view
        self._header, start = view.header(pb.StringTableSection)
        self.mask_bits = int(self._header.maskBits)
        if self.mask_bits > _MAX_MASK_BITS:
            view.add("string-mask", f"maskBits {self.mask_bits} exceeds {_MAX_MASK_BITS}", 0)
            self.mask_bits = _MAX_MASK_BITS
        self._known: dict[int, Known] = {}
        self._entries: dict[int, bytes] = {}
        self._changed = False
        self._moved: dict[int, int] = {}
        self._read(start)
        self.users, self.groups, self.xattrs = (self._array(kind) for kind in _KINDS)
        if not view.present or view.damaged:
            # A lost table yields one finding, not one for each record.
            for array in self._known.values():
                array[:] = 1

    def _space(self, kind: StringKind) -> int:
        return int(kind) if self.mask_bits else 0

    def _array(self, kind: StringKind) -> Known:
        return self._known.setdefault(self._space(kind), np.zeros(MAX_SERIAL + 1, np.uint8))

    def _read(self, start: int) -> None:
        records = [(record, self._view.parse(pb.StringTableEntry, record)) for record in self._view.records(start)]
        if len(records) != self._header.numEntry:
            text = f"numEntry is {self._header.numEntry}, found {counted(len(records), 'entry')}"
            self._view.add("string-count", text, 0)
            self._changed = True
        shift = 32 - self.mask_bits
        for record, entry in records:
            if entry is None:
                continue
            number = int(entry.id)
            space, serial = (number >> shift, number & (1 << shift) - 1) if self.mask_bits else (0, number)
            last = (1 << shift) - 1 if self.mask_bits else last_serial(len(records))
            if not 0 < serial <= last or space > StringKind.XATTR:
                self._view.add("string-id", f"id {number} is outside the table's range", record.offset)
                self._changed = True
                continue
            if number in self._entries:
                self._view.add("string-twice", f"two strings have the id {number}", record.offset)
                self._changed = True
                del self._entries[number]
            self._entries[number] = bytes(self._view.data[record.offset : record.end])
            if serial <= MAX_SERIAL:
                self._known.setdefault(space, np.zeros(MAX_SERIAL + 1, np.uint8))[serial] = 1
        missing = 0 if self.mask_bits else max(self._entries, default=0) - len(self._entries)
        if missing:
            self._view.add("string-gap", f"the table lacks {counted(missing, 'id')} before its last id", 0)
            self._changed = True

    # ---- uses outside the INODE section --------------------------------------------------------------------

    def missing(self, body: pb.INodeFile | pb.INodeDirectory | pb.INodeSymlink) -> list[tuple[str, int]]:
        """Mark the serials in an inode's attributes that are missing from the table; return their (code, serial)."""
        user, group, _ = unpack_permission(body.permission)
        wanted = [("inode-user", StringKind.USER, user), ("inode-group", StringKind.GROUP, group)]
        if not isinstance(body, pb.INodeSymlink):
            for packed in body.acl.entries:
                kind = (StringKind.USER, StringKind.GROUP, None, None)[packed >> 3 & 3]
                if kind is not None:
                    wanted.append(("inode-acl", kind, packed >> NAME_SHIFT & SERIAL_MASK))
            wanted += [
                ("inode-xattr", StringKind.XATTR, x.name >> NAME_SHIFT & SERIAL_MASK) for x in body.xAttrs.xAttrs
            ]
        lost = [(code, kind, serial) for code, kind, serial in wanted if serial and self._array(kind)[serial] != 1]
        for _, kind, serial in lost:
            self._array(kind)[serial] = MISSING_USE
        return [(code, serial) for code, _, serial in lost]

    # ---- repair --------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return len(self._view.data)

    @property
    def incomplete(self) -> bool:
        """Whether a record uses a serial that is missing from the table."""
        return any(bool((array == MISSING_USE).any()) for array in self._known.values())

    def _missing(self, space: int) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self._known[space] == MISSING_USE).astype(np.int64)

    @property
    def moves(self) -> bool:
        """Whether a missing serial is so far beyond the end of the table that inode records must be rewritten."""
        return not self.mask_bits and bool((self._known[0][self._reach() + 1 :] == MISSING_USE).any())

    def _reach(self) -> int:
        return max(self._entries, default=0) + _FILL

    def move(self, body: pb.INodeFile | pb.INodeDirectory | pb.INodeSymlink) -> bool:
        """Replace distant serials in an inode's attributes with their new numbers; return whether any was replaced."""
        if self.mask_bits or not self.missing(body):
            return False
        before = body.SerializeToString()
        user, group, mode = unpack_permission(body.permission)
        body.permission = pack_permission(self._near(user), self._near(group), mode)
        if not isinstance(body, pb.INodeSymlink):
            for index, packed in enumerate(body.acl.entries):
                body.acl.entries[index] = self._renamed(packed)
            for xattr in body.xAttrs.xAttrs:
                xattr.name = self._renamed(xattr.name)
        return bool(body.SerializeToString() != before)

    def _renamed(self, packed: int) -> int:
        name = self._near(packed >> NAME_SHIFT & SERIAL_MASK)
        return packed & ~(SERIAL_MASK << NAME_SHIFT) | name << NAME_SHIFT

    def _near(self, serial: int) -> int:
        if serial <= self._reach() or self._known[0][serial] != MISSING_USE:
            return serial
        return self._moved.setdefault(serial, self._reach() + len(self._moved) + 1)

    def encode(self) -> bytes | None:
        """Encode the table, with `unknown-SERIAL` for each missing serial in use; return None if nothing changes."""
        if not self._changed and not self.incomplete:
            return None
        entries = dict(self._entries)
        if self.mask_bits:
            for space in self._known:
                for serial in self._missing(space).tolist():
                    self._fill(entries, serial | space << 32 - self.mask_bits, serial)
        else:
            names = {new: old for old, new in self._moved.items()}
            near = [serial for serial in self._missing(0).tolist() if serial <= self._reach()]
            for serial in range(1, max([*entries, *near, *names], default=0) + 1):
                if serial not in entries:
                    self._fill(entries, serial, names.get(serial, serial))
        header = pb.StringTableSection()
        header.CopyFrom(self._header)
        header.numEntry = len(entries)
        return encode_delimited(header) + b"".join(entries.values())

    @staticmethod
    def _fill(entries: dict[int, bytes], number: int, serial: int) -> None:
        entries[number] = encode_delimited(pb.StringTableEntry(id=number, str=f"unknown-{serial}".encode()))
