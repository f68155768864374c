"""Upgrade, rollback and finalization of a journal, and the state after a kill in between (NNUpgradeUtil)."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import cast

import pytest

from hadoop_rpc.errors import IllegalStateError, InconsistentStorageError, JavaIOError
from hadoop_rpc.qjournal_values import SegmentState
from journal_node.disk import JournalDisk
from journal_node.node import JournalNode
from journal_node.storage import JournalStorage
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer, formatted, node_on
from tests.journal_node.memory_disk import FaultyDisk, Killed, MemoryDisk

NEWER = replace(NAMESPACE, layout_version=-66, c_time=55)
OLD_LAYOUT = NAMESPACE.layout_version


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with segments 1-3 and 4-6, written in epoch 2 and committed up to txid 6."""
    found = MemoryDisk("a")
    writer = formatted(node_on(found))
    writer.epoch = 2
    writer.segment(1, 3)
    writer.committed = 6
    writer.segment(4, 6)
    found.sync("current/committed-txid")
    return found


def upgrade(node: JournalNode) -> None:
    node.do_pre_upgrade(JOURNAL)
    node.do_upgrade(JOURNAL, NEWER)


def state(node: JournalNode) -> tuple[int, int, int, list[tuple[int, int]]]:
    manifest = node.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True).manifest
    assert manifest.committed_txid is not None
    promised = node.get_journal_state(JOURNAL).last_promised_epoch
    return (
        node.get_journal_ctime(JOURNAL),
        promised,
        manifest.committed_txid,
        [(s.first, s.last) for s in manifest.logs],
    )


SEGMENTS = [(1, 3), (4, 6)]


def test_an_upgrade_keeps_segments_and_promises(disk: MemoryDisk) -> None:
    node = node_on(disk)
    upgrade(node)
    assert state(node) == (55, 2, 6, SEGMENTS)
    assert node.get_storage_info(JOURNAL).layout_version == -66
    assert disk.exists("previous/VERSION")
    with pytest.raises(IllegalStateError, match="previous already exists"):
        node.do_pre_upgrade(JOURNAL)
    Writer(node, epoch=2, serial=90).segment(7, 9)
    assert state(node_on(disk)) == (55, 2, 6, [*SEGMENTS, (7, 9)])


def test_an_interrupted_upgrade_is_not_damage(disk: MemoryDisk) -> None:
    node_on(disk).do_pre_upgrade(JOURNAL)
    assert JournalStorage(disk).damage() == ""
    assert state(node_on(disk)) == (0, 2, 6, SEGMENTS)
    disk.remove("current/VERSION")
    assert "VERSION is missing" in JournalStorage(disk).damage()


@pytest.mark.parametrize("begins", [True, False])
def test_next_writer_undoes_an_incomplete_upgrade(disk: MemoryDisk, begins: bool) -> None:
    """Otherwise, the next restart would undo the upgrade and remove everything written since."""
    node = node_on(disk)
    node.do_pre_upgrade(JOURNAL)
    # a NameNode that upgrades purges segments before it completes the upgrade
    Writer(node, epoch=2, serial=90).purge(1)
    assert disk.exists("previous.tmp")
    writer = Writer(node, epoch=3)
    if begins:
        assert writer.begin() == 4
    writer.segment(7, 9)
    assert not disk.exists("previous.tmp")
    assert state(node_on(disk)) == (0, 3, 6, [*SEGMENTS, (7, 9)])
    upgrade(node)
    assert state(node) == (55, 3, 6, [*SEGMENTS, (7, 9)])


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize(
    "call",
    [Writer.heartbeat, lambda writer: writer.purge(1), lambda writer: writer.write(7, 7, 9)],
    ids=["heartbeat", "purge", "journal"],
)
def test_promise_during_an_incomplete_upgrade_excludes_older_writers(
    disk: MemoryDisk, call: Callable[[Writer], None], restarted: bool
) -> None:
    """This node has missed the newEpoch call of a newer writer, so the promise results from a later call."""
    node = node_on(disk)
    node.do_pre_upgrade(JOURNAL)
    with suppress(JavaIOError):
        call(Writer(node, epoch=3))
    if restarted:
        node = node_on(disk)
    with pytest.raises(JavaIOError, match="less than the last promised epoch 3"):
        Writer(node, epoch=2, serial=90).start(7)
    assert state(node) == (0, 3, 6, SEGMENTS)


def test_upgrade_requires_preparation(disk: MemoryDisk) -> None:
    node = node_on(disk)
    with pytest.raises(IllegalStateError, match=r"previous\.tmp does not exist"):
        node.do_upgrade(JOURNAL, NEWER)
    assert state(node) == (0, 2, 6, SEGMENTS)


