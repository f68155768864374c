"""Check and repair of SNAPSHOT."""

from __future__ import annotations

from hadoop_common.quantities import counted
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.strings import StringTableCheck
from image_tools.verify.view import SectionView

_Snapshot = tuple[pb.Snapshot, int]
# Snapshot.CURRENT_STATE_ID
_FIRST_RESERVED = (1 << 31) - 2


class SnapshotCheck:
    """The snapshots of an image.

    Attributes:
        roots: inode id of the snapshotted directory, by snapshot id.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, inodes: InodeArrays, strings: StringTableCheck) -> None:
        self.view = SectionView(frame, "SNAPSHOT", findings)
        self._inodes, self._strings = inodes, strings
        self.roots: dict[int, int] = {}
        self._header, start = self.view.header(pb.SnapshotSection)
        parsed = [(self.view.parse(pb.Snapshot, record), record.offset) for record in self.view.records(start)]
        self._read = [(message, offset) for message, offset in parsed if message is not None]
        self._total = len(parsed)

    def check(self, fixes: Fixes | None) -> None:
        """Report faults; with `fixes`, rewrite a faulty section."""
        if not self.view.present:
            return
        before = self._header.SerializeToString() + b"".join(m.SerializeToString() for m, _ in self._read)
        if self._header.numSnapshots != self._total:
            text = f"the header counts {counted(self._header.numSnapshots, 'snapshot')}, found {self._total}"
            self.view.add("snapshot-count", text, 0)
        directories = self._directories()
        kept = self._in_order([item for item in self._read if self._usable(item, directories)])
        del self._header.snapshottableDir[:]
        self._header.snapshottableDir.extend(directories)
        if self._header.numSnapshots != len(kept):
            self._header.numSnapshots = len(kept)
        highest = max(self.roots, default=-1)
        if self._header.snapshotCounter <= highest:
            text = f"snapshotCounter is {self._header.snapshotCounter}, but a snapshot has the id {highest}"
            self.view.add("snapshot-counter", text, 0)
            self._header.snapshotCounter = highest + 1
        moved = [self._strings.move(message.root.directory) for message in kept] if fixes is not None else []
        after = self._header.SerializeToString() + b"".join(m.SerializeToString() for m in kept)
        if fixes is not None and (any(moved) or before != after):
            content = b"".join(map(encode_delimited, [self._header, *kept]))
            fixes.replace(self.view.name, 0, len(self.view.data), content)

    def _directories(self) -> list[int]:
        """Return the valid snapshottable directories."""
        kept: list[int] = []
        for inode_id in self._header.snapshottableDir:
            if not self._inodes.is_directory(inode_id):
                self.view.add("snapshot-directory", f"inode {inode_id} is not a directory", 0, inode=inode_id)
            elif inode_id in kept:
                self.view.add("snapshot-directory-twice", f"inode {inode_id} is listed twice", 0, inode=inode_id)
            else:
                kept.append(inode_id)
        return kept

    def _usable(self, item: _Snapshot, directories: list[int]) -> bool:
        """Return whether a snapshot is valid; add its directory to `directories` if it is not listed."""
        message, offset = item
        number, root = message.snapshotId, message.root.id
        if number >= _FIRST_RESERVED:
            self.view.add("record-unloadable", f"the snapshot id {number} is reserved", offset, inode=root)
            return False
        if number in self.roots:
            self.view.add("snapshot-twice", f"two snapshots have the id {number}", offset, inode=root)
            return False
        if not self._inodes.is_directory(root):
            text = f"snapshot {number} belongs to inode {root}, which is not a directory"
            self.view.add("snapshot-root-missing", text, offset, inode=root)
            return False
        if root not in directories:
            text = f"snapshot {number} belongs to directory {root}, which is not snapshottable"
            self.view.add("snapshot-root", text, offset, inode=root)
            directories.append(root)
        for code, serial in self._strings.missing(message.root.directory):
            text = f"snapshot {number} uses serial {serial}, which is missing from the string table"
            self.view.add(code, text, offset, inode=root)
        self.roots[number] = root
        return True

    def _in_order(self, snapshots: list[_Snapshot]) -> list[pb.Snapshot]:
        """Sort each directory's snapshots by name; keep the order of directories."""
        by_root: dict[int, list[_Snapshot]] = {}
        for item in snapshots:
            by_root.setdefault(item[0].root.id, []).append(item)
        changed = False
        for root, items in by_root.items():
            keys = [name_key(message.root.name) for message, _ in items]
            if keys != sorted(keys):
                text = f"the snapshots of directory {root} are not in name order"
                self.view.add("snapshot-order", text, items[0][1], inode=root)
            self._rename_twins(root, items)
            ordered = sorted(items, key=lambda item: name_key(item[0].root.name))
            changed = changed or ordered != items
            items[:] = ordered
        if not changed:
            return [message for message, _ in snapshots]
        return [message for items in by_root.values() for message, _ in items]

    def _rename_twins(self, root: int, items: list[_Snapshot]) -> None:
        taken: set[bytes] = set()
        for message, offset in items:
            name = message.root.name
            if name in taken:
                shown = name.decode("utf-8", "backslashreplace")
                text = f"two snapshots of directory {root} have the name {shown!r}"
                self.view.add("snapshot-name", text, offset, inode=root)
                while message.root.name in taken:
                    message.root.name += b"-%d" % message.snapshotId
            taken.add(message.root.name)
