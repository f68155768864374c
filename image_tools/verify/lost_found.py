"""Attaches unreachable inodes to /lost+found, or removes them, after all other faults have been repaired."""

from __future__ import annotations

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import UINT64
from image_format.name_order import name_key
from image_format.permission import pack_permission, unpack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.verify.checker import CheckedTree
from image_tools.verify.fixes import Fixes
from image_tools.verify.inode_fixes import fix_header
from image_tools.verify.inodes import DIRECTORY

LOST_FOUND = b"lost+found"
_MODE = 0o700


def drop_unreachable(tree: CheckedTree, fixes: Fixes) -> dict[int, str]:
    """Remove the records of unreachable inodes; return the changes by inode id.

    The next pass removes the references to these inodes.
    """
    slots = tree.reach.unreachable().tolist()
    for slot in slots:
        fixes.replace("INODE", *tree.inodes.span(slot), b"")
    fix_header(tree.inodes, fixes, tree.inodes.count - len(slots))
    return {tree.inodes.inode_id(slot): "dropped" for slot in slots}


def attach_unreachable(tree: CheckedTree, txid: int, fixes: Fixes) -> dict[int, str]:
    """Attach the tops of all unreachable trees to /lost+found, and return the changes by inode id.

    A missing directory is created with the owner and the group of the root directory, and mode 0700. If the name is in
    use, the directory is /lost+found-TXID.
    """
    return _Attachment(tree, fixes).run(b"%s-%d" % (LOST_FOUND, txid))


class _Attachment:
    """An attachment with its changed entries and records."""

    def __init__(self, tree: CheckedTree, fixes: Fixes) -> None:
        self._tree, self._fixes = tree, fixes
        self._inodes = tree.inodes
        self._entries: dict[int, list[int]] = {}
        self._names: dict[int, bytes] = {}

    def run(self, other_name: bytes) -> dict[int, str]:
        inodes = self._inodes
        happened = {inodes.inode_id(slot): "below" for slot in self._tree.reach.unreachable().tolist()}
        tops = self._tree.reach.tops()
        home, home_name = self._home(other_name)
        taken = {self._name(child) for child in self._children(home)}
        for slot in tops:
            inode_id = inodes.inode_id(slot)
            self._detach(slot)
            happened[inode_id] = self._attach(slot, home, home_name, taken)
        self._write_entries()
        below = "is below an inode that was attached"
        return {inode_id: below if text == "below" else text for inode_id, text in happened.items()}

    # ---- /lost+found ---------------------------------------------------------------------------------------

    def _home(self, other_name: bytes) -> tuple[int, bytes]:
        """Return the inode id and the name of the directory; create the directory if it is missing."""
        children = {self._name(child): child for child in self._children(ROOT_INODE_ID)}
        references = self._tree.references
        foreign = {references.name(number) for number in self._numbers(ROOT_INODE_ID)}
        for name in (LOST_FOUND, other_name):
            child = children.get(name)
            if child is not None and self._inodes.kinds[self._inodes.slot(child)] == DIRECTORY:
                return child, name
            if child is None and name not in foreign:
                return self._make(name), name
        raise ValueError(f"/{LOST_FOUND.decode()} and /{other_name.decode()} are both in use")

    def _make(self, name: bytes) -> int:
        inodes = self._inodes
        root = inodes.message(inodes.slot(ROOT_INODE_ID)).directory
        user, group, _ = unpack_permission(root.permission)
        number = max(int(inodes.header.lastInodeId), int(inodes.ids[-1])) + 1
        made = pb.INode(type=pb.INode.DIRECTORY, id=number, name=name)
        made.directory.modificationTime = root.modificationTime
        made.directory.nsQuota = made.directory.dsQuota = UINT64
        made.directory.permission = pack_permission(user, group, _MODE)
        self._fixes.replace("INODE", inodes.end, inodes.end, encode_delimited(made))
        fix_header(inodes, self._fixes, inodes.count + 1, last_id=number)
        self._names[number] = name
        self._children(ROOT_INODE_ID).append(number)
        return number

    # ---- inodes --------------------------------------------------------------------------------------------

    def _attach(self, slot: int, home: int, home_name: bytes, taken: set[bytes]) -> str:
        message = self._inodes.message(slot)
        name = b"inode-%d" % message.id
        while name in taken:
            name += b"_"
        taken.add(name)
        old = message.name.decode("utf-8", "backslashreplace")
        message.name = name
        self._names[message.id] = name
        self._fixes.replace("INODE", *self._inodes.span(slot), encode_delimited(message))
        self._children(home).append(message.id)
        return f"attached as /{home_name.decode()}/{name.decode()}, former name {old!r}"

    def _detach(self, slot: int) -> None:
        """Remove an inode from the unreachable directory that lists it."""
        owner = int(self._tree.directories.owner[slot])
        if owner >= 0:
            self._children(self._inodes.inode_id(owner)).remove(self._inodes.inode_id(slot))

    # ---- entries -------------------------------------------------------------------------------------------

    def _entry(self, directory: int) -> int:
        slot = self._inodes.slot(directory)
        return int(self._tree.directories.entry_of[slot]) if slot >= 0 else -1

    def _numbers(self, directory: int) -> list[int]:
        entry = self._entry(directory)
        return [] if entry < 0 else [int(n) for n in self._tree.directories.arrays(entry)[1]]

    def _children(self, directory: int) -> list[int]:
        """Return a directory's children, which the caller may change."""
        if directory not in self._entries:
            entry = self._entry(directory)
            self._entries[directory] = [] if entry < 0 else self._tree.directories.arrays(entry)[0].tolist()
        return self._entries[directory]

    def _name(self, inode_id: int) -> bytes:
        return self._names[inode_id] if inode_id in self._names else self._inodes.name(self._inodes.slot(inode_id))

    def _write_entries(self) -> None:
        directories = self._tree.directories
        for directory, children in self._entries.items():
            children.sort(key=lambda child: name_key(self._name(child)))
            entry = self._entry(directory)
            message = pb.DirEntry(parent=directory) if entry < 0 else directories.message(entry)
            if list(message.children) == children:
                continue
            del message.children[:]
            message.children.extend(children)
            data = encode_delimited(message) if children or message.refChildren else b""
            start, end = (directories.end, directories.end) if entry < 0 else directories.span(entry)
            self._fixes.replace("INODE_DIR", start, end, data)