def test_rollback_restores_everything_except_promises(disk: MemoryDisk) -> None:
    node = node_on(disk)
    assert not node.can_roll_back(JOURNAL, NAMESPACE, NAMESPACE, OLD_LAYOUT)
    node.do_rollback(JOURNAL)
    upgrade(node)
    writer = Writer(node, epoch=5, committed=9)
    writer.begin()
    writer.segment(7, 9)
    writer.heartbeat()
    assert node.can_roll_back(JOURNAL, NEWER, NAMESPACE, OLD_LAYOUT)
    with pytest.raises(JavaIOError, match="layout -63, not -60"):
        node.can_roll_back(JOURNAL, NEWER, NAMESPACE, -60)
    with pytest.raises(InconsistentStorageError, match="clusterID"):
        node.can_roll_back(JOURNAL, NEWER, replace(NAMESPACE, cluster_id="CID-other"), OLD_LAYOUT)
    node.do_rollback(JOURNAL)
    assert state(node) == (0, 5, 6, SEGMENTS)
    assert state(node_on(disk)) == (0, 5, 6, SEGMENTS)
    assert not disk.exists("previous")


def test_rollback_of_another_namespace_is_refused(disk: MemoryDisk) -> None:
    with pytest.raises(InconsistentStorageError, match="namespaceID"):
        node_on(disk).can_roll_back(JOURNAL, replace(NAMESPACE, namespace_id=7), NAMESPACE, OLD_LAYOUT)


@pytest.mark.parametrize("end", [JournalNode.do_finalize, JournalNode.do_rollback])
def test_undeletable_folder_does_not_prevent_upgrade_or_start(
    disk: MemoryDisk, end: Callable[[JournalNode, str], None]
) -> None:
    for at in count():
        own = copy.deepcopy(disk)
        faulty = FaultyDisk(own, at, lambda: OSError(errno.EIO, "Input/output error"))
        faulty.disarm()
        node = node_on(cast(JournalDisk, faulty))
        upgrade(node)
        faulty.arm(len(faulty.steps) + at)
        with suppress(JavaIOError):
            end(node, JOURNAL)
        tripped = faulty.tripped
        faulty.disarm()
        if own.exists("current"):
            end(node, JOURNAL)
            assert not own.exists("previous")
            upgrade(node)
        assert state(node_on(own))[3] == SEGMENTS
        if not tripped:
            break
    assert at > 3


def test_finalized_upgrade_cannot_be_rolled_back(disk: MemoryDisk) -> None:
    node = node_on(disk)
    node.do_finalize(JOURNAL)
    upgrade(node)
    node.do_finalize(JOURNAL)
    node.do_finalize(JOURNAL)
    assert not node.can_roll_back(JOURNAL, NEWER, NAMESPACE, OLD_LAYOUT)
    assert state(node) == (55, 2, 6, SEGMENTS)
    assert {name.partition("/")[0] for name in disk.files} == {"current"}


def test_upgrade_keeps_a_segment_in_progress(disk: MemoryDisk) -> None:
    node = node_on(disk)
    writer = Writer(node, epoch=2, serial=90)
    writer.start(7)
    writer.write(7, 7, 8)
    upgrade(node)
    assert Writer(node, epoch=3).prepare(7).segment == SegmentState(7, 8, True)


KILLED: dict[str, tuple[Callable[[JournalNode], None], Callable[[JournalNode], None], set[int]]] = {
    "upgrade": (lambda node: None, upgrade, {0, 55}),
    "rollback": (upgrade, lambda node: node.do_rollback(JOURNAL), {0, 55}),
    "finalize": (upgrade, lambda node: node.do_finalize(JOURNAL), {55}),
}


@pytest.mark.parametrize("name", KILLED)
@pytest.mark.parametrize("after", [False, True])
def test_kill_leaves_the_state_before_or_after_the_operation(disk: MemoryDisk, name: str, after: bool) -> None:
    prepare, operation, ctimes = KILLED[name]
    prepare(node_on(disk))
    for at in count():
        tried = copy.deepcopy(disk)
        node = node_on(cast(JournalDisk, FaultyDisk(tried, at, Killed, after=after)))
        try:
            operation(node)
            break
        except Killed:
            tried.crash()
        again = node_on(tried)
        ctime, *rest = state(again)
        assert ctime in ctimes
        assert rest == [2, 6, SEGMENTS]
        assert not [entry for entry in tried.directories if entry.endswith(".tmp")]
        if ctime == 0 and not tried.exists("previous"):
            upgrade(again)
            assert state(again) == (55, 2, 6, SEGMENTS)
    assert at > 1


@pytest.mark.parametrize(
    "directories",
    [
        ["previous.tmp", "removed.tmp"],
        ["previous", "previous.tmp"],
        ["previous", "finalized.tmp"],
        ["removed.tmp", "previous"],
    ],
)
def test_impossible_combinations_of_folders_are_refused(disk: MemoryDisk, directories: list[str]) -> None:
    for directory in directories:
        disk.make_directory(directory)
    with pytest.raises(InconsistentStorageError):
        node_on(disk).is_formatted(JOURNAL)


def test_previous_folder_without_current_is_refused(disk: MemoryDisk) -> None:
    disk.rename("current", "previous")
    with pytest.raises(InconsistentStorageError, match="previous exists"):
        node_on(disk).is_formatted(JOURNAL)
