"""The secondary role against a simulated NameNode, over real RPC and HTTP."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.errors import RoleGaveUpError
from engine.settings import ReplayRules
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, inprogress_name, segment_name
from hadoop_common.storage_info import ForeignDirectoryError, parse_version
from namenode_stub.formatting import format_storage, new_storage_info
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import (
    Secondary,
    differences,
    done,
    image_txids,
    leftovers,
    segment_names,
    sound,
)
from tests.cli_runner import fingerprint, run_cli
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.recorded_cases import replications

HEAD = ["getTransactionId", "versionRequest", "rollEditLog", "getEditLogManifest"]


@pytest.fixture
def secondary(node: NamenodeDouble, tmp_path: Path) -> Iterator[Secondary]:
    with Secondary.of(tmp_path, node) as running:
        yield running


# ---- a whole checkpoint ------------------------------------------------------------------------------------


def test_consecutive_checkpoints(node: NamenodeDouble, secondary: Secondary) -> None:
    assert [done(secondary) for _ in range(3)] == [88, 151, 172]
    assert differences(node.expected, secondary.folder / image_name(172)) == []
    assert node.image(172).read_bytes() == (secondary.folder / image_name(172)).read_bytes()
    assert image_txids(secondary.folder) == node.image_txids() == [151, 172]
    assert leftovers(secondary.folder) == []
    assert sound(secondary.folder)


def test_new_replay_rules_apply_to_all_edits_after_the_newest_image(secondary: Secondary) -> None:
    """A NameNode that starts with the new setting has the same result."""
    done(secondary)
    before = replications(secondary.folder / image_name(88))
    settings = replace(secondary.config.merge_settings, rules=ReplayRules(max_replication=1))
    secondary.role.reconfigure(replace(secondary.config, merge_settings=settings))
    done(secondary)
    found = replications(secondary.folder / image_name(151))
    assert {factor for number, factor in found.items() if number not in before} == {1}


def test_secondary_that_kept_up_continues_after_another_one(
    node: NamenodeDouble, secondary: Secondary, tmp_path: Path
) -> None:
    """The NameNode purges the secondary's image in between. Without the newest image, the secondary would start
    over.
    """
    done(secondary)
    with Secondary.of(tmp_path / "other", node) as other:
        assert [done(other) for _ in range(2)] == [151, 172]
    secondary.role.keep_up(lambda: False)
    assert image_txids(secondary.folder)[-1] == 172
    transfers = len(node.transfers())
    secondary.role.keep_up(lambda: False)
    assert len(node.transfers()) == transfers
    done(secondary)
    assert secondary.role.details().lost_past is None
    assert sound(secondary.folder)


def test_secondary_that_keeps_up_sets_a_lost_past_aside(
    node: NamenodeDouble, secondary: Secondary, tmp_path: Path
) -> None:
    """The other secondary's images do not replace the images of the lost past."""
    done(secondary)
    lost = secondary.role.latest_image()
    content = lost.read_bytes()
    node.set_back(200)
    with Secondary.of(tmp_path / "other", node) as other:
        for _ in range(3):
            done(other)
            secondary.role.keep_up(lambda: False)
    begun = secondary.role.details().lost_past
    assert begun is not None
    assert [(folder / lost.name).read_bytes() for folder in begun.set_aside] == [content]
    assert image_txids(secondary.folder) == node.image_txids()[-2:]


def test_only_missing_files_are_fetched(node: NamenodeDouble, secondary: Secondary) -> None:
    done(secondary)
    assert node.steps[: len(HEAD)] == HEAD
    assert node.transfers() == ["image", "segment-33", "segment-48", "segment-59", "upload"]
    # the requests right before the upload
    asked = ["getMostRecentCheckpointTxId", "getEditLogManifest", "look-segment-59", "upload"]
    assert node.steps[-len(asked) :] == asked
    node.steps.clear()
    done(secondary)
    assert node.transfers() == ["segment-89", "segment-111", "segment-137", "upload"]


def test_a_restart_fetches_nothing_again(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node) as first:
        done(first)
    node.steps.clear()
    with Secondary.of(tmp_path, node) as second:
        done(second)
    assert "image" not in node.steps


def test_checkpoint_is_due_without_an_image(secondary: Secondary) -> None:
    result = secondary.service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")


