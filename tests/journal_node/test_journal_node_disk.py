"""The folder of a journal: the file system and, for tests, memory behave the same."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.errors import HdfsError
from hadoop_common.storage_info import JOURNAL_NODE
from hadoop_common.storage_lock import LOCK_FILE
from hadoop_rpc.errors import IllegalArgumentRemoteError, JavaIOError, JournalNotFormattedError
from hadoop_rpc.qjournal_values import SegmentState
from journal_node.disk import JournalDisk
from journal_node.file_disk import FileDisk, below
from journal_node.node import JournalNode
from tests.hadoop_common.lock_support import held_elsewhere
from tests.journal_node.journal_node_support import HEADER, JOURNAL, NAMESPACE, Writer, batch, formatted, logs
from tests.journal_node.memory_disk import MemoryDisk


@pytest.fixture(params=["files", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> JournalDisk:
    return FileDisk(tmp_path / "root" / "j1") if request.param == "files" else MemoryDisk()


def test_missing_folder_is_empty(disk: JournalDisk) -> None:
    disk.lock()
    assert not disk.exists("current/VERSION")
    assert disk.names("current") == []
    disk.remove_tree("current")
    for failing in (lambda: disk.read("x"), lambda: disk.open("x"), lambda: disk.write("a/x", b"")):
        with pytest.raises(FileNotFoundError):
            failing()
    disk.unlock()


def test_files_are_written_renamed_and_removed(disk: JournalDisk) -> None:
    disk.make_directory("current/paxos")
    disk.make_directory("current/paxos")
    disk.lock()
    disk.lock()
    disk.write("current/a", b"old")
    disk.write("current/a", b"new")
    disk.write("current/b", b"other")
    assert disk.read("current/a") == b"new"
    with disk.content("current/a") as content:
        assert bytes(content[:]) == b"new"
    with disk.open("current/a") as source:
        disk.rename("current/a", "current/b")
        assert source.read() == b"new"
    assert disk.read("current/b") == b"new"
    assert sorted(disk.names("current")) == ["b", "paxos"]
    disk.link("current/b", "current/c")
    disk.sync("current/c")
    disk.remove("current/b")
    disk.remove("current/b")
    assert disk.read("current/c") == b"new"
    disk.rename("current", "previous")
    assert disk.read("previous/c") == b"new"
    assert disk.exists("previous/paxos")
    assert not disk.exists("current")
    disk.remove_tree("previous")
    assert not disk.exists("previous")
    disk.unlock()
    disk.unlock()


def test_number_is_overwritten_in_place_after_its_folder_is_renamed(disk: JournalDisk) -> None:
    disk.make_directory("current")
    disk.overwrite("current/n", b"1234")
    disk.overwrite("current/n", b"56")
    assert disk.read("current/n") == b"5634"
    disk.rename("current", "previous")
    disk.make_directory("current")
    disk.overwrite("current/n", b"78")
    assert (disk.read("current/n"), disk.read("previous/n")) == (b"78", b"5634")
    disk.write("current/n", b"9")
    disk.overwrite("current/n", b"0")
    assert disk.read("current/n") == b"0"
    disk.unlock()


def test_fetched_files_do_not_affect_the_open_number_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The syncer fetches without the writer's lock, so a descriptor that is closed during a write may belong to another
    file.
    """
    disk = FileDisk(tmp_path / "j1")
    for directory in ("current", "edits.sync"):
        disk.make_directory(directory)
    disk.overwrite("current/n", b"1234")
    disk.write("edits.sync/fetched.tmp", b"segment")
    pwrite = os.pwrite

    def write_while_a_peer_is_synced(descriptor: int, data: bytes, offset: int) -> int:
        syncing = threading.Thread(target=disk.rename, args=("edits.sync/fetched.tmp", "edits.sync/fetched"))
        syncing.start()
        syncing.join(0.2)
        written = pwrite(descriptor, data, offset)
        others.append(syncing)
        return written

    others: list[threading.Thread] = []
    monkeypatch.setattr(os, "pwrite", write_while_a_peer_is_synced)
    disk.overwrite("current/n", b"56")
    others[0].join(600)
    assert (disk.read("current/n"), disk.read("edits.sync/fetched")) == (b"5634", b"segment")
    monkeypatch.undo()
    kept = [path for path in Path("/proc/self/fd").iterdir() if _points_to(path, tmp_path / "j1/current/n")]
    disk.remove_tree("edits.sync")
    disk.overwrite("current/n", b"7")
    assert len(kept) == 1
    assert kept == [path for path in Path("/proc/self/fd").iterdir() if _points_to(path, tmp_path / "j1/current/n")]
    disk.unlock()


