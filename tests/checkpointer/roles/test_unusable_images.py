"""Files that are named like images but are not images: all roles ignore them, and conclude nothing from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkpointer.storage.inspector import inspect
from checkpointer.storage.usable_images import unusable
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, md5_name, segment_name
from servlets.status import TriggerState
from tests.checkpointer.backup_support import Daemon, backup_config
from tests.checkpointer.image_damages import ALL, FAR, OLD, cut, dangling, directory, empty_digest, pipe, wrong_digest
from tests.checkpointer.secondary_support import Secondary, differences, image_txids
from tests.checkpointer.storage_support import (
    Damage,
    damage_all,
    damage_content,
    damage_digest,
    damage_frame,
    refuse_to_load,
)
from tests.namenode_stub.namenode_double import NamenodeDouble, streaming_double


@pytest.mark.parametrize("txid", [OLD, FAR], ids=["old", "far"])
@pytest.mark.parametrize("damage", ALL)
def test_secondary_ignores_an_unusable_image(node: NamenodeDouble, tmp_path: Path, damage: Damage, txid: int) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        assert secondary.checkpoint().details["txid"] == 88
    damage(secondary.folder / image_name(txid))
    with Secondary.of(tmp_path, node) as secondary:
        secondary.service.poll()
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert list(result.details["uploads"].values()) == ["SUCCESS"]
        assert node.image_txids()[-1] == result.details["txid"]
        assert secondary.role.details().lost_past is None
        assert secondary.role.progress().image_txid == result.details["txid"]
    # an old image with an intact frame is removed like any other old image
    assert os.path.lexists(secondary.folder / image_name(txid)) or (damage is wrong_digest and txid == OLD)


def test_damaged_own_image_is_not_offered_and_causes_no_lost_past(node: NamenodeDouble, tmp_path: Path) -> None:
    node.faults["upload"] = 500
    with Secondary.of(tmp_path, node) as secondary:
        txid = secondary.checkpoint().details["txid"]
    node.faults.clear()
    damaged = secondary.folder / image_name(txid)
    content = bytearray(damaged.read_bytes())
    content[200] ^= 1
    damaged.write_bytes(content)
    (secondary.folder / md5_name(damaged.name)).write_text(f"{'0' * 32} *{damaged.name}\n")
    with Secondary.of(tmp_path, node) as secondary:
        secondary.service.poll()
        assert txid not in node.image_txids()
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert secondary.role.details().lost_past is None
        assert node.image_txids()[-1] == result.details["txid"]


@pytest.mark.parametrize("damage", [directory, cut, empty_digest, wrong_digest])
def test_backup_ignores_an_unusable_image(tmp_path: Path, damage: Damage) -> None:
    with streaming_double(tmp_path / "nn") as node:
        config = backup_config(tmp_path / "backup", node.rpc_port, node.http_port)
        with Daemon(config) as daemon:
            daemon.follow()
            node.write(5)
            daemon.service.request(force=True, wait=True)
        damage(tmp_path / "backup/current" / image_name(FAR))
        with Daemon(config) as daemon:
            daemon.follow()
            node.write(5)
            result = daemon.service.request(force=True, wait=True)
            assert result.state is TriggerState.DONE, result
            assert node.image_txids()[-1] == result.details["txid"]
            assert daemon.service.status()["lostPast"] is None


def test_backup_continues_from_an_older_image_if_the_newest_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with streaming_double(tmp_path / "nn") as node:
        with Daemon(backup_config(tmp_path / "backup", node.rpc_port, node.http_port)) as daemon:
            daemon.follow()
            node.write(5)
            newest = daemon.folder / image_name(daemon.service.request(force=True, wait=True).details["txid"])
        refuse_to_load(monkeypatch, newest)
        with Daemon(daemon.config) as daemon:
            daemon.follow()
            node.write(5)
            assert daemon.service.request(force=True, wait=True).state is TriggerState.FAILED
            daemon.follow()
            result = daemon.service.request(force=True, wait=True)
            assert result.state is TriggerState.DONE, result
            assert node.image_txids()[-1] == result.details["txid"]


@pytest.mark.parametrize("damage", ["content", "cut", "missing"])
def test_secondary_continues_from_an_older_image_of_the_namenode(
    node: NamenodeDouble, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        older, newest = (secondary.checkpoint().details["txid"] for _ in range(2))
        (secondary.folder / image_name(newest)).unlink()
        path = node.image(newest)
        content = path.read_bytes()
        if damage == "missing":
            node.faults["image"] = 404
        else:
            path.write_bytes(content[:-9] if damage == "cut" else content[:200] + b"\xff" * 9 + content[209:])
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert result.details["txid"] > newest
        assert node.image_txids()[-1] == result.details["txid"]
        assert f"continuing from the image before it, at txid {older}" in caplog.text
        assert secondary.role.details().lost_past is None
        assert differences(node.expected, secondary.folder / image_name(result.details["txid"])) == []


def test_secondary_continues_from_its_own_image_that_the_namenode_has_purged(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The NameNode saved images itself, and the newest image is damaged; the NameNode's edits prove our older image."""
    node.keeps_edits = True
    with Secondary.of(tmp_path, node) as secondary:
        own = secondary.checkpoint().details["txid"]
        for _ in range(2):
            node.save_namespace()
        assert own not in node.image_txids()
        damage_content(node.image(node.image_txids()[-1]))
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert f"continuing from the image before it, at txid {own}" in caplog.text
        assert node.image_txids()[-1] == result.details["txid"]
        assert secondary.role.details().lost_past is None
        assert differences(node.expected, secondary.folder / image_name(result.details["txid"])) == []


