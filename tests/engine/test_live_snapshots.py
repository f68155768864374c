"""Reads of snapshots in a warm namespace, compared with a model that has a full copy of the tree for each snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.live_browser import LiveBrowser
from engine.warm_namespace import WarmNamespace
from image_tools.namespace_browser import LocatedInode, SubtreeTotals
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID, numbered
from tests.engine.snapshot_model import BEGINNINGS, STEPS, base
from tests.engine.snapshot_twin import Node, SnapshotTwin, Step

LAYOUT = -67
View = dict[str, tuple[int, bool, int, str, int]]


def nodes(browser: LiveBrowser, path: str, place: LocatedInode) -> Iterator[tuple[str, LocatedInode]]:
    yield path or "/", place
    if place.inode.HasField("directory"):
        page = browser.page(place, b"", 1000)
        assert (len(page.entries), page.remaining) == (browser.child_count(place), 0)
        for each in page.entries:
            assert browser.child(place, each.inode.name) == each
            yield from nodes(browser, f"{path}/{each.inode.name.decode()}", each)


def seen(browser: LiveBrowser, place: LocatedInode) -> tuple[int, bool, int, str, int]:
    inode = place.inode
    owner = browser.names.owner(inode.file.permission or inode.directory.permission or inode.symlink.permission)
    length = sum(block.numBytes for block in inode.file.blocks)
    return inode.id, inode.HasField("directory"), length, owner.user or "", owner.mode


def view(node: Node) -> View:
    return {
        path: (each.inode_id, each.children is not None, each.length, each.user, each.mode)
        for path, each in node.walk()
    }


def without_lengths(found: View, paths: set[str]) -> View:
    return {at: (*each[:2], -1 if at in paths else each[2], *each[3:]) for at, each in found.items()}


def totals(node: Node) -> SubtreeTotals:
    found = [each for _, each in node.walk()]
    directories = sum(each.children is not None for each in found)
    return SubtreeTotals(len(found) - directories, directories, sum(each.length for each in found), 0)


def check(browser: LiveBrowser, twin: SnapshotTwin) -> None:
    for path, node in twin.root.walk():
        for name, kept in twin.snapshots.get(node.inode_id, {}).items():
            place = browser.chain(node.inode_id)[-1]
            (root,) = (
                each for each in browser.snapshot_folder(place).snapshots or () if each.inode.name == name.encode()
            )
            # a snapshot does not record the length of a file that was open
            opened = {at for at, each in kept.tree.walk() if each.is_open}
            found = {at: seen(browser, each) for at, each in nodes(browser, "", root)}
            assert without_lengths(found, opened) == without_lengths(view(kept.tree), opened), (path, name)
            counted, expected = browser.content(root).totals._replace(space=0), totals(kept.tree)
            assert counted == expected or (opened and counted._replace(length=expected.length) == expected)
        if node.children is not None:
            content = browser.content(browser.chain(node.inode_id)[-1])
            present = SubtreeTotals(*(a - b for a, b in zip(content.totals, content.in_snapshots, strict=True)))
            assert present._replace(space=0) == totals(node), path


@pytest.mark.parametrize("compiled", [False, True])
@examples(40)
@given(beginning=BEGINNINGS, steps=STEPS, saved_after=st.integers(0, 40))
def test_snapshots_equal_those_of_the_model(
    beginning: list[Step], steps: list[Step], saved_after: int, compiled: bool
) -> None:
    builder, twin = base(LAYOUT)
    with TemporaryDirectory() as name, WarmNamespace(keeps_sums=compiled) as warm:
        folder = Path(name)
        warm.load(builder.save(folder))
        for number, step in enumerate([*beginning, *steps]):
            if number == saved_after and warm.last_txid > BASE_TXID:
                warm.save([folder])
            warm.apply(list(numbered(twin.apply(step), warm.last_txid)))
            if number % 5 == 4:
                before = loaded(warm)
                with warm.reading(0, 0) as browser:
                    check(browser, twin)
                assert loaded(warm) == before


def loaded(warm: WarmNamespace) -> tuple[int, int, int]:
    namespace = warm.namespace
    return namespace.table.count, namespace.tree.links.count, len(namespace.recorder.lookup.diffs._loaded)