def test_number_is_rewritten_after_a_disk_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FileDisk(tmp_path / "j1")
    disk.make_directory("current")
    disk.overwrite("current/n", b"1234")
    pwrite = os.pwrite
    lost = next(path for path in Path("/proc/self/fd").iterdir() if _points_to(path, tmp_path / "j1/current/n"))

    def fail_on_the_lost_disk(descriptor: int, data: bytes, offset: int) -> int:
        if os.path.samestat(os.fstat(descriptor), unmounted):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pwrite(descriptor, data, offset)

    unmounted = lost.stat()
    (tmp_path / "j1/current/n").rename(tmp_path / "unmounted")
    monkeypatch.setattr(os, "pwrite", fail_on_the_lost_disk)
    with pytest.raises(OSError, match="cannot be written: Input/output error"):
        disk.overwrite("current/n", b"56")
    disk.overwrite("current/n", b"78")
    assert disk.read("current/n") == b"78"
    disk.unlock()


def _points_to(descriptor: Path, path: Path) -> bool:
    try:
        return descriptor.readlink() == path
    except OSError:
        return False


def test_output_continues_after_a_rename(disk: JournalDisk) -> None:
    disk.make_directory("current")
    output = disk.create("current/new.tmp")
    output.append(b"abc", sync=True)
    disk.rename("current/new.tmp", "current/new")
    output.append(b"def", sync=False)
    output.sync()
    output.sync()
    assert output.written == 6
    output.close()
    output.close()
    assert disk.read("current/new") == b"abcdef"
    with pytest.raises(ValueError):
        output.append(b"g", sync=False)
    disk.create("current/new").close()
    assert disk.read("current/new") == b""


def test_folders_have_the_configured_mode(tmp_path: Path) -> None:
    disk = below(tmp_path / "edits", permission=0o750)("j1")
    disk.make_directory("current/paxos")
    for name in ("", "current/paxos"):
        assert stat.S_IMODE((tmp_path / "edits" / "j1" / name).stat().st_mode) == 0o750


def test_unwritable_folder_is_an_error_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "j1").write_text("no folder")
    node = JournalNode(below(tmp_path))
    with pytest.raises(JavaIOError, match="the folder of journal j1 fails"):
        node.format(JOURNAL, NAMESPACE, force=False)
    with pytest.raises(IllegalArgumentRemoteError, match="is not a journal id"):
        node.is_formatted("x" * 300)


def test_missing_folder_is_not_reported_as_an_empty_journal(tmp_path: Path) -> None:
    node = JournalNode(below(tmp_path))
    writer = formatted(node)
    writer.segment(1, 3)
    writer.start(4)
    writer.write(4, 4, 5)
    (tmp_path / JOURNAL).rename(tmp_path / "unmounted")
    for call in (
        lambda: logs(node),
        lambda: writer.prepare(4),
        lambda: node.find_segment(JOURNAL, 1, in_progress_ok=True),
    ):
        with pytest.raises(JavaIOError, match="current cannot be used: No such file or directory"):
            call()
    (tmp_path / "unmounted").rename(tmp_path / JOURNAL)
    assert writer.prepare(4).segment == SegmentState(4, 5, in_progress=True)
    assert logs(node) == [(1, 3, False), (4, 5, True)]
    node.close()


def test_journal_is_opened_as_soon_as_its_disk_is_mounted(tmp_path: Path) -> None:
    earlier = JournalNode(below(tmp_path))
    formatted(earlier).segment(1, 3)
    earlier.close()
    (tmp_path / JOURNAL).rename(tmp_path / "unmounted")
    node = JournalNode(below(tmp_path))
    # a sync opens the journal in this way
    assert not node.open_journal(JOURNAL).is_formatted
    with pytest.raises(JournalNotFormattedError):
        logs(node)
    (tmp_path / "unmounted").rename(tmp_path / JOURNAL)
    assert logs(node) == [(1, 3, False)]
    assert node.open_journal(JOURNAL) is node.open_journal(JOURNAL)
    assert (tmp_path / JOURNAL / LOCK_FILE).exists()
    node.close()


