"""A naive file system with snapshots: dictionaries, and a full copy of the tree for every snapshot."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from journal import ops
from journal.ops import Block, EditOp, PermissionStatus, XAttr
from tests.engine.op_makers import add, close, delete, mkdir, rename, set_permissions, times
from tests.engine.snapshot_reader import Seen

NAMES = ("a", "b", "ü", "Z")
SNAPSHOT_NAMES = ("s1", "s2", "ß", "S")
BLOCK_SIZE = 128
Step = tuple[int, int, int, int]
"""An action, and three numbers that choose its objects: each is an index into the candidates, modulo their number."""


T = TypeVar("T")


class NothingFitsError(Exception):
    """The error for a step without candidates."""


def pick(found: Sequence[T], number: int) -> T:
    if not found:
        raise NothingFitsError
    return found[number % len(found)]


@dataclass
class Node:
    """An inode; directories have `children`. `moved`: whether it once had another path, possibly in a snapshot."""

    inode_id: int
    user: str = "hdfs"
    mode: int = 0o755
    children: dict[str, Node] | None = None
    mtime: int = 0
    replication: int = 3
    xattrs: dict[str, bytes] = field(default_factory=dict)
    quotas: tuple[int, int] = (-1, -1)
    blocks: list[Block] = field(default_factory=list)
    is_open: bool = False
    moved: bool = False
    is_link: bool = False

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        yield path or "/", self
        for name, child in (self.children or {}).items():
            yield from child.walk(f"{path}/{name}")

    @property
    def length(self) -> int:
        return sum(block.num_bytes for block in self.blocks)

    def seen(self, *, present: bool) -> Seen:
        """Return the expected view of a reader, without the length of a file that was open at a snapshot."""
        xattrs = tuple(sorted(self.xattrs.items()))
        if self.children is not None:
            return Seen(self.inode_id, self.user, self.mode, xattrs, self.quotas)
        if self.is_link:
            return Seen(self.inode_id, self.user, self.mode)
        seen = Seen(self.inode_id, self.user, self.mode, xattrs, mtime=self.mtime, replication=self.replication)
        if self.is_open and not present:
            return replace(seen, mtime=None)
        ids = tuple(block.block_id for block in self.blocks if block.num_bytes)
        return replace(seen, length=self.length, blocks=ids)


@dataclass
class Snapshot:
    """A full copy of a directory."""

    id: int
    tree: Node


class SnapshotTwin:
    """Translator of steps into operations that are possible in the tree; it applies each operation to its tree
    immediately. Without `hadoop3`, it skips operations that only Hadoop 3 handles correctly; see `can_shorten` and
    `can_join`.
    """

    def __init__(self, root: Node, last_inode_id: int, *, hadoop3: bool) -> None:
        self.root = root
        self.last_inode_id = last_inode_id
        self.hadoop3 = hadoop3
        self.snapshots: dict[int, dict[str, Snapshot]] = {}
        self.snapshot_count = 0
        # A NameNode counts an inode that was moved once as part of the newest snapshot above it, even if a directory
        # above it is moved later. A deleted inode stays until that snapshot is deleted, although no path shows it.
        self.may_leave_more = False
        self.block_count = 1 << 30
        self.stamp = 2000
        self.clock = 10_000

    # ---- contents ------------------------------------------------------------------------------------------

    def trees(self) -> dict[str, Node]:
        return dict(self.root.walk())

    def files(self) -> list[str]:
        return [path for path, node in self.trees().items() if node.children is None and not node.is_link]

    def directories(self) -> list[str]:
        return [path for path, node in self.trees().items() if node.children is not None]

    def find(self, path: str) -> Node | None:
        return self.trees().get(path)

    def node(self, path: str) -> Node:
        return self.trees()[path]

    def parent(self, path: str) -> dict[str, Node]:
        children = self.node(path.rpartition("/")[0] or "/").children
        assert children is not None
        return children

    def put(self, path: str, node: Node) -> None:
        self.parent(path)[path.rpartition("/")[2]] = node

    def take(self, path: str) -> Node:
        node = self.parent(path).pop(path.rpartition("/")[2])
        for _, gone in node.walk():
            self.snapshots.pop(gone.inode_id, None)
        return node

    def has_snapshots(self, node: Node) -> bool:
        return any(self.snapshots.get(each.inode_id) for _, each in node.walk())

    def is_in_snapshot(self, node: Node) -> bool:
        copies = (s.tree for of_directory in self.snapshots.values() for s in of_directory.values())
        return any(each.inode_id == node.inode_id for tree in copies for _, each in tree.walk())

    def under_snapshottable(self, path: str) -> bool:
        """Return whether the directory or one of its ancestors may have snapshots."""
        parts = path.strip("/").split("/")
        above = ["/" + "/".join(parts[:count]) for count in range(len(parts) + 1)]
        return any(self.node(each).inode_id in self.snapshots for each in dict.fromkeys(above) if self.find(each))

    def now(self) -> int:
        self.clock += 1
        return self.clock

    def new_block(self, num_bytes: int) -> Block:
        self.block_count += 1
        self.stamp += 1
        return Block(self.block_count, num_bytes, self.stamp)

    def can_shorten(self, node: Node) -> bool:
        """Return whether a file may be truncated: Hadoop 2.7 forgets the blocks of files renamed out of a snapshot."""
        return self.hadoop3 or not node.moved

    def can_join(self) -> bool:
        """Return whether files may be joined: with snapshots, Hadoop 2.7 keeps a created name without an inode, and
        stops.
        """
        return self.hadoop3 or not any(self.snapshots.values())

    # ---- steps ---------------------------------------------------------------------------------------------

    def apply(self, step: Step) -> list[EditOp]:
        """Return the operations of a step; empty if no operation is possible."""
        kind, first, second, third = step
        try:
            return self.MAKERS[kind % len(self.MAKERS)](self, first, second, third)
        except NothingFitsError:
            return []

    def _somewhere(self, first: int, second: int) -> str:
        return f"{pick(self.directories(), first).rstrip('/')}/{pick(NAMES, second)}"

    def _any_path(self, first: int) -> str:
        return pick(sorted(self.trees()), first)

    def make_mkdir(self, first: int, second: int, third: int) -> list[EditOp]:
        path = self._somewhere(first, second)
        if self.find(path) is not None or path.count("/") > 4:
            return []
        self.last_inode_id += 1
        mode = 0o700 | third % 64
        self.put(path, Node(self.last_inode_id, mode=mode, children={}))
        return [mkdir(path, self.last_inode_id, self.now(), permissions=PermissionStatus("hdfs", "g", mode))]

    def make_open(self, first: int, second: int, third: int) -> list[EditOp]:
        path = self._somewhere(first, second)
        present = self.find(path)
        if present is not None and (present.children is not None or present.is_link or third % 2):
            return []
        if present is not None:
            self.take(path)
        self.last_inode_id += 1
        node = Node(self.last_inode_id, mode=0o644, is_open=True, mtime=self.now())
        self.put(path, node)
        return [add(path, node.inode_id, node.mtime, overwrite=present is not None)]

    def make_create(self, first: int, second: int, third: int) -> list[EditOp]:
        path = self._somewhere(first, second)
        opened = self.make_open(first, second, third)
        if not opened:
            return []
        made = list(opened)
        for number in range(third % 3):
            made += self._add_block(path, BLOCK_SIZE - number)
        return [*made, *self._close(path)]

    def _add_block(self, path: str, num_bytes: int) -> list[EditOp]:
        node = self.node(path)
        block = self.new_block(num_bytes)
        made = ops.AddBlockOp(path=path, blocks=(*node.blocks[-1:], block._replace(num_bytes=0)))
        node.blocks.append(block)
        return [made]

    def _close(self, path: str) -> list[EditOp]:
        node = self.node(path)
        node.is_open, node.mtime = False, self.now()
        return [close(path, node.mtime, blocks=tuple(node.blocks))]

    def make_close(self, first: int, second: int, _: int) -> list[EditOp]:
        path = pick([path for path in self.files() if self.node(path).is_open], first)
        return [*(self._add_block(path, 50) if second % 2 else []), *self._close(path)]

    def _closed_file(self, number: int) -> str:
        return pick([path for path in self.files() if not self.node(path).is_open], number)

    def make_append(self, first: int, second: int, _: int) -> list[EditOp]:
        path = self._closed_file(first)
        node = self.node(path)
        node.is_open = True
        new_block = second % 2 == 1
        appended = ops.AppendOp(path=path, client_name="client", client_machine="host", new_block=new_block)
        last = node.blocks[-1] if node.blocks else None
        if last is None or new_block or last.num_bytes >= BLOCK_SIZE:
            return [appended, *self._add_block(path, 1 + second % 100), *self._close(path)]
        self.stamp += 1
        node.blocks[-1] = Block(last.block_id, last.num_bytes + 1, self.stamp)
        return [appended, *self._close(path)]

    def make_truncate(self, first: int, second: int, _: int) -> list[EditOp]:
        path = self._closed_file(first)
        if not self.node(path).length or not self.can_shorten(self.node(path)):
            return []
        node = self.node(path)
        wanted = second % node.length
        whole = [sum(block.num_bytes for block in node.blocks[:count]) for count in range(len(node.blocks) + 1)]
        kept = next(count for count, length in enumerate(whole) if length >= wanted)
        made = ops.TruncateOp(src=path, client_name="client", client_machine="host", new_length=wanted, timestamp=0)
        made.timestamp = node.mtime = self.now()
        last = node.blocks[kept - 1] if kept else None
        node.blocks = node.blocks[:kept]
        if whole[kept] == wanted:
            return [made]
        assert last is not None
        length = last.num_bytes - (whole[kept] - wanted)
        if self.is_in_snapshot(node):
            fresh = self.new_block(0)
            made.truncate_block = fresh
            node.blocks[-1] = fresh._replace(num_bytes=length)
        else:
            self.stamp += 1
            made.truncate_block = last._replace(genstamp=self.stamp)
            node.blocks[-1] = Block(last.block_id, length, self.stamp)
        return [made, *self._close(path)]

    def make_concat(self, first: int, _: int, __: int) -> list[EditOp]:
        target = self._closed_file(first)
        folder = target.rpartition("/")[0]
        sources = [
            path
            for path in self.files()
            if path.rpartition("/")[0] == folder
            and path != target
            and not self.node(path).is_open
            and self.node(path).blocks
            and not self.node(path).moved
            and not self.is_in_snapshot(self.node(path))
        ]
        if not sources or not self.node(target).blocks or not self.can_join():
            return []
        node = self.node(target)
        for path in sources:
            node.blocks += self.take(path).blocks
        node.mtime = self.now()
        return [ops.ConcatDeleteOp(trg=target, srcs=tuple(sources), timestamp=node.mtime)]

    def make_delete(self, first: int, _: int, __: int) -> list[EditOp]:
        path = self._any_path(first)
        if path == "/" or self.has_snapshots(self.node(path)):
            return []
        self.take(path)
        return [delete(path, self.now())]

    def make_rename(self, first: int, second: int, third: int) -> list[EditOp]:
        src, dst = self._any_path(first), self._somewhere(second, third)
        if src == "/" or f"{dst}/".startswith(f"{src}/"):
            return []
        source, target = self.node(src), self.find(dst)
        if self.has_snapshots(source) or (self._marked(source) and self.under_snapshottable(dst.rpartition("/")[0])):
            return []
        if target is not None:
            kinds_differ = (target.children is None) != (source.children is None)
            if kinds_differ or target.children or self.has_snapshots(target):
                return []
            self.take(dst)
        if any(node.moved for _, node in source.walk() if node is not source):
            self.may_leave_more = True
        self.parent(src).pop(src.rpartition("/")[2])
        self.put(dst, source)
        source.moved = True
        return [rename(src, dst, self.now(), overwrite=target is not None or first % 2 == 1)]

    def _marked(self, node: Node) -> bool:
        return any(each.inode_id in self.snapshots for _, each in node.walk())

    def make_set_permissions(self, first: int, second: int, _: int) -> list[EditOp]:
        path, mode = self._any_path(first), 0o700 | second % 64
        self.node(path).mode = mode
        return [set_permissions(path, mode)]

    def make_set_owner(self, first: int, second: int, _: int) -> list[EditOp]:
        path, user = self._any_path(first), pick(("u1", "u2", "hdfs"), second)
        self.node(path).user = user
        return [ops.SetOwnerOp(src=path, username=user)]

    def make_times(self, first: int, second: int, _: int) -> list[EditOp]:
        path, mtime = self._any_path(first), second
        self.node(path).mtime = mtime
        return [times(path, mtime, self.now())]

    def make_set_replication(self, first: int, second: int, _: int) -> list[EditOp]:
        path = pick(self.files(), first)
        self.node(path).replication = 1 + second % 9
        return [ops.SetReplicationOp(path=path, replication=1 + second % 9)]

    def make_set_xattr(self, first: int, second: int, third: int) -> list[EditOp]:
        path, name, value = self._any_path(first), pick(("x", "y"), second), bytes([third % 256])
        self.node(path).xattrs[name] = value
        return [ops.SetXAttrOp(src=path, xattrs=(XAttr(0, name, value),))]

    def make_remove_xattr(self, first: int, second: int, _: int) -> list[EditOp]:
        path, name = self._any_path(first), pick(("x", "y"), second)
        self.node(path).xattrs.pop(name, None)
        return [ops.RemoveXAttrOp(src=path, xattrs=(XAttr(0, name, None),))]

    def make_quota(self, first: int, second: int, third: int) -> list[EditOp]:
        path = pick([path for path in self.directories() if path != "/"], first)
        quotas = pick((-1, 7, 100), second), pick((-1, 1 << 40), third)
        self.node(path).quotas = quotas
        return [ops.SetQuotaOp(src=path, ns_quota=quotas[0], ds_quota=quotas[1])]

    def make_allow(self, first: int, _: int, __: int) -> list[EditOp]:
        path = pick(self.directories(), first)
        node = self.node(path)
        if self.under_snapshottable(path) or self._marked(node):
            return []
        self.snapshots[node.inode_id] = {}
        return [ops.AllowSnapshotOp(snapshot_root=path)]

    def _snapshottable(self, number: int, *, with_snapshots: bool) -> str:
        return pick(
            [
                path
                for path in self.directories()
                if self.node(path).inode_id in self.snapshots
                and bool(self.snapshots[self.node(path).inode_id]) >= with_snapshots
            ],
            number,
        )

    def make_disallow(self, first: int, _: int, __: int) -> list[EditOp]:
        path = self._snapshottable(first, with_snapshots=False)
        if self.snapshots[self.node(path).inode_id]:
            return []
        del self.snapshots[self.node(path).inode_id]
        return [ops.DisallowSnapshotOp(snapshot_root=path)]

    def make_create_snapshot(self, first: int, second: int, _: int) -> list[EditOp]:
        path, name = self._snapshottable(first, with_snapshots=False), pick(SNAPSHOT_NAMES, second)
        if name in self.snapshots[self.node(path).inode_id]:
            return []
        node = self.node(path)
        self.snapshots[node.inode_id][name] = Snapshot(self.snapshot_count, copy.deepcopy(node))
        self.snapshot_count += 1
        return [ops.CreateSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=self.now())]

    def make_delete_snapshot(self, first: int, second: int, _: int) -> list[EditOp]:
        path = self._snapshottable(first, with_snapshots=True)
        name = pick(sorted(self.snapshots[self.node(path).inode_id]), second)
        del self.snapshots[self.node(path).inode_id][name]
        return [ops.DeleteSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=self.now())]

    def make_rename_snapshot(self, first: int, second: int, third: int) -> list[EditOp]:
        path = self._snapshottable(first, with_snapshots=True)
        found = self.snapshots[self.node(path).inode_id]
        old, new = pick(sorted(found), second), pick(SNAPSHOT_NAMES, third)
        if new in found and new != old:
            return []
        found[new] = found.pop(old)
        return [
            ops.RenameSnapshotOp(snapshot_root=path, snapshot_old_name=old, snapshot_new_name=new, mtime=self.now())
        ]

    def make_link(self, first: int, second: int, third: int) -> list[EditOp]:
        path = self._somewhere(first, second)
        if self.find(path) is not None:
            return []
        self.last_inode_id += 1
        self.put(path, Node(self.last_inode_id, mode=0o777, is_link=True))
        owner = PermissionStatus("hdfs", "g", 0o777)
        now = self.now()
        return [
            ops.SymlinkOp(
                path=path, inode_id=self.last_inode_id, target=f"/t{third}", mtime=now, atime=now, permissions=owner
            )
        ]

    MAKERS: ClassVar[list[Callable[[SnapshotTwin, int, int, int], list[EditOp]]]] = [
        make_create_snapshot,
        make_create_snapshot,
        make_delete_snapshot,
        make_allow,
        make_create,
        make_create,
        make_rename,
        make_rename,
        make_rename,
        make_delete,
        make_mkdir,
        make_append,
        make_truncate,
        make_set_permissions,
        make_set_xattr,
        make_open,
        make_close,
        make_concat,
        make_set_owner,
        make_times,
        make_set_replication,
        make_remove_xattr,
        make_quota,
        make_rename_snapshot,
        make_disallow,
    ]


class LinkTwin(SnapshotTwin):
    """Translator that mostly makes, moves and deletes links, whose copies in snapshots Hadoop loses. A moved link
    receives an unused name, because an older copy of the link also receives the name.
    """

    def make_new_name(self, first: int, second: int, _: int) -> list[EditOp]:
        """Return a rename to a new name."""
        src, directory = self._any_path(first), pick(self.directories(), second)
        if src == "/" or f"{directory}/".startswith(f"{src}/") or self.has_snapshots(self.node(src)):
            return []
        if self._marked(self.node(src)) and self.under_snapshottable(directory):
            return []
        node = self.parent(src).pop(src.rpartition("/")[2])
        dst = f"{directory.rstrip('/')}/n{self.now()}"
        self.put(dst, node)
        node.moved = True
        return [rename(src, dst, self.clock)]

    MAKERS: ClassVar[list[Callable[[SnapshotTwin, int, int, int], list[EditOp]]]] = [
        SnapshotTwin.make_create_snapshot,
        SnapshotTwin.make_create_snapshot,
        SnapshotTwin.make_delete_snapshot,
        SnapshotTwin.make_allow,
        SnapshotTwin.make_link,
        SnapshotTwin.make_link,
        SnapshotTwin.make_link,
        make_new_name,  # type: ignore[list-item]
        make_new_name,  # type: ignore[list-item]
        make_new_name,  # type: ignore[list-item]
        SnapshotTwin.make_delete,
        SnapshotTwin.make_delete,
        SnapshotTwin.make_mkdir,
        SnapshotTwin.make_create,
    ]
