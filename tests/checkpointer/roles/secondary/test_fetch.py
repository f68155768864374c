"""Files that a secondary fetches: images, edits, and edits for the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkpointer.transfer import download_segment
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, parse_segment
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcConnectionError
from hadoop_rpc.namenode_protocol import EditLogManifest, NamenodeClient
from servlets.received_files import ReceivedFile
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, secondary, segment_names, sound
from tests.namenode_stub.namenode_double import NamenodeDouble

__all__ = ["secondary"]


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


def edits_after_the_namenode_saved_an_image(node: NamenodeDouble, folder: Path, **changes: str) -> list[str]:
    """Make a checkpoint at txid 88, then a checkpoint from an image that the NameNode saved; return our segments."""
    with Secondary.of(folder, node, **changes) as secondary:
        assert done(secondary) == 88
        node.save_namespace()
        node.save_namespace()
        secondary.role.keep_up(lambda: False)
        done(secondary)
        assert set(secondary.role.storage().values()) == {"in use"}
        return segment_names(secondary.config.edits_directories[0] / "current")


def has_gap(names: list[str]) -> bool:
    found = [each for each in map(parse_segment, names) if each and each.last]
    return [each.first for each in found[1:]] != [each.last + 1 for each in found[:-1] if each.last]


def archived(folder: Path) -> dict[str, str]:
    return {"checkpointer__archive__dir": str(folder / "archive")}


def test_edits_before_an_image_of_the_namenode_are_fetched_for_the_archive(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    """The NameNode has them, so the archive need not have a gap."""
    node.keeps_edits = True
    names = edits_after_the_namenode_saved_an_image(node, tmp_path / "a", **archived(tmp_path))
    assert not has_gap(names)
    assert len(names) > 3
    segments = [int(step.split("-")[1]) for step in node.transfers() if step.startswith("segment")]
    # the checkpoint does not wait for edits that only the archive needs
    assert segments.index(89) > segments.index(max(segments))


@pytest.mark.parametrize("why", ["no archive", "purged", "fault", "no manifest"])
def test_a_checkpoint_does_not_depend_on_edits_for_the_archive(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    node.keeps_edits = why != "purged"
    if why == "fault":
        node.faults["segment-89"] = 500
    if why == "no manifest":
        ask = NamenodeClient.edit_log_manifest

        def refused(client: NamenodeClient, since: int) -> EditLogManifest:
            if 0 < since < node.checkpoint_txid > 88:
                raise RpcConnectionError("the connection was closed")
            return ask(client, since)

        monkeypatch.setattr(NamenodeClient, "edit_log_manifest", refused)
    changes = {} if why == "no archive" else archived(tmp_path)
    names = edits_after_the_namenode_saved_an_image(node, tmp_path / "a", **changes)
    assert has_gap(names)
    assert not any(name.startswith("edits_0000000000000000089") for name in names)


@pytest.mark.parametrize("full", [1, 2])
def test_a_directory_that_cannot_store_edits_for_the_archive_remains_in_use(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    node.keeps_edits = True
    roots = [tmp_path / "edits1", tmp_path / "edits2"]

    def refusing(
        url: str, first: int, last: int, info: StorageInfo, folders: list[Path], **options: Any
    ) -> ReceivedFile:
        stored = [each for each in folders if first != 89 or each.parent not in roots[-full:]]
        if not stored:
            raise StorageError("no directory accepts the file: No space left on device")
        return download_segment(url, first, last, info, stored, **options)

    monkeypatch.setattr("checkpointer.roles.secondary.fetch.download_segment", refusing)
    changes = {"dfs__namenode__checkpoint__edits__dir": ",".join(map(str, roots)), **archived(tmp_path)}
    names = edits_after_the_namenode_saved_an_image(node, tmp_path / "a", **changes)
    assert has_gap(names) == (full == 2)


def test_segments_for_the_archive_that_failed_are_fetched_by_the_next_checkpoint(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    node.keeps_edits = True
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()
        node.save_namespace()
        node.faults["segment-89"] = 500
        done(secondary)
        assert has_gap(segment_names(secondary.folder))
        node.faults.clear()
        done(secondary)
        assert not has_gap(segment_names(secondary.folder))


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
