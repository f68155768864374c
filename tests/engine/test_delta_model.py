"""The namespace under random operations, compared with a naive twin that stores the whole tree in dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from journal import ops
from journal.ops import Block, EditOp
from tests.depth import examples
from tests.engine.image_builder import (
    BASE_TXID,
    LAYOUTS,
    ROOT,
    UINT64,
    UNLIMITED,
    ImageBuilder,
    Saved,
    merge_bytes,
    store,
)
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times


@dataclass
class Node:
    """An inode of the twin; directories have `children`."""

    inode_id: int
    mtime: int
    mode: int
    children: dict[str, Node] | None = None
    atime: int = 0
    replication: int = 3
    is_open: bool = False
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    quota: tuple[int, int] = (-1, -1)
    user: str = "hdfs"

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        yield path or "/", self
        for name, child in (self.children or {}).items():
            yield from child.walk(f"{path}/{name}")


class Twin:
    """Replay onto a tree of dictionaries, as a NameNode applies each operation."""

    def __init__(self, root: Node, last_inode_id: int) -> None:
        self.root = root
        self.last_inode_id = last_inode_id

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.split("/")[1:] if path != "/" else ():
            node = (node.children or {}).get(name) if node is not None else None
        return node

    def parent(self, path: str) -> Node | None:
        return self.find(path.rpartition("/")[0] or "/")

    def new_id(self) -> int:
        self.last_inode_id += 1
        return self.last_inode_id

    def put(self, path: str, node: Node) -> None:
        parent = self.parent(path)
        assert parent is not None
        assert parent.children is not None
        parent.children[path.rpartition("/")[2]] = node
        parent.mtime = max(parent.mtime, node.mtime)

    def take(self, path: str, timestamp: int) -> Node:
        parent = self.parent(path)
        assert parent is not None
        assert parent.children is not None
        node = parent.children.pop(path.rpartition("/")[2])
        parent.mtime = max(parent.mtime, timestamp)
        return node

    def move(self, src: str, dst: str, timestamp: int) -> None:
        source, target = self.parent(src), self.parent(dst)
        assert source is not None
        assert target is not None
        node = self.take(src, 0)
        self.put(dst, node)
        for parent in (source, target):
            parent.mtime = max(parent.mtime, timestamp)


NAMES = ("a", "b", "c", "ü", "Z", "中")
TIMES = st.integers(1, 40)


class Workload:
    """Generator of operations that are possible on the twin; it applies them to the twin and yields them."""

    def __init__(self, draw: st.DrawFn, twin: Twin) -> None:
        self.draw = draw
        self.twin = twin

    def paths(self, *, files: bool = True, directories: bool = True) -> list[str]:
        return sorted(
            path for path, node in self.twin.root.walk() if (directories if node.children is not None else files)
        )

    def pick(self, paths: list[str]) -> str:
        return self.draw(st.sampled_from(paths))

    def somewhere(self) -> str:
        """Return a path in an existing directory; the path itself may be missing."""
        directory = self.pick(self.paths(files=False))
        return f"{directory.rstrip('/')}/{self.draw(st.sampled_from(NAMES))}"

    def draw_op(self) -> EditOp | None:
        kind = self.draw(st.sampled_from([*_MAKERS]))
        return _MAKERS[kind](self)

    # ---- one maker per operation; it returns None if no path fits ------------------------------------------

    def make_mkdir(self) -> EditOp:
        path, timestamp, mode = self.somewhere(), self.draw(TIMES), self.draw(st.integers(0, 0o1777))
        node = Node(self.twin.new_id(), timestamp, mode, {})
        if self.twin.find(path) is None:
            self.twin.put(path, node)
        return mkdir(path, node.inode_id, timestamp, permissions=ops.PermissionStatus("hdfs", "supergroup", mode))

    def make_create(self) -> EditOp | None:
        path, mtime, overwrite = self.somewhere(), self.draw(TIMES), self.draw(st.booleans())
        present = self.twin.find(path)
        if present is not None:
            if present.children is not None or not overwrite:
                return None
            self.twin.take(path, mtime)
        node = Node(self.twin.new_id(), mtime, 0o644, atime=mtime, is_open=True)
        self.twin.put(path, node)
        return add(path, node.inode_id, mtime, overwrite=overwrite)

    def make_add_block(self) -> EditOp | None:
        path = self.open_file()
        if path is None:
            return None
        node = self.node(path)
        block = (self.draw(st.integers(1, 1 << 40)), 0, 1001)
        given = [Block(*block)]
        if node.blocks:
            node.blocks[-1] = (node.blocks[-1][0], 128, node.blocks[-1][2])
            given.insert(0, Block(*node.blocks[-1]))
        node.blocks.append(block)
        return ops.AddBlockOp(path=path, blocks=tuple(given))

    def make_close(self) -> EditOp | None:
        path = self.open_file()
        if path is None:
            return None
        node = self.node(path)
        node.blocks = [(number, 7, stamp) for number, _, stamp in node.blocks]
        node.is_open, node.mtime, node.atime = False, self.draw(TIMES), self.draw(TIMES)
        return close(path, node.mtime, atime=node.atime, blocks=tuple(Block(*b) for b in node.blocks))

    def make_delete(self) -> EditOp:
        path, timestamp = self.somewhere(), self.draw(TIMES)
        if self.twin.find(path) is not None:
            self.twin.take(path, timestamp)
        return delete(path, timestamp)

    def make_rename(self) -> EditOp | None:
        src, dst, timestamp = self.somewhere(), self.somewhere(), self.draw(TIMES)
        source, target = self.twin.find(src), self.twin.find(dst)
        if source is None or f"{dst}/".startswith(f"{src}/"):
            return None
        if target is not None:
            if (target.children is None) != (source.children is None) or target.children:
                return None
            self.twin.take(dst, 0)
        self.twin.move(src, dst, timestamp)
        return rename(src, dst, timestamp, overwrite=target is not None or self.draw(st.booleans()))

    def make_rename_old(self) -> EditOp:
        src, dst, timestamp = (
            self.somewhere(),
            self.draw(st.sampled_from([self.somewhere(), "/none/x"])),
            self.draw(TIMES),
        )
        target = self.twin.find(dst)
        real = (
            f"{dst.rstrip('/')}/{src.rpartition('/')[2]}" if target is not None and target.children is not None else dst
        )
        fits = self.twin.find(src) is not None and self.twin.find(real) is None and self.twin.parent(real) is not None
        if fits and not f"{real}/".startswith(f"{src}/"):
            self.twin.move(src, real, timestamp)
        return rename_old(src, dst, timestamp)

    def make_set_permissions(self) -> EditOp:
        path, mode = self.pick(self.paths()), self.draw(st.integers(0, 0o1777))
        self.node(path).mode = mode
        return set_permissions(path, mode)

    def make_set_owner(self) -> EditOp:
        path, user = self.pick(self.paths()), self.draw(st.sampled_from(["u1", "u2", "hdfs"]))
        self.node(path).user = user
        return ops.SetOwnerOp(src=path, username=user)

    def make_set_replication(self) -> EditOp | None:
        files = self.paths(directories=False)
        if not files:
            return None
        path, replication = self.pick(files), self.draw(st.integers(1, 9))
        self.node(path).replication = replication
        return ops.SetReplicationOp(path=path, replication=replication)

    def make_times(self) -> EditOp:
        path, mtime, atime = self.pick(self.paths()), self.draw(TIMES), self.draw(st.just(-1) | TIMES)
        node = self.node(path)
        node.mtime = mtime
        if atime >= 0:
            node.atime = atime
        return times(path, mtime, atime)

    def make_quota(self) -> EditOp | None:
        directories = [path for path in self.paths(files=False) if path != "/"]
        if not directories:
            return None
        values = st.sampled_from([-1, UNLIMITED, 0, 5])
        path, wanted = self.pick(directories), (self.draw(values), self.draw(values))
        node = self.node(path)
        node.quota = tuple(o if w == UNLIMITED else w for w, o in zip(wanted, node.quota, strict=True))  # type: ignore[assignment]
        return ops.SetQuotaOp(src=path, ns_quota=wanted[0], ds_quota=wanted[1])

    def node(self, path: str) -> Node:
        found = self.twin.find(path)
        assert found is not None
        return found

    def open_file(self) -> str | None:
        found = [path for path in self.paths(directories=False) if self.node(path).is_open]
        return self.pick(found) if found else None


_MAKERS = {name.removeprefix("make_"): getattr(Workload, name) for name in dir(Workload) if name.startswith("make_")}


def base(layout: int) -> tuple[ImageBuilder, Twin]:
    """Return an image of a few directories and files, and its twin."""
    builder = ImageBuilder(layout)
    root = Node(ROOT, 1000, 0o755, {})
    builder.inodes["/"].directory.modificationTime = root.mtime = 5
    twin = Twin(root, ROOT)
    for path in ("/a", "/a/b", "/a/b/c", "/b", "/ü"):
        inode = builder.directory(path, mtime=5)
        twin.put(path, Node(inode.id, 5, 0o755, {}))
    for path in ("/a/Z", "/a/b/a", "/a/b/c/a", "/a/b/c/ü", "/b/中", "/c"):
        inode = builder.file(path, blocks=[(len(path), 9, 1001)])
        twin.put(path, Node(inode.id, 1000, 0o755, None, 1000, blocks=[(len(path), 9, 1001)]))
    for path, node in twin.root.walk():
        if node.children is not None:
            node.mtime = builder.inodes[path].directory.modificationTime
    inode = builder.file("/a/b/c/b", open_by="client")
    twin.put("/a/b/c/b", Node(inode.id, 1000, 0o755, None, 1000, is_open=True))
    for path, node in twin.root.walk():
        if node.children is not None:
            builder.inodes[path].directory.modificationTime = node.mtime
    twin.last_inode_id = builder.next_id - 1
    return builder, twin


def check(image: Saved, twin: Twin, txid: int) -> None:
    expected = dict(twin.root.walk())
    assert set(image.paths) == set(expected)
    assert image.header.lastInodeId == twin.last_inode_id
    assert image.info.transactionId == txid
    for path, node in expected.items():
        check_inode(image, path, node)
    leased = {node.inode_id: path for path, node in expected.items() if node.is_open}
    assert image.leases() == leased


def check_inode(image: Saved, path: str, node: Node) -> None:
    inode = image[path]
    assert inode.id == node.inode_id, path
    if node.children is not None:
        directory = inode.directory
        assert directory.modificationTime == node.mtime, path
        status = image.status(directory.permission)
        quota = tuple(UINT64 if value < 0 else value for value in node.quota)
        assert path == "/" or (directory.nsQuota, directory.dsQuota) == quota
    else:
        file = inode.file
        assert (file.modificationTime, file.accessTime, file.replication) == (node.mtime, node.atime, node.replication)
        assert file.HasField("fileUC") == node.is_open
        assert image.blocks(path) == node.blocks
        status = image.status(file.permission)
    assert (status.user, status.mode) == (node.user, node.mode), path


@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@examples(120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_random_operations_produce_the_tree_of_the_twin(layout: int, data: st.DataObject) -> None:
    """Two merges, the second of which begins with the image of the first."""
    builder, twin = base(layout)
    if data.draw(st.booleans(), "records in no order"):
        builder.order = lambda inode: inode.id * 7919 % 1009
        builder.unsorted = True
    with TemporaryDirectory() as folder:
        source, txid = builder.save(Path(folder)), BASE_TXID
        for _ in range(2):
            given_ops = data.draw(workloads(twin), "operations")
            image = merge_bytes(source, given_ops)
            txid += len(given_ops)
            saved = Saved(image)
            check(saved, twin, txid)
            assert saved.unsorted <= Saved(source.read_bytes()).unsorted
            source = store(Path(folder) / str(txid), image, txid)


@st.composite
def workloads(draw: st.DrawFn, twin: Twin) -> list[EditOp]:
    workload = Workload(draw, twin)
    drawn = [workload.draw_op() for _ in range(draw(st.integers(1, 25)))]
    return [op for op in drawn if op is not None]