def test_disk_mounted_over_a_journal_is_used_with_the_newer_promise(tmp_path: Path) -> None:
    earlier = JournalNode(below(tmp_path / "disk"))
    writer = formatted(earlier)
    writer.epoch = 5
    writer.start(1)
    writer.write(1, 1, 3)
    earlier.close()
    node = JournalNode(below(tmp_path))
    formatted(node)
    Writer(node, epoch=7).begin()
    (tmp_path / JOURNAL).rename(tmp_path / "hidden")
    (tmp_path / "disk" / JOURNAL).rename(tmp_path / JOURNAL)
    with pytest.raises(JavaIOError, match="last promised epoch 7"):
        Writer(node, epoch=6).heartbeat()
    later = Writer(node, epoch=8)
    assert later.begin() == 1
    prepared = later.prepare(1)
    assert (prepared.last_writer_epoch, prepared.segment) == (5, SegmentState(1, 3, in_progress=True))
    assert (tmp_path / JOURNAL / LOCK_FILE).exists()
    node.close()


def test_unconfigured_journal_on_a_disk_mounted_later_is_accepted(tmp_path: Path) -> None:
    node = JournalNode(below(tmp_path), most=0)
    with pytest.raises(IllegalArgumentRemoteError, match="this JournalNode refuses the journal"):
        logs(node)
    earlier = JournalNode(below(tmp_path / "disk"))
    formatted(earlier).segment(1, 3)
    earlier.close()
    (tmp_path / "disk" / JOURNAL).rename(tmp_path / JOURNAL)
    assert logs(node) == [(1, 3, False)]
    node.close()


def test_promise_survives_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = JournalNode(below(tmp_path))
    Writer(formatted(node).node, epoch=7).begin()
    node.close()
    stat_of = os.stat

    def fail_at_the_promise(path: int | str | Path, **options: Any) -> os.stat_result:
        if str(path).endswith("last-promised-epoch"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return stat_of(path, **options)

    # Python 3.14 and later implement `exists` in this way
    monkeypatch.setattr(Path, "exists", os.path.exists)
    with monkeypatch.context() as failing:
        failing.setattr(os, "stat", fail_at_the_promise)
        again = JournalNode(below(tmp_path))
        with pytest.raises(JavaIOError, match="Input/output error"):
            Writer(again, epoch=2).begin()
    with pytest.raises(JavaIOError, match="not higher than the last promised epoch 7"):
        Writer(again, epoch=2).begin()
    again.close()


def test_folder_locked_by_another_process_is_refused(tmp_path: Path) -> None:
    node = JournalNode(below(tmp_path))
    formatted(node)
    assert (tmp_path / JOURNAL / LOCK_FILE).exists()
    node.close()
    assert not (tmp_path / JOURNAL / LOCK_FILE).exists()
    with held_elsewhere(tmp_path / JOURNAL, JOURNAL_NODE) as holder:
        again = JournalNode(below(tmp_path))
        with pytest.raises(JavaIOError, match=f"held by {holder.pid}@"):
            again.is_formatted(JOURNAL)
    assert again.is_formatted(JOURNAL)
    again.close()


def test_files_of_a_journal_have_hadoops_layout(tmp_path: Path) -> None:
    node = JournalNode(below(tmp_path))
    node.announce(8480, "http://127.0.0.1:8480")
    writer = formatted(node)
    writer.segment(1, 3)
    writer.committed = 3
    writer.start(4)
    writer.write(4, 4, 5)
    writer.accept(4, 5)
    current = tmp_path / JOURNAL / "current"
    files = {str(path.relative_to(current)): path.read_bytes() for path in current.rglob("*") if path.is_file()}
    version = files.pop("VERSION")
    assert b"storageType=JOURNAL_NODE\n" in version
    assert b"blockpoolID" not in version
    record = files.pop("paxos/4")
    assert record.startswith(b"\x0a\x0a\x06\x08\x04\x10\x05\x18\x01\x10\x01\nsegmentState {")
    assert files == {
        "edits_0000000000000000001-0000000000000000003": HEADER + batch(1, 3),
        "edits_inprogress_0000000000000000004": HEADER + batch(4, 5),
        "last-promised-epoch": b"1\n",
        "last-writer-epoch": b"1\n",
        "committed-txid": (3).to_bytes(8, "big"),
    }
    node.close()


def test_lock_file_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    writer = formatted(JournalNode(below(tmp_path)))
    writer.segment(1, 3)
    assert isinstance(writer.node, JournalNode)
    writer.node.close()
    (tmp_path / JOURNAL / LOCK_FILE).write_text("4711@elsewhere")
    again = Writer(JournalNode(below(tmp_path)), epoch=2)
    assert again.begin() == 1


def test_errors_of_this_package_become_java_exceptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = JournalNode(below(tmp_path))
    writer = formatted(node)

    def broken(_first: int) -> None:
        raise HdfsError("broken in a way of its own")

    monkeypatch.setattr(node.open_journal(JOURNAL).storage.segments, "find", broken)
    with pytest.raises(JavaIOError, match="journal j1: broken in a way of its own"):
        writer.start(1)
    node.close()
