"""Reads of a warm namespace return the contents of its saved image, and leave no trace in the next image."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from checkpointer.merging.offline import plan_directory
from engine import live_content, live_inodes, past_diffs
from engine.errors import NamespaceBusyError
from engine.merge import merge
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode, NamespaceBrowser, SubtreeTotals
from image_tools.permission_checker import ReadRefusedError
from journal.ops import AddBlockOp, AllowSnapshotOp, Block, CreateSnapshotOp, DeleteSnapshotOp, EditOp, SetReplicationOp
from journal.segment_file import SegmentTransactions
from tests.engine.image_builder import BASE_TXID, ImageBuilder, numbered
from tests.engine.op_makers import add, close, delete, mkdir, rename
from tests.engine.snapshot_support import allow, create
from tests.recorded_cases import ALL_CASES, RECORDED, Case, same_layout

SMALL = {"acl-xattr", "snapshots-rename-references"}


# Hadoop 2 takes snapshot times from its clock during replay
CASES = [case for case in ALL_CASES if same_layout(case) and "hadoop-2" not in case.id]


class Seen(NamedTuple):
    kind: int
    inode_id: int
    owner: tuple[str | None, str | None, int]
    mtime: int
    length: int
    policy: int
    coding: str
    features: tuple[bytes, bytes]
    children: int


def seen(browser: NamespaceBrowser, place: LocatedInode) -> Seen:
    inode = place.inode
    body = inode.file if inode.HasField("file") else inode.directory
    packed = inode.file.permission or inode.directory.permission or inode.symlink.permission
    # an image with its own string table has other serials
    acl = [browser.names.acl_entry(entry) for entry in body.acl.entries]
    xattrs = [(browser.names.xattr(each.name), each.value) for each in body.xAttrs.xAttrs]
    return Seen(
        inode.type,
        inode.id,
        tuple(browser.names.owner(packed)),
        inode.file.modificationTime or inode.directory.modificationTime or inode.symlink.modificationTime,
        sum(block.numBytes for block in inode.file.blocks),
        place.policy,
        place.coding,
        (repr(acl).encode(), repr(xattrs).encode()),
        browser.child_count(place),
    )


def walk(browser: NamespaceBrowser, path: bytes, place: LocatedInode) -> Iterator[tuple[bytes, Seen]]:
    """Yield all inodes below a place, and in its snapshots."""
    yield path, seen(browser, place)
    for root in browser.snapshot_folder(place).snapshots or () if place.snapshot is None else ():
        yield from walk(browser, path + b"/.snapshot/" + root.inode.name, root)
    if not place.inode.HasField("directory"):
        return
    behind, listed = b"", []
    while True:
        page = browser.page(place, behind, 3)
        listed += page.entries
        if not page.remaining:
            break
        behind = page.entries[-1].inode.name
    assert len(listed) == browser.child_count(place)
    for child in listed:
        assert browser.child(place, child.inode.name) == child
        assert place.snapshot is not None or browser.chain(child.inode.id)[-1] == child
        yield from walk(browser, path + b"/" + child.inode.name, child)


def tree(browser: NamespaceBrowser) -> dict[bytes, Seen]:
    """Return all inodes by path; for inodes in snapshots, only attributes that are equal in memory and in an image.

    In snapshots, an image shows a renamed symlink under its current name and lacks some symlinks (their directories
    count fewer children). For some directories, an image shows the attributes of another directory. All other children
    have their own paths in the result.
    """
    root = browser.root()
    assert root is not None
    found = dict(walk(browser, b"", root))
    for path, each in list(found.items()):
        if b"/.snapshot/" in path and each.kind == pb.INode.SYMLINK:
            del found[path]
        elif b"/.snapshot/" in path and each.kind == pb.INode.DIRECTORY:
            found[path] = each._replace(owner=(None, None, 0), mtime=0, features=(b"", b""), children=0)
    return found


def tree_of(image: Path) -> dict[bytes, Seen]:
    with ImageFile.open(image, verify_md5=False) as opened:
        return tree(ImageBrowser(opened))


def case_ops(case: Case, folder: Path) -> list[EditOp]:
    case.copy_to(folder)
    plan = plan_directory(folder)
    return list(SegmentTransactions(plan.segments, plan.image_txid + 1))


def parts(ops: Sequence[EditOp]) -> list[Sequence[EditOp]]:
    cuts = [0, len(ops) // 3, 2 * len(ops) // 3, len(ops)]
    return [ops[first:behind] for first, behind in itertools.pairwise(cuts)]


@pytest.mark.recorded
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id, marks=() if case.path.name in SMALL else pytest.mark.deep) for case in CASES],
)
@pytest.mark.parameters(2)
def test_reads_equal_those_of_an_image_at_the_same_txid(case: Case, tmp_path: Path) -> None:
    ops = case_ops(case, tmp_path / "name")
    with WarmNamespace(MergeSettings()) as warm:
        warm.load(case.image("before"))
        for number, part in enumerate(parts(ops)):
            warm.apply(part)
            with warm.reading(warm.last_txid, 0) as browser:
                found = tree(browser)
                root = browser.root()
                assert root is not None
                content = browser.content(root)
            (folder := tmp_path / str(number)).mkdir()
            taken = [*ops[: ops.index(part[-1]) + 1]] if part else []
            if not taken:
                continue
            (saved,) = merge(case.image("before"), taken, [folder]).saved.paths
            assert found == tree_of(saved)
            present = [each for path, each in found.items() if b"/.snapshot/" not in path]
            files = sum(each.kind != pb.INode.DIRECTORY for each in present)
            assert content.totals.files - content.in_snapshots.files == files
            assert content.totals.length - content.in_snapshots.length == sum(each.length for each in present)
        (folder := tmp_path / "warm").mkdir()
        # reading has changed nothing
        assert warm.save([folder]).saved.paths[0].read_bytes() == saved.read_bytes()


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[WarmNamespace]:
    (folder := tmp_path / "base").mkdir()
    with WarmNamespace() as namespace:
        namespace.load(ImageBuilder(-67).save(folder))
        yield namespace


def play(warm: WarmNamespace, *ops: EditOp) -> None:
    warm.apply(list(numbered(ops, warm.last_txid)))


@pytest.mark.recorded
def test_reads_do_not_load_inodes(warm: WarmNamespace) -> None:
    warm.load(Case(RECORDED / "hadoop-3.5.0" / "basic-files").image("after"))
    rows = warm.namespace.table.count
    with warm.reading(0, 0) as browser:
        assert len(tree(browser)) > 2
        root = browser.root()
        assert root is not None
        browser.content(root)
    assert warm.namespace.table.count == rows


def test_a_reader_waits_for_its_transaction(warm: WarmNamespace) -> None:
    with pytest.raises(NamespaceBusyError), warm.reading(BASE_TXID + 1, 0):
        pass
    found: list[int] = []

    def read() -> None:
        with warm.reading(BASE_TXID + 1, 600) as browser:
            found.append(browser.txid)

    reader = threading.Thread(target=read)
    reader.start()
    play(warm, mkdir("/new", 20001))
    reader.join(600)
    assert found == [BASE_TXID + 1]


def test_read_without_an_image_is_refused(warm: WarmNamespace) -> None:
    warm.close()
    with pytest.raises(NamespaceBusyError), warm.reading(0, 0):
        pass


def test_walk_continues_after_edits_during_a_pause(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a directory is deleted during a pause, the rest of the directory is not counted."""
    for name, value in (("BATCH_SECONDS", 0), ("_MAX_DIRECTORIES", 1), ("_MAX_INODES", 1)):
        monkeypatch.setattr(live_content, name, value)
    play(warm, mkdir("/t", 20001), mkdir("/t/a", 20002), mkdir("/t/a/b", 20003), mkdir("/t/c", 20004))
    changes = [lambda: None, lambda: play(warm, delete("/t/a")), lambda: play(warm, rename("/t/c", "/t/d"))]
    with warm.reading(0, 0) as browser:
        monkeypatch.setattr(browser, "_pause", lambda: changes.pop(0)() if changes else None)
        place = browser.chain(20001)[-1]
        assert browser.content(place).totals.directories == 3
        assert not changes