def test_secondary_continues_from_an_older_image_if_its_newest_is_damaged_too(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node.keeps_edits = True
    with Secondary.of(tmp_path, node) as secondary:
        older, own = (secondary.checkpoint().details["txid"] for _ in range(2))
        assert image_txids(secondary.folder)[-2:] == [older, own]
        for _ in range(2):
            node.save_namespace()
        damage_content(secondary.folder / image_name(own))
        damage_content(node.image(node.image_txids()[-1]))
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert f"continuing from the image before it, at txid {older}" in caplog.text
        assert differences(node.expected, secondary.folder / image_name(result.details["txid"])) == []


def test_image_of_another_past_does_not_replace_a_damaged_image_of_the_namenode(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    node.keeps_edits = True
    with Secondary.of(tmp_path, node) as secondary:
        own = secondary.checkpoint().details["txid"]
        node.set_back(own + 40)
        for _ in range(2):
            node.save_namespace()
        damage_content(node.image(node.image_txids()[-1]))
        result = secondary.checkpoint()
        assert result.state is TriggerState.FAILED
        assert "Do not restart the NameNode before it has another image" in result.details["hint"]
        # until the NameNode's image is stored, ours remains in place, but is not used
        assert own in image_txids(secondary.folder)
        with pytest.raises(StorageError, match="do not belong to the NameNode's past"):
            secondary.role.latest_image()


@pytest.mark.parametrize("ruin", [damage_frame, damage_content, damage_digest])
def test_secondary_whose_images_are_all_damaged_continues_from_the_namenode(
    node: NamenodeDouble, tmp_path: Path, ruin: Damage
) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        for _ in range(2):
            assert secondary.checkpoint().state is TriggerState.DONE
        damage_all(secondary.folder, ruin)
        assert secondary.checkpoint().state is TriggerState.DONE
    damage_all(secondary.folder, ruin)
    with Secondary.of(tmp_path, node) as secondary:
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert node.image_txids()[-1] == result.details["txid"]


@pytest.mark.parametrize("uploaded", [False, True])
@pytest.mark.parametrize("ruin", [damage_frame, damage_content])
def test_shadow_mode_continues_from_the_namenode_if_all_images_are_damaged(
    node: NamenodeDouble, tmp_path: Path, ruin: Damage, uploaded: bool
) -> None:
    """Another checkpointer may have uploaded an image with the same name as the image that this daemon made."""
    with Secondary.of(tmp_path, node, checkpointer__shadow="true") as secondary:
        node.roll_edit_log()
        made = secondary.checkpoint().details["txid"]
        if uploaded:
            node.take(made, (secondary.folder / image_name(made)).read_bytes())
    damage_all(secondary.folder, ruin)
    with Secondary.of(tmp_path, node, checkpointer__shadow="true") as secondary:
        node.roll_edit_log()
        # the first attempt finds damage in the content
        results = [secondary.checkpoint() for _ in range(2)]
        assert TriggerState.DONE in [result.state for result in results], results
        newest = secondary.role.progress().image_txid
        assert newest > made
        assert [each for each in unusable(inspect(secondary.folder.parent)) if image_name(newest) in each] == []


@pytest.mark.parametrize("damage", ["directory", "pipe", "dangling", "empty", "zeros", "text"])
def test_secondary_ignores_files_named_like_segments(node: NamenodeDouble, tmp_path: Path, damage: str) -> None:
    with Secondary.of(tmp_path, node) as secondary:
        secondary.checkpoint()
        secondary.checkpoint()
    # some segments are adjacent to the NameNode's segments, and some overlap them
    for name in (segment_name(100, 140), segment_name(FAR, FAR + 9)):
        path = secondary.folder / name
        if damage in ("directory", "pipe", "dangling"):
            {"directory": directory, "pipe": pipe, "dangling": dangling}[damage](path)
        else:
            path.write_bytes({"empty": b"", "zeros": bytes(5000), "text": b"no segment, this"}[damage])
    with Secondary.of(tmp_path, node) as secondary:
        secondary.service.poll()
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert node.image_txids()[-1] == result.details["txid"]
        assert secondary.role.details().lost_past is None
