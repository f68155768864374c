"""The standby role against a real stub: its storage, its journal, HTTP between them."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import checkpointer.transfer.uploader as uploader_module
from checkpointer.daemon.blueprints import RoleImages
from checkpointer.errors import TransferError
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.transfer import UploadResult
from engine.settings import ReplayRules
from hadoop_common.errors import StorageError
from hadoop_rpc.errors import RpcError
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import PERIOD, Daemon, config_for, images, leftovers, write_edits
from tests.depth import scaled
from tests.namenode_stub.stub_support import formatted
from tests.recorded_cases import imgcmp, replications

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


def test_checkpoint_equals_the_state_of_the_active(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    for number in range(2):
        write_edits(stub, str(number))
        stub.namespace.create(f"/{number}/f")
        stub.namespace.files.add_block(f"/{number}/f")
        stub.namespace.files.close(f"/{number}/f", 5)
        stub.namespace.create(f"/{number}/open")
        stub.namespace.rename(f"/{number}/0", f"/{number}/moved")
        last = stub.active.roll() - 1
        assert daemon.service.poll().details["txid"] == last
        own = tmp_path / "own"
        namespace = stub.namespace.transactions.loaded.namespace
        with own.open("wb") as out:
            namespace.last_txid = last
            stub.namespace.transactions.loaded.write(out.write)
            namespace.last_txid = stub.namespace.transactions.log.last_txid
        assert imgcmp.compare(imgcmp.Image(str(own)), imgcmp.Image(str(daemon.role.latest_image()))) == []


def test_new_replay_rules_apply_to_all_edits_after_the_newest_image(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    """A NameNode that starts with the new setting has the same result."""
    stub.namespace.create("/before")
    write_edits(stub, "a")
    assert daemon.service.poll().state is TriggerState.DONE
    before = replications(daemon.role.latest_image())
    stub.namespace.create("/after")
    write_edits(stub, "b")
    daemon.role.tail()
    config = config_for(tmp_path, stub)
    settings = replace(config.merge_settings, rules=ReplayRules(max_replication=1))
    daemon.role.reconfigure(replace(config, merge_settings=settings))
    assert daemon.service.request(force=True, wait=True).state is TriggerState.DONE
    found = replications(daemon.role.latest_image())
    assert [(number in before, factor) for number, factor in sorted(found.items())] == [(True, 3), (False, 1)]


def test_daemon_serves_images_and_segments_but_accepts_none(stub: NameNodeStub, daemon: Daemon) -> None:
    last = write_edits(stub, "a")
    store = RoleImages(daemon.role)
    assert store.storage_info() == stub.images.storage_info()
    assert store.latest_image() == store.find_image(0)
    assert store.find_image(1) is None
    assert store.find_segment(1, last) is not None
    assert store.find_segment(1, last + 1) is None
    assert not store.is_active()


def test_second_daemon_on_a_directory_is_rejected(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is held by"), Daemon(config_for(tmp_path, stub)):
        pass
    assert daemon.service.poll().state is TriggerState.SKIPPED


def test_edits_of_another_cluster_are_rejected(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    daemon.role.close()
    other = formatted(tmp_path / "other")
    assert other.shared_edits_directory is not None
    changed = config_for(tmp_path, stub, shared_edits=other.shared_edits_directory.as_uri())
    with pytest.raises(StorageError, match="contains edits of"), Daemon(changed):
        pass


def test_an_unfinished_image_of_a_killed_run_is_removed(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    daemon.role.close()
    (tmp_path / "nn2/current/fsimage.ckpt_0000000000000000009").write_bytes(b"half")
    with Daemon(config_for(tmp_path, stub)):
        assert leftovers(tmp_path / "nn2") == []


def test_new_directory_gets_the_next_checkpoint(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    daemon.role.close()
    folders = (tmp_path / "nn2", tmp_path / "new")
    with Daemon(config_for(tmp_path, stub, image_directories=folders)) as wider:
        last = write_edits(stub, "a")
        assert wider.service.poll().state is TriggerState.DONE
    assert [images(folder) for folder in folders] == [[0, last], [last]]


# ---- the journal -------------------------------------------------------------------------------------------


def test_no_checkpoint_from_an_empty_or_open_segment(daemon: Daemon, stub: NameNodeStub) -> None:
    stub.namespace.mkdirs("/not-finalized")
    for force in (False, True):
        result = daemon.service.request(force=force, wait=True)
        assert (result.state, result.details["txid"]) == (TriggerState.SKIPPED, 0)
        assert ("hdfs dfsadmin -rollEdits" in result.message) is force
    assert daemon.service.status()["transactionsBehind"] == 0


def test_gap_is_reported_until_it_is_filled(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    write_edits(stub, "a")
    last = write_edits(stub, "b")
    lost = list_segments(tmp_path / "active/shared/current")[0].path
    away = lost.rename(tmp_path / lost.name)
    result = daemon.service.poll()
    assert result.state is TriggerState.FAILED
    assert result.details["exitCode"] == 4
    assert "gap in the edit log" in daemon.service.status()["lastError"]
    assert images(tmp_path / "nn2") == [0]
    shutil.move(away, lost)
    assert daemon.service.request(force=True, wait=True).details["txid"] == last


def test_unmounted_journal_is_reported_until_it_is_mounted(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    last = write_edits(stub, "a")
    shared = tmp_path / "active" / "shared"
    away = shared.rename(tmp_path / "away")
    assert daemon.service.poll().state is TriggerState.FAILED
    assert "mounted" in daemon.service.poll().details["hint"]
    assert "cannot be read" in daemon.service.status()["error"]
    assert not daemon.service.ready().ok
    away.rename(shared)
    assert daemon.service.poll().details["txid"] == last


# ---- faults at each step -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        "engine.base_loader.load_image",
        "engine.warm_namespace.replay",
        "engine.loaded_image.write_image",
        "engine.warm_namespace.save_image",
        "image_format.publish.write_md5_file",
        "image_format.publish.rename_durably",
        "checkpointer.roles.checkpoint_end.enforce_retention",
        "checkpointer.transfer.uploader.upload_image",
        "checkpointer.transfer.uploader.read_md5_file",
    ],
)
@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), MemoryError("no memory")])
def test_next_attempt_succeeds_after_a_fault_at_any_step(
    daemon: Daemon, stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: Exception
) -> None:
    last = write_edits(stub, "a")

    def broken(*_: object, **__: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(step, broken)
        assert daemon.service.poll().state is TriggerState.FAILED
    assert daemon.service.status()["failures"] == 1
    assert daemon.service.status()["lastError"]
    # a poll would wait until the retry is due
    retried = daemon.service.request(force=True, wait=True)
    assert retried.state in (TriggerState.DONE, TriggerState.SKIPPED)
    assert images(tmp_path / "nn2")[-1] == images(tmp_path / "active/name")[-1] == last
    assert leftovers(tmp_path / "nn2") == []
    assert daemon.target()["result"] == "SUCCESS"


def test_failing_storage_directory_is_dropped(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    daemon.role.close()
    folders = (tmp_path / "nn2", tmp_path / "second")
    config = config_for(tmp_path, stub, image_directories=folders, restore_directories=True)
    with Daemon(config) as wider:
        write_edits(stub, "a")
        assert wider.service.poll().state is TriggerState.DONE
        folders[0].rename(tmp_path / "away")
        last = write_edits(stub, "b")
        assert wider.service.poll().details["txid"] == last
        storage = wider.service.status()["storage"]
        assert storage[str(folders[1])] == "in use"
        assert "may not be mounted" in storage[str(folders[0])]
        assert images(folders[1])[-1] == last
        # a new disk, on which an operator allows formatting
        (folders[0] / "current").mkdir(parents=True)
        last = write_edits(stub, "c")
        assert wider.service.poll().details["txid"] == last
        assert set(wider.service.status()["storage"].values()) == {"in use"}
        assert images(folders[0])[-1] == images(folders[1])[-1] == last


def test_last_directory_is_used_again_after_its_return(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    last = write_edits(stub, "a")
    away = (tmp_path / "nn2").rename(tmp_path / "away")
    assert daemon.service.poll().state is TriggerState.FAILED
    assert "cannot be locked" in daemon.service.status()["storage"][str(tmp_path / "nn2")]
    away.rename(tmp_path / "nn2")
    assert daemon.service.poll().details["txid"] == last


# ---- uploads -----------------------------------------------------------------------------------------------


def test_a_failed_upload_is_repeated_without_another_merge(
    daemon: Daemon, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = write_edits(stub, "a")
    offers = []
    real = uploader_module.upload_image

    def refused(address: str, *_: object, **__: object) -> UploadResult:
        offers.append(daemon.clock.now)
        raise TransferError(address, "connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(uploader_module, "upload_image", refused)
        result = daemon.service.poll()
        assert (result.state, result.details["uploads"]) == (TriggerState.DONE, {stub.server.url: "failed"})
        for _ in range(scaled(700, quick=100)):
            daemon.clock.now += 10.0
            assert daemon.service.poll().state is TriggerState.SKIPPED
    pauses = [after - before for before, after in itertools.pairwise(offers)]
    assert pauses[:5] == [10.0, 20.0, 40.0, 80.0, 150.0]
    assert max(pauses) <= PERIOD
    target = daemon.target()
    assert (target["result"], target["failures"]) == ("failed", len(offers))
    assert "connection refused" in target["error"]
    assert daemon.service.status()["checkpoints"] == 1
    # an operator's request does not wait for the end of the pause
    assert uploader_module.upload_image is real
    forced = daemon.service.request(force=True, wait=True)
    assert (forced.state, forced.details["uploads"]) == (TriggerState.SKIPPED, {stub.server.url: "SUCCESS"})
    assert (daemon.target()["txid"], daemon.target()["failures"], daemon.target()["error"]) == (last, 0, "")


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (UploadResult.OLD_TRANSACTION_ID_FAILURE, None),
        (UploadResult.NOT_ACTIVE_NAMENODE_FAILURE, 1.5 * PERIOD),
        (UploadResult.SUCCESS, None),
    ],
)
def test_image_is_not_offered_again_at_every_poll(
    daemon: Daemon, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch, answer: UploadResult, pause: float | None
) -> None:
    write_edits(stub, "a")
    offers = []

    def answered(*_: object, **__: object) -> UploadResult:
        offers.append(daemon.clock.now)
        return answer

    monkeypatch.setattr(uploader_module, "upload_image", answered)
    assert daemon.service.poll().state is TriggerState.DONE
    for _ in range(10):
        daemon.service.poll()
    assert offers == [0.0]
    daemon.clock.now = 2 * PERIOD
    daemon.service.poll()
    assert offers == ([0.0] if pause is None else [0.0, 2 * PERIOD])
    # a new image is sent to the NameNodes that answered; the inactive NameNode receives no image until its pause is
    # over
    write_edits(stub, "b")
    assert daemon.service.poll().state is TriggerState.DONE
    assert len(offers) == 2


def test_failing_target_does_not_delay_the_others(daemon: Daemon, stub: NameNodeStub, tmp_path: Path) -> None:
    daemon.role.close()
    with Daemon(config_for(tmp_path, "http://127.0.0.1:1", stub)) as pair:
        last = write_edits(stub, "a")
        result = pair.service.poll()
        assert result.details["uploads"] == {"http://127.0.0.1:1": "failed", stub.server.url: "SUCCESS"}
        assert (pair.target(0)["txid"], pair.target(1)["txid"]) == (-1, last)


def test_image_refused_for_its_digest_is_offered_again(
    daemon: Daemon, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = write_edits(stub, "a")
    with monkeypatch.context() as patched:
        patched.setattr(uploader_module, "read_md5_file", lambda path: bytes(16))
        assert daemon.service.poll().details["uploads"] == {stub.server.url: "failed"}
    assert "MD5" in daemon.target()["error"]
    daemon.clock.now += 10.0
    assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
    assert daemon.target()["txid"] == last


def test_stop_during_the_upload(daemon: Daemon, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch) -> None:
    write_edits(stub, "a")
    real = uploader_module.upload_image

    def stopping(*arguments: Any, **options: Any) -> UploadResult:
        daemon.service._cancellation.stop()
        return real(*arguments, **options)

    monkeypatch.setattr(uploader_module, "upload_image", stopping)
    assert daemon.service.poll().state is TriggerState.UNAVAILABLE
    assert daemon.target()["result"] == "never"
    assert daemon.service.status()["failures"] == 0


def test_stop_during_the_merge_leaves_no_files(
    daemon: Daemon, stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_edits(stub, "a")
    real = daemon.service._attempts.phase

    def phase(name: str, total: int | None) -> None:
        real(name, total)
        if name == "replay":
            daemon.service._cancellation.stop()

    monkeypatch.setattr(daemon.service._attempts, "phase", phase)
    monkeypatch.setattr("engine.replay.replayer._REPORT_EVERY", 1)
    monkeypatch.setattr("engine.replay.replayer._KERNEL_RUN", 1)
    result = daemon.service.poll()
    assert (result.state, result.message) == (TriggerState.UNAVAILABLE, "replay stopped at txid 1")
    assert images(tmp_path / "nn2") == [0]
    assert leftovers(tmp_path / "nn2") == []
    assert daemon.service.status()["failures"] == 0


def test_postponed_rollback_image_is_logged_once_per_reason(caplog: pytest.LogCaptureFixture) -> None:
    down, refused = RpcError("down"), RpcError("not a superuser")
    answers: list[RpcError | None] = [down, down, refused, refused, None, refused]

    def rolling_upgrade() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    role = SimpleNamespace(_nodes=SimpleNamespace(rolling_upgrade=rolling_upgrade), _postponed=None)
    image = SimpleNamespace(txid=7, path=Path("fsimage_rollback_7"))
    message = []
    while answers:
        assert not StandbyRole._is_awaited(role, image)  # type: ignore[arg-type]
        message.append(sum(record.levelname == "WARNING" for record in caplog.records))
    assert message == [1, 1, 2, 2, 2, 3]
