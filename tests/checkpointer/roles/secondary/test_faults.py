"""A secondary whose NameNode or merge fails at every step: nothing is lost, and the next checkpoint succeeds."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.errors import RoleGaveUpError
from checkpointer.transfer import UploadResult
from checkpointer.transfer.upload_target import UploadTarget
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from hadoop_rpc.errors import AccessControlError, RemoteError, RetriableError, StandbyError
from servlets.status import TriggerResult, TriggerState
from tests.checkpointer.secondary_support import Secondary, differences, done, image_txids, leftovers, sound
from tests.namenode_stub.namenode_double import Fault, NamenodeDouble
from tests.namenode_stub.stub_support import wait_until

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)

RPC_STEPS = ["getTransactionId", "versionRequest", "rollEditLog", "getEditLogManifest"]
SEGMENTS = [f"segment-{first}" for first in (89, 111, 137)]


@pytest.fixture
def secondary(node: NamenodeDouble, tmp_path: Path) -> Iterator[Secondary]:
    """A secondary that has made its first checkpoint; its second checkpoint is due."""
    with Secondary.of(tmp_path, node) as running:
        assert running.checkpoint().details["txid"] == 88
        yield running


@contextmanager
def faulty(node: NamenodeDouble, secondary: Secondary, step: str, fault: Fault) -> Iterator[None]:
    """Within this context, make a step fail, and give the secondary a short timeout for a step that hangs."""
    node.faults[step] = fault
    if fault == "hang":
        secondary.role.reconfigure(replace(secondary.config, rpc_timeout=2.0, transfer_timeout=2.0))
    yield
    secondary.role.reconfigure(secondary.config)
    node.faults.clear()
    node.release()
    node.await_calls()


def unharmed(secondary: Secondary) -> bool:
    """Check that the earlier image exists, files under final names are complete, and no unfinished file remains."""
    assert 88 in image_txids(secondary.folder)
    assert leftovers(secondary.folder) == []
    return sound(secondary.folder)


def recovers(node: NamenodeDouble, secondary: Secondary) -> bool:
    """End the fault, and check that checkpoints follow until all recorded edits are in the expected image."""
    node.faults.clear()
    for _ in range(3):
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert list(result.details["uploads"].values()) == ["SUCCESS"]
        if result.details["txid"] >= node.recorded_end:
            break
    newest = image_name(result.details["txid"])
    assert differences(node.expected, secondary.folder / newest) == []
    assert (node.folder / newest).read_bytes() == (secondary.folder / newest).read_bytes()
    assert leftovers(secondary.folder) == []
    return sound(secondary.folder)


def fails(secondary: Secondary) -> TriggerResult:
    result = secondary.checkpoint()
    assert result.state is TriggerState.FAILED, result
    assert unharmed(secondary)
    return result


# ---- calls -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut", "hang"])
@pytest.mark.parametrize("step", RPC_STEPS)
def test_recovery_after_a_call_that_is_interrupted_or_hangs(
    node: NamenodeDouble, secondary: Secondary, step: str, fault: str
) -> None:
    with faulty(node, secondary, step, fault):
        assert fails(secondary).details["exitCode"] == 7
    assert recovers(node, secondary)


@pytest.mark.parametrize(
    "error", [StandbyError("not active"), RetriableError("starting"), AccessControlError("no superuser")]
)
@pytest.mark.parametrize("step", RPC_STEPS)
def test_recovery_after_a_refused_call(
    node: NamenodeDouble, secondary: Secondary, step: str, error: RemoteError
) -> None:
    node.faults[step] = error
    assert error.text in fails(secondary).message
    assert recovers(node, secondary)


def test_safe_mode_error_of_the_namenode_is_quoted(node: NamenodeDouble, secondary: Secondary) -> None:
    node.safe_mode()
    result = fails(secondary)
    assert "Log not rolled. Name node is in safe mode." in result.message
    assert "safe mode" in result.details["hint"]
    assert "getEditLogManifest" not in node.steps[node.steps.index("upload") :]
    assert recovers(node, secondary)


def test_recovery_after_the_namenode_was_down(node: NamenodeDouble, secondary: Secondary) -> None:
    node.stop()
    fails(secondary)
    assert not secondary.service.ready().ok
    node.start()
    assert recovers(node, secondary)
    assert secondary.service.ready().ok


@pytest.mark.parametrize("gone", ["all", "first", "middle", "last"])
def test_recovery_after_a_manifest_with_a_gap(node: NamenodeDouble, secondary: Secondary, gone: str) -> None:
    firsts = {"all": (89, 111, 137), "first": (89,), "middle": (111,), "last": (137,)}[gone]
    kept = {path: path.read_bytes() for first in firsts for path in node.folder.glob(f"edits_{first:019d}-*")}
    node.faults["getEditLogManifest"] = StandbyError("wait")
    fails(secondary)
    node.faults.clear()
    node.roll_edit_log = lambda: node.segment  # type: ignore[method-assign]
    for path in kept:
        path.unlink()
    result = fails(secondary)
    assert "invalid edit log manifest" in result.message
    # a NameNode lists only the segments after a gap
    assert str(89 if gone == "middle" else firsts[0]) in result.message
    for path, content in kept.items():
        path.write_bytes(content)
    del node.roll_edit_log
    assert recovers(node, secondary)


# ---- downloads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut", "hang", "short", "digest", 403, 409, 410, 417, 500, 503])
def test_recovery_after_the_first_image_transfer_fails(node: NamenodeDouble, tmp_path: Path, fault: str | int) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        with faulty(node, secondary, "image", fault):
            for _ in range(2):
                assert secondary.checkpoint().state is TriggerState.FAILED
                assert image_txids(secondary.folder) == []
                assert leftovers(secondary.folder) == []
        assert recovers(node, secondary)


@pytest.mark.parametrize("fault", ["cut", "hang", "short", "digest", 403, 409, 410, 417, 500, 503])
@pytest.mark.parametrize("step", SEGMENTS)
def test_recovery_after_a_segment_transfer_fails(
    node: NamenodeDouble, secondary: Secondary, step: str, fault: str | int
) -> None:
    with faulty(node, secondary, step, fault):
        fails(secondary)
    before = len(node.steps)
    assert secondary.checkpoint().state is TriggerState.DONE
    # the preceding files are not fetched again
    assert node.transfers(before)[0] == step
    assert recovers(node, secondary)


@pytest.mark.parametrize("fault", ["cut", 503])
@pytest.mark.parametrize("step", ["getEditLogManifest", "segment-111"])
def test_transient_fault_is_retried_at_once(
    node: NamenodeDouble, secondary: Secondary, step: str, fault: str | int
) -> None:
    node.faults[step] = [RetriableError("starting") if fault == 503 and "segment" not in step else fault]
    result = secondary.checkpoint()
    assert (result.state, result.details["txid"]) == (TriggerState.DONE, 151)
    # Each of the two checkpoints requests the manifest twice more: for the new image, and before its upload. The
    # fetched image causes two more requests: for its presence at the NameNode, and for a proof of its past.
    assert node.steps.count(step) == (9 if step == "getEditLogManifest" else 2)
    assert recovers(node, secondary)


# ---- uploads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut", "hang", 403, 410, 500])
def test_recovery_after_the_upload_fails(node: NamenodeDouble, secondary: Secondary, fault: str | int) -> None:
    with faulty(node, secondary, "upload", fault):
        result = secondary.checkpoint()
    assert (result.state, result.details["txid"]) == (TriggerState.DONE, 151)
    assert list(result.details["uploads"].values()) == ["failed"]
    assert unharmed(secondary)
    assert node.image_txids() == [32, 88]
    node.steps.clear()
    # the upload is retried without another merge
    assert list(secondary.service.poll().details["uploads"].values()) in ([], ["SUCCESS"])
    assert "rollEditLog" not in node.steps
    assert recovers(node, secondary)


@pytest.mark.parametrize(
    ("status", "result"),
    [(409, UploadResult.OLD_TRANSACTION_ID_FAILURE), (417, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE)],
)
def test_refused_upload_is_not_an_error(
    node: NamenodeDouble, secondary: Secondary, status: int, result: UploadResult
) -> None:
    node.faults["upload"] = status
    outcome = secondary.checkpoint()
    assert outcome.state is TriggerState.DONE
    assert list(outcome.details["uploads"].values()) == [result.name]
    assert secondary.service.status()["lastError"] == ""
    assert unharmed(secondary)
    assert recovers(node, secondary)


def test_no_image_is_offered_to_a_namenode_of_another_cluster(node: NamenodeDouble, secondary: Secondary) -> None:
    with faulty(node, secondary, "upload", 500):
        secondary.checkpoint()
    node.upgrade(cluster_id="CID-other")
    node.steps.clear()
    result = secondary.service.poll()
    assert "upload" not in node.steps
    assert "belongs to another namespace" in result.message
    (alarm,) = secondary.role.alarms()
    assert "belongs to another namespace" in alarm


def test_recovery_after_the_namenode_stops_before_the_upload(
    node: NamenodeDouble, secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secondary.role, "_retain", node.stop)
    result = secondary.checkpoint()
    assert list(result.details["uploads"].values()) == ["failed"]
    target: UploadTarget = secondary.role.targets[0]
    assert (target.failures, target.txid) == (1, 88)
    monkeypatch.undo()
    node.start()
    assert recovers(node, secondary)


# ---- cancelled ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["versionRequest", "rollEditLog", "getEditLogManifest", "segment-89", "upload"])
def test_stop_ends_a_hanging_request(tmp_path: Path, step: str) -> None:
    with NamenodeDouble(tmp_path / "name") as node:
        with Secondary.of(tmp_path, node) as secondary:
            secondary.checkpoint()
            node.steps.clear()
            node.faults[step] = "hang"
            results: list[TriggerResult] = []
            attempt = threading.Thread(target=lambda: results.append(secondary.checkpoint()))
            attempt.start()
            wait_until(step, lambda: step in node.steps)
            secondary.service.stop()
            attempt.join()
            assert results[0].state is TriggerState.UNAVAILABLE
            assert unharmed(secondary)
        node.release()
        with Secondary.of(tmp_path, node) as again:
            assert recovers(node, again)


def test_status_is_reported_while_the_disk_fails(secondary: Secondary, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("VERSION"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path, **options)

    before = secondary.service.status()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", stat)
        assert secondary.service.status()["storage"] == before["storage"]


def test_too_many_failed_merges_end_the_daemon(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StorageError("it does not fit")

    with Secondary.of(tmp_path, node, **{"dfs.namenode.checkpoint.max-retries": "2"}) as secondary:
        monkeypatch.setattr("checkpointer.merging.engines.merge", broken)
        for failed in range(1, 3):
            assert secondary.checkpoint().message == "it does not fit"
            assert secondary.role.details().merge_errors == failed
            assert not secondary.service.ready().ok
        result = secondary.checkpoint()
        fault = secondary.service.fault
        assert isinstance(fault, RoleGaveUpError)
        assert fault.exit_code == 1
        assert "failed merges since the last success: 3" in result.message


def test_all_files_are_fetched_again_after_a_failed_merge(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("disk on fire")

    with Secondary.of(tmp_path, node) as secondary:
        with monkeypatch.context() as patch:
            patch.setattr("checkpointer.merging.engines.merge", broken)
            secondary.checkpoint()
        node.steps.clear()
        assert done(secondary) == 151
        segments = [f"segment-{first}" for first in (33, 48, 59, 89, 111, 137)]
        assert node.transfers() == ["image", *segments, "upload"]
        assert secondary.role.alarms() == []


def test_own_image_that_the_namenode_lacks_is_used_after_a_failed_merge(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NameNode's edits prove the image, so checkpoints do not depend on a restart of the daemon."""

    def broken(*_: object, **__: object) -> None:
        raise OSError("disk on fire")

    node.keeps_edits = True
    # no image that precedes the NameNode's image is left
    with Secondary.of(tmp_path, node, dfs__namenode__num__checkpoints__retained="1") as secondary:
        assert done(secondary) == 88
        with monkeypatch.context() as patch:
            patch.setattr("checkpointer.merging.engines.merge", broken)
            assert secondary.checkpoint().state is TriggerState.FAILED
        node.faults["image"] = 404
        assert done(secondary) > 88
        assert sound(secondary.folder)