@pytest.mark.parametrize("number", range(8))
def test_walk_continues_after_a_checkpoint_or_load(
    warm: WarmNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """After a checkpoint or a load at any pause, rows belong to other inodes; the old namespace is released first."""
    monkeypatch.setattr(live_content, "BATCH_SECONDS", 0)
    for name in ("_BATCH", "_MAX_DIRECTORIES", "_MAX_INODES"):
        monkeypatch.setattr(live_content, name, 1)
    (folder := tmp_path / "saved").mkdir()
    play(warm, *[mkdir(f"/z{i}", 19000 + i) for i in range(9)], mkdir("/t", 20001))
    play(warm, *[mkdir(f"/t/d{i}", 20100 + i) for i in range(9)], *[add(f"/t/f{i}", 20200 + i) for i in range(5)])
    play(warm, *[mkdir(f"/t/d{i}/e", 20300 + i) for i in range(9)])
    warm.save([folder])
    play(warm, *[mkdir(f"/t/new{i}", 20400 + i) for i in range(3)], delete("/t/d4/e"))
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == number + 1:
            namespace = weakref.ref(warm.namespace)
            if number % 2:
                play(warm, mkdir("/z0/x", 20500))
            else:
                warm.save([folder])
                warm.rebase()
                gc.collect()
                assert namespace() is None

    with warm.reading(0, 0) as browser:
        monkeypatch.setattr(browser, "_pause", pause)
        totals = browser.content(browser.chain(20001)[-1]).totals
    assert (totals.files, totals.directories) == (5, 21)
    assert pauses > 8


def test_reader_does_not_retain_the_namespace(warm: WarmNamespace, tmp_path: Path) -> None:
    with warm.reading(0, 0) as kept:
        assert kept.root() is not None
    namespace = weakref.ref(warm.namespace)
    warm.close()
    gc.collect()
    assert namespace() is None
    assert not hasattr(kept, "index")


def test_snapshots_are_read_without_loading_their_diffs(warm: WarmNamespace, tmp_path: Path) -> None:
    play(warm, mkdir("/t", 20001), AllowSnapshotOp(snapshot_root="/t"), mkdir("/t/d", 20002), mkdir("/t/d/e", 20003))
    play(warm, CreateSnapshotOp(snapshot_root="/t", snapshot_name="s"), delete("/t/d/e"), mkdir("/t/d/g", 20004))
    (folder := tmp_path / "saved").mkdir()
    for number in range(2):
        before = loaded(warm)
        with warm.reading(0, 0) as browser:
            place = browser.chain(20001)[-1]
            (snapshot,) = browser.snapshot_folder(place).snapshots or ()
            directory = browser.child(snapshot, b"d")
            assert directory is not None
            assert [each.inode.name for each in browser.page(directory, b"", 9).entries] == [b"e"]
            assert browser.content(snapshot).totals == SubtreeTotals(0, 3, 0, 0)
            found = browser.content(place)
            assert (found.totals, found.in_snapshots) == (SubtreeTotals(0, 4, 0, 0), SubtreeTotals(0, 1, 0, 0))
        assert loaded(warm) == before
        if not number:
            # in the second pass, the diffs are read from an image
            warm.save([folder])
            warm.rebase()
    assert before == (1, 0, 0)


def test_file_uses_the_space_of_its_highest_replication_in_a_snapshot(warm: WarmNamespace) -> None:
    block = Block(1 << 30, 10, 1001)
    play(warm, mkdir("/s", 20001), add("/s/f", 20002), AddBlockOp(path="/s/f", blocks=(block,)))
    play(warm, close("/s/f", blocks=(block,)), allow("/s"), create("s0", "/s"))
    play(warm, SetReplicationOp(path="/s/f", replication=2))
    with warm.reading(0, 0) as browser:
        assert browser.content(browser.chain(20002)[-1]).totals == SubtreeTotals(1, 0, 10, 30)


def test_walk_is_refused_while_a_snapshot_is_deleted(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_content, "BATCH_SECONDS", 0)
    play(warm, mkdir("/t", 20001), AllowSnapshotOp(snapshot_root="/t"), mkdir("/t/d", 20002))
    play(warm, CreateSnapshotOp(snapshot_root="/t", snapshot_name="s"), delete("/t/d"))
    changes = [lambda: None, lambda: play(warm, DeleteSnapshotOp(snapshot_root="/t", snapshot_name="s"))]
    with warm.reading(0, 0) as browser:
        monkeypatch.setattr(browser, "_pause", lambda: changes.pop(0)() if changes else None)
        with pytest.raises(ReadRefusedError, match="while a snapshot is deleted"):
            browser.content(browser.chain(20001)[-1])


def test_read_is_refused_after_too_many_changes_since_a_snapshot(
    warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_diffs, "_MAX_ENTRIES", 10)
    play(warm, mkdir("/t", 20001), AllowSnapshotOp(snapshot_root="/t"))
    play(warm, CreateSnapshotOp(snapshot_root="/t", snapshot_name="s"))
    for number in range(2):
        with warm.reading(0, 0) as browser:
            (snapshot,) = browser.snapshot_folder(browser.chain(20001)[-1]).snapshots or ()
            if number:
                with pytest.raises(ReadRefusedError, match="more than 10 changes"):
                    browser.page(snapshot, b"", 9)
            else:
                assert browser.child_count(snapshot) == 0
        play(warm, *[mkdir(f"/t/d{i}", 20100 + i) for i in range(10)])


def test_a_renamed_inode_of_a_snapshot_has_its_new_path(warm: WarmNamespace, tmp_path: Path) -> None:
    """An edit loads the inode from the deleted list of the old directory; no edit has loaded the new directory yet."""
    play(warm, mkdir("/a", 20001), AllowSnapshotOp(snapshot_root="/a"), mkdir("/a/f", 20002), mkdir("/b", 20003))
    play(warm, CreateSnapshotOp(snapshot_root="/a", snapshot_name="s"), mkdir("/a/f/in", 20004), rename("/a/f", "/b/g"))
    (folder := tmp_path / "saved").mkdir()
    warm.save([folder])
    play(warm, mkdir("/a/new", 20005))
    assert warm.namespace.table.row_of.get(20002) is not None
    with warm.reading(0, 0) as browser:
        for inode_id, path in ((20002, [b"", b"b", b"g"]), (20004, [b"", b"b", b"g", b"in"])):
            assert [each.inode.name for each in browser.chain(inode_id)] == path


def test_directory_that_exists_only_in_a_snapshot_keeps_its_path(warm: WarmNamespace, tmp_path: Path) -> None:
    """When a NameNode refuses a request for such a directory, the message contains this path."""
    play(warm, mkdir("/a", 20001), AllowSnapshotOp(snapshot_root="/a"), mkdir("/a/d", 20002), mkdir("/a/d/e", 20003))
    play(warm, CreateSnapshotOp(snapshot_root="/a", snapshot_name="s"), delete("/a/d"))
    for number in range(2):
        with warm.reading(0, 0) as browser:
            assert not browser.chain(20003)
            assert [each.inode.name for each in browser.chain(20003, deleted=True)] == [b"", b"a", b"d", b"e"]
        if not number:
            (folder := tmp_path / "saved").mkdir()
            warm.save([folder])
            warm.rebase()


def loaded(warm: WarmNamespace) -> tuple[int, int, int]:
    namespace = warm.namespace
    return namespace.table.count, namespace.tree.links.count, len(namespace.recorder.lookup.diffs._loaded)


def test_page_reads_only_its_own_children(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    play(warm, mkdir("/t", 20001), *[mkdir(f"/t/d{i:02}", 20100 + i) for i in range(40)], delete("/t/d07"))
    with warm.reading(0, 0) as browser:
        place, read = browser.chain(20001)[-1], list[int]()
        inode = browser.inode
        monkeypatch.setattr(browser, "inode", lambda inode_id: (read.append(inode_id), inode(inode_id))[1])
        page = browser.page(place, b"d05", 3)
        assert [each.inode.name for each in page.entries] == [b"d06", b"d08", b"d09"]
        assert (page.remaining, len(read)) == (30, 3)
        monkeypatch.setattr(live_inodes, "_MAX_CHANGED", 39)
        with pytest.raises(ReadRefusedError, match="more than 39 entries changed"):
            browser.page(place, b"", 3)
        assert browser.content(place).totals.directories == 40
        monkeypatch.setattr(live_inodes, "_MAX_CHANGED", 40)
        assert browser.page(place, b"", 3).remaining == 36


def test_a_walk_pauses_within_a_directory(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_content, "BATCH_SECONDS", 0)
    play(warm, mkdir("/t", 20001), *[mkdir(f"/t/d{i:02}", 20100 + i) for i in range(40)])
    entered: list[int] = []
    with warm.reading(0, 0) as browser:
        pauses: list[int] = []
        monkeypatch.setattr(browser, "_pause", lambda: pauses.append(len(entered)))
        browser.content(browser.chain(20001)[-1], lambda directory: entered.append(directory.inode.id))
    assert entered == [20001, *range(20100, 20140)]
    assert pauses.count(1) > 80
