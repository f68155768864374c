"""Symlinks in snapshots, which Hadoop loses: every image is valid, and snapshots keep their inodes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ReplayError
from engine.healing import HealingMode
from engine.merge import load_image
from engine.replay import replay
from engine.settings import ReplayRules
from image_format.reader import ImageFile
from image_tools.verify.checker import verify_image
from journal import ops
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID, LAYOUTS, OWNER, ROOT, ImageBuilder, Saved, numbered, store
from tests.engine.op_makers import LATER, rename
from tests.engine.snapshot_reader import SnapshotReader
from tests.engine.snapshot_support import CURRENT, HEAL, NEW, Setting, allow, create, remove
from tests.engine.snapshot_twin import LinkTwin, Node, Step

STEPS = st.lists(st.tuples(st.integers(0, 255), *[st.integers(0, 255)] * 3), min_size=5, max_size=60)
BEGINNINGS: st.SearchStrategy[list[Step]] = st.sampled_from(
    [[(3, 1, 0, 0), (0, 0, 0, 0)], [(3, 1, 0, 0), (4, 1, 0, 0), (0, 0, 3, 0), (4, 2, 0, 0), (0, 1, 2, 0)]]
)


def base(layout: int) -> tuple[ImageBuilder, LinkTwin]:
    """Return an image of a few directories and links, and its twin."""
    builder = ImageBuilder(layout)
    twin = LinkTwin(Node(ROOT, children={}), ROOT, hadoop3=builder.erasure_coding)
    for path in ("/a", "/a/b", "/b"):
        twin.put(path, Node(builder.directory(path).id, children={}))
    for path in ("/a/Z", "/a/b/Z"):
        mode = builder.symlink(path, "/t").symlink.permission & 0o7777
        twin.put(path, Node(builder.inodes[path].id, mode=mode, is_link=True))
    twin.last_inode_id = builder.next_id - 1
    return builder, twin


def check(image: Path, twin: LinkTwin) -> None:
    # NS_INFO is skipped because the twin allocates no block ids
    found = [each for each in verify_image(image).findings.listed if each.wants_repair and each.section != "NS_INFO"]
    assert found == []
    reader = SnapshotReader(Saved(image.read_bytes()))
    assert {path: seen.inode_id for path, seen in reader.tree().items()} == {
        path: node.inode_id for path, node in twin.root.walk()
    }
    # as in Hadoop's image, a snapshot may contain a link under its later name
    kept = [snapshot.tree for found in twin.snapshots.values() for snapshot in found.values()]
    assert {node.inode_id for tree in kept for _, node in tree.walk()} <= reader.reachable()


@pytest.mark.parametrize("layout", LAYOUTS)
@examples(40)
@given(beginning=BEGINNINGS, steps=STEPS, first_merge=st.integers(0, 60))
def test_every_symlink_is_kept_and_every_image_loads(
    layout: int, beginning: list[Step], steps: list[Step], first_merge: int
) -> None:
    builder, twin = base(layout)
    steps = [*beginning, *steps]
    txid = BASE_TXID
    with TemporaryDirectory() as folder:
        source = builder.save(Path(folder))
        for part in (steps[:first_merge], steps[first_merge:]):
            given_ops = [op for step in part for op in twin.apply(step)]
            with ImageFile.open(source) as image:
                loaded = load_image(image, ReplayRules(healing=HealingMode.HEAL))
                replay(loaded.namespace, numbered(given_ops, txid))
                out = bytearray()
                loaded.write(out.extend)
            txid += len(given_ops)
            source = store(Path(folder) / f"at {txid}", bytes(out), txid)
            check(source, twin)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_symlink_renamed_twice_has_two_names_in_snapshots(tmp_path: Path, layout: int) -> None:
    """A NameNode records the link itself as created, although its directory has a reference, and stops at the
    rename.
    """
    given = [allow(), create("s0"), rename("/s/l", "/s/m"), create("s1"), rename("/s/m", "/s/n")]
    setting = Setting(tmp_path, layout, HEAL)
    link = setting.builder.symlink("/s/l", "t").id
    found = setting.merged(*given)
    assert found.present()["/s/n"] == link
    assert link in found.at("s1").values()
    setting.rules = ReplayRules(healing=HealingMode.AS_HADOOP)
    with pytest.raises(ReplayError, match="inconsistent with its children at b'm'") as stopped:
        setting.merged(*given)
    assert stopped.value.txid == BASE_TXID + len(given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_symlink_that_existed_only_in_a_deleted_snapshot_leaves_no_entry(tmp_path: Path, layout: int) -> None:
    """The copy that the rename made goes to the older snapshot, which never contained the link."""
    link = ops.SymlinkOp(path="/s/d/l", inode_id=NEW, target="t", mtime=LATER, atime=LATER, permissions=OWNER)
    given = [allow(), create("s0"), link, create("s1"), rename("/s/d/l", "/z/m"), remove("s1")]
    found = Setting(tmp_path, layout, HEAL).merged(*given)
    assert found.present()["/z/m"] == NEW
    assert NEW not in found.at("s0").values()
    assert (found.created("/s/d", 0), found.deleted("/s/d", 0)) == ([], {})
    assert found.references() == [(NEW, "", CURRENT)]
