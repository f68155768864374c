"""The secondary role against a simulated NameNode, over real RPC and HTTP."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.daemon.blueprints import daemon_blueprints, transfer_options
from checkpointer.roles.secondary.storage import SecondaryStorage
from engine.settings import ReplayRules
from hadoop_common.access import AccessControl
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from servlets.application import create_application
from servlets.image_transfer_servlet import ServingLimits
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import (
    Secondary,
    differences,
    done,
    image_txids,
    leftovers,
    secondary_config,
    sound,
)
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.recorded_cases import replications

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


def test_the_status_does_not_wait_for_a_namenode_that_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Secondary(secondary_config(tmp_path, port, port)) as secondary:
            state = secondary.service.status()
            assert (state["ready"], state["alarms"], state["error"]) == (False, [], None)
            assert (
                state["message"]
                == secondary.service.ready().message
                == "starting: the first poll waits for the NameNode"
            )
            assert secondary.service.live().ok
            secondary.service.cancel("maintenance")
            assert "checkpoints are blocked for" in secondary.service.ready().message
            secondary.service.cancel("", prevent_for=0)
            silent.close()
            secondary.service.poll()
            assert "cannot connect" in secondary.service.ready().message


def test_a_failure_before_the_first_query_of_the_namenode_is_an_alarm(
    secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: SecondaryStorage) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(SecondaryStorage, "revise", fail)
        for _ in range(2):
            secondary.service.poll()
            state = secondary.service.status()
            assert (state["ready"], state["error"]) == (False, "the disk is gone")
            assert "the disk is gone" in state["alarms"]
            assert state["alarmKinds"]["the disk is gone"] == "unreadable"
    secondary.service.poll()
    assert secondary.service.status()["error"] is None


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


def test_checkpoint_is_due_without_an_image(secondary: Secondary) -> None:
    result = secondary.service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")


def test_poll_skips_until_the_period_ends(node: NamenodeDouble, tmp_path: Path) -> None:
    """The period begins at the time of the image on disk, regardless of restarts of the daemon."""
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


@pytest.mark.parametrize("separate", [False, True])
def test_beans_show_the_directories_of_images_and_of_edits(
    node: NamenodeDouble, tmp_path: Path, separate: bool
) -> None:
    changes = {"dfs__namenode__checkpoint__edits__dir": str(tmp_path / "edits")} if separate else {}
    with Secondary.of(tmp_path, node, **changes) as secondary:
        limits = ServingLimits(transfer_options(secondary.config), secondary.role.counter)
        parts = daemon_blueprints(secondary.role, secondary.service, secondary.config, limits, AccessControl())
        name = "Hadoop:service=SecondaryNameNode,name=SecondaryNameNodeInfo"
        (bean,) = create_application(*parts).test_client().get("/jmx", query_string={"qry": name}).get_json()["beans"]
    assert bean["CheckpointDirectories"] == [f"file://{tmp_path}/secondary"]
    assert bean["CheckpointEditlogDirectories"] == [f"file://{tmp_path}/{'edits' if separate else 'secondary'}"]
