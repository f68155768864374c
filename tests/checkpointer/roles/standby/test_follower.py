"""Images from which a standby continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import Daemon, config_for, daemon_of, write_edits
from tests.checkpointer.storage_support import refuse_to_load

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


def test_standby_continues_from_an_older_image_if_the_newest_is_unloadable(
    stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        write_edits(stub, "a")
        newest = daemon.service.poll().details["txid"]
    refuse_to_load(monkeypatch, tmp_path / "nn2/current" / image_name(newest))
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "b")
        failed = daemon.service.request(force=True, wait=True)
        assert (failed.state, "no NameNode loads it" in failed.message) == (TriggerState.FAILED, True)
        assert not daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == last
        result = daemon.service.request(force=True, wait=True)
        assert (result.state, result.details["txid"]) == (TriggerState.DONE, last), result


def test_standby_continues_from_an_image_copied_by_an_operator(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    write_edits(stub, "a", 3)
    daemon.role.tail()
    end = write_edits(stub, "b", 3)
    with Daemon(config_for(tmp_path, stub, image_directories=(tmp_path / "other",))) as other:
        assert other.service.request(force=True, wait=True).details["txid"] == end
    for path in (tmp_path / "other/current").glob(f"fsimage_{end:019d}*"):
        path.rename(tmp_path / "nn2/current" / path.name)
    for segment in list_segments(tmp_path / "active/shared/current"):
        if segment.last is not None:
            segment.path.unlink()
    last = write_edits(stub, "c")
    daemon.role.tail()
    assert daemon.service.status()["appliedTxid"] == last


@pytest.mark.parametrize("damage", ["cut", "record", "digest"])
def test_standby_continues_from_an_older_image_if_the_newest_is_damaged(
    stub: NameNodeStub, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        for name in "ab":
            write_edits(stub, name, 20)
            newest = daemon.service.poll().details["txid"]
    path = tmp_path / f"nn2/current/fsimage_{newest:019d}"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "digest":
        md5_path(path).write_text(f"{'0' * 32} *{path.name}\n")
    else:
        path.write_bytes(content[:60] + b"\xff" * 9 + content[69:])
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "c", 20)
        daemon.role.tail()
        status = daemon.service.status()
        assert (status["appliedTxid"], status["lostPast"]) == (last, None)
        (alarm,) = status["alarms"]
        assert str(path) in alarm
        assert daemon.service.poll().details["txid"] == last
    assert path.name in caplog.text
    ours, theirs = (tmp_path / each / f"current/fsimage_{last:019d}" for each in ("nn2", "active/name"))
    assert ours.read_bytes() == theirs.read_bytes()
