"""Reading a warm namespace gives what its saved image has, and leaves no trace in the next image."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from checkpointer.merging.offline import plan_directory
from engine import live_content
from engine.errors import NamespaceBusyError
from engine.merge import merge
from engine.read_gate import ReadGate
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode, NamespaceBrowser
from journal.ops import EditOp
from journal.segment_file import read_transactions
from tests.engine.image_builder import BASE_TXID, ImageBuilder, numbered
from tests.engine.op_makers import delete, mkdir, rename
from tests.namenode_stub.stub_support import wait_until
from tests.recorded_cases import ALL_CASES, RECORDED, Case, same_layout

SMALL = {"acl-xattr", "snapshots-rename-references"}


# Hadoop 2 takes times of snapshots from its clock at replay
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
    """Yield all inodes below a place, in snapshots too."""
    yield path, seen(browser, place)
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
        if place.snapshot is None:
            assert browser.chain(child.inode.id)[-1] == child
        yield from walk(browser, path + b"/" + child.inode.name, child)
    for snapshot in browser.snapshot_folder(place).snapshots or ():
        yield from walk(browser, path + b"/.snapshot/" + snapshot.inode.name, snapshot)


def tree(browser: NamespaceBrowser) -> dict[bytes, Seen]:
    root = browser.root()
    assert root is not None
    return dict(walk(browser, b"", root))


def tree_of(image: Path) -> dict[bytes, Seen]:
    with ImageFile.open(image, verify_md5=False) as opened:
        return tree(ImageBrowser(opened))


def comparable(case: Case, found: dict[bytes, Seen]) -> dict[bytes, Seen]:
    """Leave out what a NameNode that loads an image sees differently from the one that wrote it.

    Links in snapshots then have their present names. In random cases, root diffs of nested snapshots may have got the
    id of another snapshot.
    """
    whole = case.path.name.startswith(("snapshots-", "acl-", "erasure-"))
    return {
        path: each
        for path, each in found.items()
        if b"/.snapshot/" not in path or (whole and each.kind != pb.INode.SYMLINK)
    }


def case_ops(case: Case, folder: Path) -> list[EditOp]:
    case.copy_to(folder)
    plan = plan_directory(folder)
    return list(read_transactions(plan.segments, plan.image_txid + 1))


def parts(ops: Sequence[EditOp]) -> list[Sequence[EditOp]]:
    cuts = [0, len(ops) // 3, 2 * len(ops) // 3, len(ops)]
    return [ops[first:behind] for first, behind in itertools.pairwise(cuts)]


@pytest.mark.recorded
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id, marks=() if case.path.name in SMALL else pytest.mark.deep) for case in CASES],
)
@pytest.mark.parameters(2)
def test_it_reads_what_an_image_of_the_same_transaction_has(case: Case, tmp_path: Path) -> None:
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
            assert comparable(case, found) == comparable(case, tree_of(saved))
            present = [each for path, each in found.items() if b"/.snapshot/" not in path]
            assert content.totals.files - content.in_snapshots.files == sum(each.kind != 2 for each in present)
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
def test_reading_loads_no_inode(warm: WarmNamespace) -> None:
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
        with warm.reading(BASE_TXID + 1, 60) as browser:
            found.append(browser.txid)

    reader = threading.Thread(target=read)
    reader.start()
    play(warm, mkdir("/new", 20001))
    reader.join(60)
    assert found == [BASE_TXID + 1]


def test_nothing_is_read_without_an_image(warm: WarmNamespace) -> None:
    warm.close()
    with pytest.raises(NamespaceBusyError), warm.reading(0, 0):
        pass


def test_a_walk_goes_on_after_edits_in_between(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories that vanish during a pause count no further, and those of another image are found again."""
    monkeypatch.setattr(live_content, "_BATCH", 1)
    play(warm, mkdir("/t", 20001), mkdir("/t/a", 20002), mkdir("/t/a/b", 20003), mkdir("/t/c", 20004))
    changes = [lambda: play(warm, delete("/t/a")), lambda: play(warm, rename("/t/c", "/t/d"))]
    with warm.reading(0, 0) as browser:
        monkeypatch.setattr(browser, "_pause", lambda: changes.pop(0)() if changes else None)
        place = browser.chain(20001)[-1]
        assert browser.content(place).totals.directories == 3
        assert not changes


def test_a_change_enters_before_waiting_readers() -> None:
    gate, order = ReadGate(), list[str]()
    inside, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with gate.changing():
            order.append("change")

    def read() -> None:
        with gate.reading(lambda: True, 60):
            order.append("read")

    def first() -> None:
        with gate.reading(lambda: True, 60):
            inside.set()
            go_on.wait(60)
            gate.pause(lambda: True, 60)
            order.append("first")

    threads = [threading.Thread(target=target) for target in (first, change, read)]
    threads[0].start()
    inside.wait(60)
    threads[1].start()
    wait_until("the change waits", lambda: gate.changes_waiting == 1)
    threads[2].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert order[0] == "change"
    assert set(order) == {"change", "read", "first"}


def test_a_pause_that_fails_still_holds_the_gate() -> None:
    gate, ready, changed = ReadGate(), [True], threading.Event()

    def change() -> None:
        with gate.changing():
            ready[0] = False
        changed.set()

    with pytest.raises(NamespaceBusyError), gate.reading(lambda: ready[0], 60):
        thread = threading.Thread(target=change)
        thread.start()
        wait_until("the change waits", lambda: gate.changes_waiting == 1)
        gate.pause(lambda: ready[0], 0)
    thread.join(60)
    with gate.changing():
        assert changed.is_set()
