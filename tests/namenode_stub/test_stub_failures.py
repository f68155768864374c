"""Failing disks and lost edits: only changes on disk are acknowledged, and every failure is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from hadoop_common.errors import HdfsError, StorageError
from journal.errors import JournalStorageError
from journal.segment_file import list_segments
from journal.segment_stream import SegmentStream
from namenode_stub.fail_stop import FailStop, NotServingError
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.stub_support import copy_while_written, formatted, restarted_tree, stub_config_for, wait_until


class FailingDisk:
    """A disk on which writes of segments below some directories fail while `broken` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *directories: Path) -> None:
        self.broken = False
        real = SegmentStream.append

        def append(stream: SegmentStream, data: bytes | bytearray) -> None:
            if self.broken and stream.directory.parent in directories:
                raise OSError(28, "No space left on device")
            real(stream, data)

        monkeypatch.setattr(SegmentStream, "append", append)


def paths(tree: list) -> list[str]:
    return [status.path for status in tree]


@pytest.mark.parametrize("failing", [("name", "shared"), ("shared",)])
def test_a_failed_edit_log_ends_all_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    config = formatted(tmp_path)
    disk = FailingDisk(monkeypatch, *(tmp_path / name for name in failing))
    stub = NameNodeStub(config)
    with pytest.raises(JournalStorageError, match=r"required journal .*/shared failed: .*No space left"), stub:
        stub.namespace.mkdirs("/kept")
        disk.broken = True
        url = f"{stub.server.url}/namespace"
        lost = requests.post(f"{url}/mkdirs", json={"path": "/lost"}, timeout=600)
        assert lost.status_code == 503
        for operation in ("mkdirs", "roll"):
            arguments = {"path": "/later"} if operation == "mkdirs" else {}
            answer = requests.post(f"{url}/{operation}", json=arguments, timeout=600)
            assert answer.status_code == 503
            assert "No space left" in answer.json()["error"]
        for view in ("status", "list", "tree"):
            assert requests.get(f"{url}/{view}", timeout=600).status_code == 503
        with pytest.raises(NotServingError):
            stub.active.roll()
        assert "No space left" in requests.get(f"{stub.server.url}/status", timeout=600).json()["failure"]
        put = requests.put(f"{stub.server.url}/imagetransfer", params=offer(stub), data=b"x", timeout=600)
        assert put.status_code == 417
        disk.broken = False
    tree = restarted_tree(config)
    assert "/kept" in paths(tree)
    assert "/later" not in paths(tree)
    # the standby, which reads only the shared directory, receives the same segments
    assert [each.path.name for each in list_segments(tmp_path / "name" / "current")] == [
        each.path.name for each in list_segments(tmp_path / "shared" / "current")
    ]


class FailStopLeft:
    """Context manager that asserts that the stub ended without an error and that its fail-stop was tripped."""

    def __init__(self, stub: NameNodeStub) -> None:
        self._stub = stub

    def __enter__(self) -> None:
        assert not self._stub.fail_stop.reason

    def __exit__(self, *_: object) -> None:
        assert self._stub.fail_stop.reason


def offer(stub: NameNodeStub) -> dict[str, str]:
    info = stub.images.storage_info().colon_string()
    return {"txid": "1", "storageInfo": info, "File-Length": "1", "imageFile": "IMAGE"}


def test_a_failed_local_directory_is_recovered_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = formatted(tmp_path, minimum_edits=0)
    disk = FailingDisk(monkeypatch, tmp_path / "name")
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/before")
        disk.broken = True
        stub.namespace.mkdirs("/after")
        stub.active.roll()
        stub.namespace.mkdirs("/rolled")
        status = requests.get(f"{stub.server.url}/status", timeout=600).json()
        assert status["editsDirectories"] == [str(tmp_path / "shared/current")]
        assert "No space left" in status["failedEdits"][(tmp_path / "name").as_uri()]
        before = stub.namespace.walk()
    disk.broken = False
    assert restarted_tree(config) == before
    names = [[s.path.name for s in list_segments(tmp_path / each / "current")] for each in ("name", "shared")]
    assert names[0] == names[1]
    for first, second in zip(*(list_segments(tmp_path / each / "current") for each in ("name", "shared")), strict=True):
        assert first.path.read_bytes() == second.path.read_bytes()


def test_without_redundant_edits_directories_the_namenode_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = formatted(tmp_path)
    disk = FailingDisk(monkeypatch, tmp_path / "name")
    stub = NameNodeStub(config)
    with pytest.raises(JournalStorageError, match="0 of 1 redundant journals work"), stub:
        disk.broken = True
        with pytest.raises(NotServingError, match="No space left"):
            stub.namespace.mkdirs("/lost")


