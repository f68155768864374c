"""Files that a secondary fetches: images, edits, and edits for the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.names import image_name
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, sound
from tests.namenode_stub.namenode_double import NamenodeDouble


def test_a_damaged_image_is_fetched_again(node: NamenodeDouble, tmp_path: Path) -> None:
    with Secondary.of(tmp_path, node) as first:
        done(first)
        path = first.folder / image_name(88)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    node.steps.clear()
    with Secondary.of(tmp_path, node) as second:
        assert done(second) == 151
        assert sound(second.folder)
    assert "image" in node.steps


@pytest.mark.parametrize("cut", [0, 5, -7])
def test_a_damaged_segment_is_fetched_again(node: NamenodeDouble, tmp_path: Path, cut: int) -> None:
    with Secondary.of(tmp_path, node) as first:
        node.faults["segment-59"] = 500
        assert first.checkpoint().state is TriggerState.FAILED
        path = next(first.folder.glob("edits_*048-*"))
        path.write_bytes(path.read_bytes()[:cut])
        node.faults.clear()
        node.steps.clear()
        assert done(first) == 151
    assert node.transfers() == [*(f"segment-{number}" for number in (48, 59, 89, 111, 137)), "upload"]


HEAD = ["getTransactionId", "versionRequest", "rollEditLog", "getEditLogManifest"]


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