def test_poll_skips_until_the_period_ends(node: NamenodeDouble, tmp_path: Path) -> None:
    """The period begins at the image on disk, regardless of restarts of the daemon."""
    with Secondary.of(tmp_path, node) as first:
        done(first)
    with Secondary.of(tmp_path, node) as second:
        node.steps.clear()
        assert second.service.poll().state is TriggerState.SKIPPED
        assert node.steps == ["getTransactionId", "versionRequest", "getMostRecentCheckpointTxId"]
        newest = second.role.latest_image()
    hour_ago = newest.stat().st_mtime - 3601
    os.utime(newest, (hour_ago, hour_ago))
    with Secondary.of(tmp_path, node) as third:
        assert third.service.poll().details["reason"] == "period"


def test_poll_is_triggered_by_transactions(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node, dfs__namenode__checkpoint__txns="30") as secondary:
        result = secondary.service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "txns")


def test_segment_of_a_later_roll_is_not_merged_yet(
    node: NamenodeDouble, secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll = node.roll_edit_log

    def rolled_twice() -> int:
        first = roll()
        roll()
        return first

    monkeypatch.setattr(node, "roll_edit_log", rolled_twice)
    assert done(secondary) == 88


def test_checkpoint_with_a_hadoop_3_namenode(tmp_path: Path) -> None:
    with (
        NamenodeDouble(tmp_path / "name", "hadoop-3.4.1/segments", per_roll=8, release=3) as node,
        Secondary.of(tmp_path, node) as secondary,
    ):
        assert done(secondary) == 164
        assert differences(node.expected, secondary.folder / image_name(164)) == []


# ---- storage -----------------------------------------------------------------------------------------------


def test_several_directories_for_images_and_for_edits(node: NamenodeDouble, tmp_path: Path) -> None:
    images, edits = ([tmp_path / f"{kind}{number}" for number in range(2)] for kind in ("images", "edits"))
    values = {
        "dfs.namenode.checkpoint.dir": ",".join(map(str, images)),
        "dfs.namenode.checkpoint.edits.dir": ",".join(map(str, edits)),
    }
    with Secondary.of(tmp_path, node, **values) as secondary:
        done(secondary)
        assert done(secondary) == 151
    for root in images:
        assert image_txids(root / "current") == [88, 151]
        assert segment_names(root / "current") == []
    for root in edits:
        assert image_txids(root / "current") == []
        assert len(segment_names(root / "current")) == 6
    # another checkpoint, on top of the existing files
    with Secondary.of(tmp_path, node, **values) as secondary:
        assert done(secondary) == 172


def test_new_secondary_starts_without_its_namenode(tmp_path: Path) -> None:
    node = NamenodeDouble(tmp_path / "name")
    node.start()
    node.stop()
    with Secondary.of(tmp_path, node) as secondary:
        assert secondary.checkpoint().state is TriggerState.FAILED
        assert not secondary.service.ready().ok
        assert "cannot connect" in secondary.service.status()["error"]
        with pytest.raises(StorageError, match="not formatted"):
            secondary.role.storage_info()
        with node:
            assert done(secondary) == 88
            assert secondary.service.ready().ok
            assert secondary.role.storage_info() == node.info


def test_status_shows_the_durations_of_the_last_checkpoint(secondary: Secondary) -> None:
    done(secondary)
    seconds = secondary.service.status()["lastSeconds"]
    assert list(seconds) == ["fetch", "load", "replay", "save", "upload"]


def test_directory_with_images_but_no_version_is_rejected(node: NamenodeDouble, tmp_path: Path) -> None:
    shutil.copytree(node.folder, tmp_path / "secondary" / "current")
    for name in ("VERSION", "seen_txid"):
        (tmp_path / "secondary/current" / name).unlink()
    with pytest.raises(StorageError, match="no VERSION with their namespace"):
        Secondary.of(tmp_path, node).role.open()


@pytest.mark.parametrize("kind", ["JOURNAL_NODE", "DATA_NODE"])
def test_directory_of_another_node_is_rejected_unchanged(node: NamenodeDouble, tmp_path: Path, kind: str) -> None:
    current = tmp_path / "secondary" / "current"
    current.mkdir(parents=True)
    text = f"storageType={kind}\nclusterID=CID\nnamespaceID=1\ncTime=0\nlayoutVersion=-57\n"
    (current / "VERSION").write_text(text)
    (current / segment_name(1, 3)).write_bytes(b"")
    before = fingerprint(tmp_path / "secondary")
    with pytest.raises(ForeignDirectoryError, match=f"VERSION belongs to a {kind}") as caught:
        Secondary.of(tmp_path, node).role.open()
    assert "was not changed" in caught.value.hint
    for options in ((), ("--dry-run",)):
        outcome = run_cli("merge", tmp_path / "secondary", *options)
        assert (outcome.code, f"belongs to a {kind}" in outcome.err) == (6, True)
    with pytest.raises(ForeignDirectoryError):
        format_storage([tmp_path / "other"], [tmp_path / "secondary"], new_storage_info(-67), force=True)
    assert fingerprint(tmp_path / "secondary") == before


@pytest.mark.parametrize("evidence", ["seen_txid", "open segment"])
def test_directory_of_a_stopped_namenode_is_rejected(node: NamenodeDouble, tmp_path: Path, evidence: str) -> None:
    current = tmp_path / "secondary" / "current"
    shutil.copytree(node.folder, current)
    if evidence == "open segment":
        (current / "seen_txid").unlink()
        (current / inprogress_name(500)).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in current.iterdir()}
    with pytest.raises(StorageError, match="is not a checkpoint directory, but the directory of a NameNode") as caught:
        Secondary.of(tmp_path, node).role.open()
    assert "dfs.namenode.checkpoint.dir" in caught.value.hint
    assert {path.name: path.read_bytes() for path in current.iterdir()} == before