def test_a_restored_directory_receives_its_missed_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path, minimum_edits=0, restore_edits=True, roll_period=0.2)
    disk = FailingDisk(monkeypatch, tmp_path / "name")
    with NameNodeStub(config) as stub:
        disk.broken = True
        stub.namespace.mkdirs("/missed")
        stub.active.roll()
        disk.broken = False
        stub.namespace.mkdirs("/kept")
        first = stub.active.roll()
        assert len(stub.active.journals.active) == 2
        whole = finalized(tmp_path / "shared", first)
        wait_until("the roller to copy what is missing", lambda: finalized(tmp_path / "name", first) == whole)
    assert segment_bytes(tmp_path / "name") == segment_bytes(tmp_path / "shared")


def finalized(directory: Path, before: int) -> list[str]:
    segments = list_segments(directory / "current")
    return [each.path.name for each in segments if each.last is not None and each.first < before]


def segment_bytes(directory: Path) -> list[bytes]:
    return [each.path.read_bytes() for each in list_segments(directory / "current")]


def test_recovery_never_replaces_a_longer_copy_by_a_shorter_one(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/early")
        early = (tmp_path / "name/current/edits_inprogress_0000000000000000001").read_bytes()
        stub.namespace.mkdirs("/late")
        before = stub.namespace.walk()
    whole = list_segments(tmp_path / "name" / "current")[0]
    # as if the name directory had been dropped in the middle of the segment, which the shared directory finalized
    whole.path.unlink()
    (tmp_path / "name/current/edits_inprogress_0000000000000000001").write_bytes(early)
    assert restarted_tree(config) == before
    for folder in ("name", "shared"):
        assert list_segments(tmp_path / folder / "current")[0].path.name == whole.path.name


def test_missing_edits_are_reported_and_not_skipped(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")
        stub.active.roll()
        stub.namespace.mkdirs("/b")
    kept = {}
    for folder in ("name", "shared"):
        newest = list_segments(tmp_path / folder / "current")[-1].path
        kept[newest] = newest.read_bytes()
        newest.unlink()
    with pytest.raises(StorageError, match="seen_txid"), NameNodeStub(config):
        pass
    for path, content in kept.items():
        path.write_bytes(content)
    for folder in ("name", "shared"):
        list_segments(tmp_path / folder / "current")[0].path.unlink()
    with pytest.raises(HdfsError, match="gap in the edit log"), NameNodeStub(config):
        pass


def test_a_kill_between_roll_and_seen_txid_is_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")

        def broken(path: Path, data: bytes) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr("checkpointer.storage.formatting.write_atomically", broken)
            stub.active.roll()
        stub.namespace.mkdirs("/b")
        before = stub.namespace.walk()
        assert (tmp_path / "name/current/seen_txid").read_text() == "1\n"
        copy_while_written(tmp_path / "name", tmp_path / "killed" / "name")
        copy_while_written(tmp_path / "shared", tmp_path / "killed" / "shared")
    assert restarted_tree(stub_config_for(tmp_path / "killed")) == before


def test_a_fault_within_a_change_ends_all_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")
        last = stub.namespace.transactions.log.last_txid

        def half_done(namespace: object, op: object) -> None:
            raise RuntimeError("half done")

        with monkeypatch.context() as patched:
            patched.setattr("namenode_stub.names.transactions.apply", half_done)
            with pytest.raises(NotServingError, match="half done"):
                stub.namespace.mkdirs("/b")
        with pytest.raises(NotServingError, match="half done"):
            stub.namespace.mkdirs("/c")
        assert stub.namespace.transactions.log.last_txid == last
    assert paths(restarted_tree(config)) == ["/", "/a"]


def test_the_first_reason_of_a_failure_is_kept() -> None:
    fail_stop = FailStop()
    fail_stop.check()
    assert "disk" in fail_stop.trip("disk").message
    assert "disk" in fail_stop.trip("network").message
    assert fail_stop.reason == "disk"


def test_a_fault_during_a_change_stops_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path)

    def break_down(*_: object) -> None:
        raise ValueError("out of range")

    stub = NameNodeStub(config)
    with FailStopLeft(stub), stub:
        stub.namespace.mkdirs("/kept")
        with monkeypatch.context() as patch:
            patch.setattr("engine.namespace.tree.Tree.insert", break_down)
            with pytest.raises(NotServingError, match="may be applied in part"):
                stub.namespace.mkdirs("/half")
        with pytest.raises(NotServingError):
            stub.namespace.mkdirs("/later")
    assert paths(restarted_tree(config)) == ["/", "/kept"]
