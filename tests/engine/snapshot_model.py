"""Random operations on snapshots, replayed step by step together with the twin."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from journal.ops import Block
from tests.engine.image_builder import ROOT, ImageBuilder
from tests.engine.snapshot_reader import Seen, SnapshotReader
from tests.engine.snapshot_twin import Node, SnapshotTwin, Step

STEPS = st.lists(st.tuples(st.integers(0, 255), *[st.integers(0, 255)] * 3), min_size=5, max_size=70)


# Most examples begin with a snapshot; without a snapshot, there is little to test.
BEGINNINGS: st.SearchStrategy[list[Step]] = st.sampled_from(
    [[(3, 1, 0, 0), (0, 0, 0, 0)], [(3, 1, 0, 0), (0, 0, 3, 0), (3, 3, 0, 0), (0, 1, 2, 0)], [(3, 0, 0, 0)], []]
)


def base(layout: int) -> tuple[ImageBuilder, SnapshotTwin]:
    """Return an image of a few directories and files, and its twin."""
    builder = ImageBuilder(layout)
    twin = SnapshotTwin(Node(ROOT, children={}), ROOT, hadoop3=builder.erasure_coding)
    for path in ("/a", "/a/b", "/b", "/a/b/ü"):
        twin.put(path, Node(builder.directory(path).id, children={}))
    for number, path in enumerate(("/a/Z", "/a/b/Z", "/a/b/ü/a", "/b/Z")):
        blocks = [Block(100 + number, 128, 1001), Block(200 + number, 50, 1001)]
        twin.put(path, Node(builder.file(path, blocks=blocks).id, mtime=1000, blocks=blocks))
    twin.last_inode_id = builder.next_id - 1
    return builder, twin


def check(reader: SnapshotReader, twin: SnapshotTwin) -> None:
    reader.check()
    compare(twin.root, reader.tree(), present=True)
    assert set(reader.snapshottable) == set(twin.snapshots)
    expected = {(owner, name): kept for owner, found in twin.snapshots.items() for name, kept in found.items()}
    assert {key: found.snapshotId for key, found in reader.snapshots.items()} == {
        key: kept.id for key, kept in expected.items()
    }
    for (owner, _), kept in expected.items():
        compare(kept.tree, reader.tree(owner, kept.id), present=False)
    assert reader.reachable() == set(reader.saved.inodes)
    present = {node.inode_id: path for path, node in twin.root.walk()}
    leased = {node.inode_id: path for path, node in twin.root.walk() if node.is_open}
    # Hadoop 3's loader also gives leases to open files that exist only in snapshots.
    found = {inode_id: path for inode_id, path in reader.saved.leases().items() if inode_id in present}
    assert (found if twin.hadoop3 else reader.saved.leases()) == leased
    if twin.hadoop3 and not twin.may_leave_more:
        # When a directory that was renamed out of a snapshot is deleted, Hadoop 2.7 loses inodes added since the
        # rename.
        trees = [twin.root, *(kept.tree for kept in expected.values())]
        assert set(reader.saved.inodes) == {node.inode_id for tree in trees for _, node in tree.walk()}


def compare(expected: Node, found: dict[str, Seen], *, present: bool) -> None:
    wanted = {path: node.seen(present=present) for path, node in expected.walk()}
    for path, node in wanted.items():
        if path in found and node.quotas is None and node.length is None:
            found[path] = replace(found[path], mtime=None, length=None, blocks=())
    # The root of the file system has its own quotas, and Hadoop 2.7 stores no quotas for the root of a snapshot.
    wanted["/"], found["/"] = replace(wanted["/"], quotas=None), replace(found["/"], quotas=None)
    assert found == wanted