@pytest.mark.parametrize("seen_txid", [None, "0"])
def test_directory_of_another_secondary_is_adopted(node: NamenodeDouble, tmp_path: Path, seen_txid: str | None) -> None:
    """Hadoop's secondary writes no seen_txid; an earlier release of our secondary wrote 0."""
    current = tmp_path / "secondary" / "current"
    shutil.copytree(node.folder, current)
    (current / "seen_txid").unlink()
    if seen_txid is not None:
        (current / "seen_txid").write_text(f"{seen_txid}\n")
    for path in current.glob("edits_inprogress_*"):
        path.unlink()
    with Secondary.of(tmp_path, node) as secondary:
        assert done(secondary) == 88


def test_start_with_one_of_two_directories_unusable(node: NamenodeDouble, tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    values = {"dfs__namenode__checkpoint__dir": ",".join(map(str, roots))}
    with Secondary.of(tmp_path, node, **values) as secondary:
        done(secondary)
    away = roots[0].rename(tmp_path / "away")
    roots[0].symlink_to(tmp_path / "nowhere")
    with Secondary.of(tmp_path, node, **values) as secondary:
        assert done(secondary) == 151
        status = secondary.service.status()
        assert status["ready"]
        assert [f"storage directory {roots[0]} is not used: " in alarm for alarm in status["alarms"]] == [True]
        roots[0].unlink()
        away.rename(roots[0])
        assert done(secondary) == 172
        assert secondary.service.status()["alarms"] == []
    assert image_txids(roots[0] / "current")[-1] == 172


def test_only_directory_is_used_again_once_it_is_readable(node: NamenodeDouble, tmp_path: Path) -> None:
    """An unreadable image proves nothing, and the directory is used again automatically."""
    root = tmp_path / "secondary"
    with Secondary.of(tmp_path, node) as secondary:
        done(secondary)
        behind = secondary.service.status()["transactionsBehind"]
        root.rename(tmp_path / "away")
        for _ in range(2):
            result = secondary.service.poll()
            assert (result.state, "no checkpoint directory is left" in result.message) == (TriggerState.FAILED, True)
            status = secondary.service.status()
            assert (status["ready"], status["transactionsBehind"], status["imageTxid"]) == (False, None, 88)
        (tmp_path / "away").rename(root)
        assert secondary.service.poll().state is TriggerState.SKIPPED
        status = secondary.service.status()
        assert (status["ready"], status["transactionsBehind"], status["alarms"]) == (True, behind, [])


def test_lost_directory_is_dropped(node: NamenodeDouble, tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    with Secondary.of(tmp_path, node, dfs__namenode__checkpoint__dir=",".join(map(str, roots))) as secondary:
        done(secondary)
        shutil.rmtree(roots[0] / "current")
        assert done(secondary) == 151
        assert "is empty, but" in secondary.role.storage()[str(roots[0])]
        assert "is empty, but" in secondary.service.status()["alarms"][0]
    assert image_txids(roots[1] / "current") == [88, 151]
    # the next start uses the directory again if an operator requests it
    (roots[0] / "current").mkdir()
    with Secondary.of(tmp_path, node, dfs__namenode__checkpoint__dir=",".join(map(str, roots))) as secondary:
        assert done(secondary) == 172
    assert image_txids(roots[0] / "current") == [172]


def test_old_images_and_edits_are_deleted(node: NamenodeDouble, tmp_path: Path) -> None:
    changes = {"dfs.namenode.num.checkpoints.retained": "1", "dfs.namenode.num.extra.edits.retained": "0"}
    with Secondary.of(tmp_path, node, **changes) as secondary:
        done(secondary)
        assert done(secondary) == 151
        assert image_txids(secondary.folder) == [151]
        assert segment_names(secondary.folder) == []


# ---- the origin of a checkpoint ----------------------------------------------------------------------------


def test_another_namespace_is_rejected_before_the_roll(node: NamenodeDouble, secondary: Secondary) -> None:
    done(secondary)
    node.steps.clear()
    node.upgrade(cluster_id="CID-other")
    result = secondary.checkpoint()
    assert result.state is TriggerState.FAILED
    assert "CID-other" in result.message
    assert secondary.role.storage_info().cluster_id in result.message
    assert "rollEditLog" not in node.steps


@pytest.mark.parametrize("layout", [-52, -70])
def test_unsupported_layout_is_rejected_before_the_roll(
    node: NamenodeDouble, secondary: Secondary, layout: int
) -> None:
    node.upgrade(layout_version=layout)
    result = secondary.checkpoint()
    assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, 5)
    assert node.steps == ["getTransactionId", "versionRequest"]
    assert not secondary.folder.exists()


def test_upgrade_of_the_namenode_is_adopted(node: NamenodeDouble, secondary: Secondary) -> None:
    done(secondary)
    node.upgrade(c_time=77)
    node.steps.clear()
    assert done(secondary) == 151
    assert "image" in node.steps
    assert parse_version((secondary.folder / "VERSION").read_bytes(), "").c_time == 77
    node.steps.clear()
    assert done(secondary) == 172
    assert "image" not in node.steps


def test_rolling_upgrade_does_not_change_version(tmp_path: Path) -> None:
    with (
        NamenodeDouble(tmp_path / "name", "hadoop-3.4.1/segments", release=3) as node,
        Secondary.of(tmp_path, node) as secondary,
    ):
        done(secondary)
        before = (secondary.folder / "VERSION").read_bytes()
        node.upgrade(c_time=77)
        node.rolling_upgrade = True
        done(secondary)
        assert (secondary.folder / "VERSION").read_bytes() == before
        node.rolling_upgrade = False
        node.steps.clear()
        done(secondary)
        assert "image" not in node.steps
        assert secondary.role.storage_info() == node.info


@pytest.mark.parametrize("until", [50, 88, 200])
def test_images_of_a_lost_past_are_not_offered_after_a_set_back(
    node: NamenodeDouble, secondary: Secondary, until: int
) -> None:
    """The NameNode is behind our image, exactly at its txid, or far ahead. In each case, the secondary makes and offers
    only an image of the NameNode's current past.
    """
    done(secondary)
    lost = secondary.role.latest_image()
    content = lost.read_bytes()
    node.set_back(until)
    for _ in range(2):
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE
        assert node.image_txids()[-1] == result.details["txid"]
    begun = secondary.service.status()["lostPast"]
    (folder,) = begun["setAside"]
    assert (Path(folder) / lost.name).read_bytes() == content
    assert secondary.service.ready().ok


def test_an_image_that_the_namenode_has_is_not_offered(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node) as first:
        done(first)
    with Secondary.of(tmp_path, node) as second:
        node.steps.clear()
        assert second.service.poll().details["uploads"] == {}
        assert node.steps == ["getTransactionId", "versionRequest", "getMostRecentCheckpointTxId"]


# ---- merges that fail --------------------------------------------------------------------------------------


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
    node: NamenodeDouble, secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("disk on fire")

    with monkeypatch.context() as patch:
        patch.setattr("checkpointer.merging.engines.merge", broken)
        secondary.checkpoint()
    node.steps.clear()
    assert done(secondary) == 151
    segments = [f"segment-{first}" for first in (33, 48, 59, 89, 111, 137)]
    assert node.transfers() == ["image", *segments, "upload"]
    assert secondary.role.alarms() == []
