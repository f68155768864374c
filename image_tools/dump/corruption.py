"""Lists missing inodes that directories contain, in the format of `hdfs oiv -p DetectCorruption` of Hadoop 3.3.

`image verify` finds these and other errors; this format is for scripts that read Hadoop's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.inode_scan import scan_inode_section, scanners
from image_format.packed import Packed
from image_tools.dump.kernels.corruption import CHILD, DIRECTORY, find_missing
from image_tools.dump.records import ImageRecords
from image_tools.dump.tree import ImageTree
from image_tools.dump.values import csv_text, java_text

COLUMNS = ("CorruptionType", "Id", "IsSnapshot", "ParentPath", "ParentId", "Name", "NodeType", "CorruptChildren")
_FIRST_ROWS = 1 << 12


@dataclass(slots=True)
class _Corruption:
    """Corruption of an inode: whether the inode is missing, and its number of missing children."""

    missing: bool = False
    children: int = 0

    @property
    def kind(self) -> str:
        kinds = ["CorruptNode"] * self.missing + ["MissingChild"] * (self.children > 0)
        return "With".join(kinds)


def dump_corruption(records: ImageRecords, delimiter: str = "\t") -> Iterator[str]:
    """Yield a header row, then one row of `COLUMNS` for each corrupt inode.

    Directories in the tree with missing children come first, in the order of INODE. Missing inodes and unreachable
    directories follow by id.

    Raises:
        RecordError: INODE, INODE_DIR or INODE_REFERENCE is damaged.
    """
    yield delimiter.join(COLUMNS) + "\n"
    referred = np.fromiter((reference.referredId for reference in records.references()), np.int64)
    found, parents = _found(records, referred)
    if not found:
        return
    tree = ImageTree(records)
    there = {inode_id: tree.position(inode_id) for inode_id in found}
    in_order = sorted((tree.offsets[at], inode_id, at) for inode_id, at in there.items() if at >= 0)
    for _, inode_id, at in in_order:
        above, directory = int(tree.parents[at]), tree.path(inode_id)
        if directory is not None:
            path = java_text(directory.rpartition(b"/")[0]) or "/"
            name = java_text(tree.inode(at).name)
            yield _row(delimiter, inode_id, found.pop(inode_id), (False, path, above, name, "Node"))
    references = set(referred.tolist())
    for inode_id in sorted(found):
        at = there[inode_id]
        if at >= 0:
            inode = tree.inode(at)
            name, kind = java_text(inode.name) if inode.HasField("directory") else "", "Node"
            above = int(tree.parents[at])
        else:
            name, kind = "", "Ref" if inode_id in references else "Unknown"
            above = parents.get(inode_id, 0)
        yield _row(delimiter, inode_id, found[inode_id], (True, "", above, name, kind))


def _found(records: ImageRecords, referred: np.ndarray) -> tuple[dict[int, _Corruption], dict[int, int]]:
    """Return the corruptions by inode id, and the parent of each missing inode that has a parent."""
    image = records.image
    found: dict[int, _Corruption] = {}
    parents: dict[int, int] = {}
    section = image.section("INODE_DIR")
    if section is None:
        return found, parents
    with scanners(image) as executor:
        scanned = scan_inode_section(image, executor, ArrayAllocator())
    ids = scanned.ids if scanned.ascending else Packed.of(np.sort(scanned.ids.all()))
    pos, rows = 0, np.empty((_FIRST_ROWS, 3), np.int64)
    while pos < section.size:
        reached, count, damaged = find_missing(section, pos, ids, referred, rows)
        if damaged:
            raise image.place("INODE_DIR").error(RecordError, "damaged directory entry", reached)
        lacking: dict[int, int] = {}
        for what, inode_id, directory in rows[:count].tolist():
            if what == DIRECTORY:
                found.setdefault(inode_id, _Corruption()).missing = True
                continue
            parents[inode_id] = directory
            if what == CHILD:
                found.setdefault(inode_id, _Corruption()).missing = True
                lacking[directory] = lacking.get(directory, 0) + 1
        for directory, number in lacking.items():
            found.setdefault(directory, _Corruption()).children = number
        if reached == pos:
            rows = np.empty((2 * rows.shape[0], 3), np.int64)
        pos = reached
    return found, parents


def _row(delimiter: str, inode_id: int, corruption: _Corruption, place: tuple[bool, str, int, str, str]) -> str:
    in_snapshot, path, parent, name, kind = place
    columns = (
        *(corruption.kind, str(inode_id), "true" if in_snapshot else "false", csv_text(path)),
        *(str(parent) if parent else "Missing", csv_text(name), kind, str(corruption.children)),
    )
    return delimiter.join(columns) + "\n"
