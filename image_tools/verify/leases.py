"""Check and repair of FILES_UNDERCONSTRUCTION: the open files and their paths."""

from __future__ import annotations

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_utf8 import decode_java_utf8
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.verify.catalogue import Severity
from image_tools.verify.directories import DirectoryCheck
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.kernels.attribute_audit import OPEN
from image_tools.verify.kernels.tree_audit import DST
from image_tools.verify.references import ReferenceCheck
from image_tools.verify.view import SectionView


class LeaseCheck:
    """Comparison of the list of open files with the tree."""

    def __init__(
        self,
        frame: ImageFrame,
        findings: Findings,
        inodes: InodeArrays,
        directories: DirectoryCheck,
        references: ReferenceCheck,
    ) -> None:
        self._view = SectionView(frame, "FILES_UNDERCONSTRUCTION", findings)
        self._findings = findings
        # From layout -64 on, a NameNode reads leases from the INODE section.
        self._missing = Severity.INFO if frame.erasure_coding else Severity.WARNING
        self._inodes, self._owner = inodes, directories.owner
        dst = np.flatnonzero((references.kinds == DST) & (references.owner >= 0) & (references.referred >= 0))
        self._dst_parent = dict(zip(references.referred[dst].tolist(), references.owner[dst].tolist(), strict=True))

    def path(self, slot: int) -> str | None:
        """Return the path in the current tree as in a NameNode, or None for an inode outside the tree."""
        names: list[bytes] = []
        visited: set[int] = set()
        root = self._inodes.slot(ROOT_INODE_ID)
        while slot != root:
            parent = int(self._owner[slot])
            parent = self._dst_parent.get(slot, -1) if parent < 0 else parent
            if parent < 0 or slot in visited:
                return None
            visited.add(slot)
            names.append(self._inodes.name(slot))
            slot = parent
        return "/" + decode_java_utf8(b"/".join(reversed(names)))

    def check(self, fixes: Fixes | None) -> None:
        """Report faults; with `fixes`, rewrite a faulty section."""
        if not self._view.present:
            return
        kept: dict[int, bytes] = {}
        changed = False
        for record in self._view.records():
            entry = self._view.parse(pb.FileUnderConstructionEntry, record)
            if entry is None:
                continue
            data = bytes(self._view.data[record.offset : record.end])
            new = self._checked(entry, record.offset, kept)
            changed = changed or new is not entry
            if new is not None:
                kept[int(entry.inodeId)] = data if new is entry else encode_delimited(new)
        for entry in self._unlisted(kept):
            changed = True
            kept[int(entry.inodeId)] = encode_delimited(entry)
        if fixes is not None and changed:
            fixes.replace(self._view.name, 0, len(self._view.data), b"".join(kept.values()))

    def _checked(
        self, entry: pb.FileUnderConstructionEntry, offset: int, kept: dict[int, bytes]
    ) -> pb.FileUnderConstructionEntry | None:
        """Return the entry itself if it is correct, otherwise a corrected entry, or None to drop it."""
        inode_id = int(entry.inodeId)
        slot = self._inodes.slot(inode_id)
        if slot < 0:
            self._view.add("lease-inode", f"{entry.fullPath} is not an inode", offset, inode=inode_id)
            return None
        if not self._inodes.flags[slot] & OPEN:
            self._view.add("lease-closed", f"{entry.fullPath} is not under construction", offset, inode=inode_id)
            return None
        if inode_id in kept:
            self._view.add("lease-twice", f"{entry.fullPath} is listed twice", offset, inode=inode_id)
            return None
        path = self.path(slot)
        if path is None or path == entry.fullPath:
            return entry
        self._view.add("lease-path", f"{entry.fullPath} is at {path}", offset, inode=inode_id)
        repaired = pb.FileUnderConstructionEntry()
        repaired.CopyFrom(entry)
        repaired.fullPath = path
        return repaired

    def _unlisted(self, kept: dict[int, bytes]) -> list[pb.FileUnderConstructionEntry]:
        """Return open files of the current tree without an entry; files that exist only in snapshots need no entry."""
        found = []
        for slot in np.flatnonzero(self._inodes.flags & OPEN).tolist():
            inode_id = self._inodes.inode_id(slot)
            if inode_id in kept or self._inodes.slot(inode_id) != slot:
                continue
            path = self.path(slot)
            if path is None:
                continue
            text = f"{path} is open, but not listed"
            self._findings.add("lease-missing", text, self._view.place, inode=inode_id, severity=self._missing)
            if self._missing is Severity.WARNING:
                found.append(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path))
        return found
