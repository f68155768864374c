"""Directories of a secondary: damaged files, retention, and directories that are refused, adopted or dropped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from archive.archive import open_archive
from archive.following import ArchivePosition
from checkpointer.archiving.messages import ArchiveSource
from checkpointer.archiving.worker import Rounds
from checkpointer.daemon.blueprints import daemon_blueprints, transfer_options
from checkpointer.roles.secondary.fetch import Fetcher
from checkpointer.set_back.proof import set_back
from checkpointer.transfer import download_segment
from checkpointer.transfer.common import TransferCancelledError
from hadoop_common.access import AccessControl
from hadoop_common.configuration import ConfigurationError
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, inprogress_name, parse_segment, segment_name
from hadoop_common.storage_info import ForeignDirectoryError, StorageInfo
from hadoop_rpc.errors import RpcConnectionError
from hadoop_rpc.namenode_protocol import EditLogManifest, NamenodeClient
from namenode_stub.formatting import format_storage, new_storage_info
from servlets.application import create_application
from servlets.image_transfer_servlet import ServingLimits
from servlets.received_files import ReceivedFile
from servlets.status import TriggerState
from site_config.archive_settings import ArchiveSettings
from tests.checkpointer.secondary_support import (
    Secondary,
    done,
    image_txids,
    secondary,
    secondary_config,
    segment_names,
    sound,
)
from tests.cli_runner import fingerprint, run_cli
from tests.journal.journal_support import segment_bytes, some_ops
from tests.namenode_stub.namenode_double import NamenodeDouble

__all__ = ["secondary"]

# ---- damaged files in the directories ----------------------------------------------------------------------


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


# ---- directories in the bean of Hadoop's secondary ---------------------------------------------------------


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


# ---- edits for the archive ---------------------------------------------------------------------------------


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
    """The NameNode purges them once it has our next image."""
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()
        done(secondary)
        assert not list(node.folder.glob(segment_name(89, 0)[:25] + "*"))
        assert not has_gap(segment_names(secondary.folder))
        assert node.steps.index("segment-89") < max(at for at, step in enumerate(node.steps) if step == "upload")


@pytest.mark.parametrize("why", ["no archive", "purged", "fault", "no manifest"])
def test_a_checkpoint_does_not_depend_on_edits_for_the_archive(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    node.keeps_edits = why != "purged"
    # the NameNode's process proves our image, so that this node does not start over
    node.started_at = 1000
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
    assert caplog.text.count("the archive may lack") == (why != "no archive")


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


@pytest.mark.parametrize(("fault", "tried"), [(500, [89, 111]), ("digest", [89, 111]), ("cut", [89])])
def test_edits_for_the_archive_that_failed_are_fetched_before_the_next_offer(
    node: NamenodeDouble, tmp_path: Path, fault: str | int, tried: list[int]
) -> None:
    """A damaged segment does not prevent the fetch of others, but a broken connection does."""
    node.keeps_edits = True
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()
        node.save_namespace()
        node.faults |= {"segment-89": fault, "upload": 500}
        assert secondary.checkpoint().state is TriggerState.DONE
        assert [each for each in (89, 111) if f"segment-{each}" in node.steps] == tried
        assert has_gap(segment_names(secondary.folder))
        node.faults.clear()
        node.steps.clear()
        offers = secondary.role.upload(lambda: False, lambda: None, force=True)
        assert [each.result for each in offers] == ["SUCCESS"]
        assert not has_gap(segment_names(secondary.folder))
        transfers = node.transfers()
        assert (transfers[0], transfers[-1]) == ("segment-89", "upload")


def test_edits_that_the_archive_lacks_are_reported(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names them once; the archive counts them, as `/status` shows."""
    node.started_at = 1000
    with (
        open_archive(str(tmp_path / "archive")) as archive,
        Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary,
    ):
        rounds = Rounds(archive, ArchiveSettings(), None)

        def position(confirmations: int) -> ArchivePosition:
            image = secondary.role.latest_image()
            source = ArchiveSource((secondary.folder,), (secondary.folder,), 0, image, confirmations)
            found = rounds.make(source)
            assert found is not None
            return found

        done(secondary)
        assert position(1).missing == 0
        node.save_namespace()
        node.save_namespace()
        done(secondary)
        assert caplog.text.count("the archive may lack the transactions 89 to 110") == 1
        assert position(2).missing == 110 - 88
        done(secondary)
        assert caplog.text.count("the archive may lack") == 1


def test_segment_of_another_past_is_fetched_again_for_the_archive(node: NamenodeDouble, tmp_path: Path) -> None:
    """A merge failed, the NameNode was set back, and its new segment has the same bounds; then it saved an image."""
    node.keeps_edits = True
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()
        node.save_namespace()
        name = next(path.name for path in node.folder.iterdir() if path.name.startswith(segment_name(89, 0)[:25]))
        parsed = parse_segment(name)
        assert parsed is not None
        assert parsed.last is not None
        lost = secondary.folder / name
        lost.write_bytes(segment_bytes(some_ops(parsed.first, parsed.last - parsed.first + 1), -63))
        done(secondary)
        assert lost.read_bytes() == (node.folder / name).read_bytes()
        node.steps.clear()
        done(secondary)
        # segments that were merged are not compared again
        assert f"look-segment-{parsed.first}" not in node.steps


def test_checkpoint_is_done_if_only_the_fetch_for_the_archive_is_cancelled(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.keeps_edits = True
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()
        node.save_namespace()

        def cancelled(*_: object) -> None:
            raise TransferCancelledError("nn1", "the daemon is stopping")

        with monkeypatch.context() as patched:
            patched.setattr(Fetcher, "supply", cancelled)
            # the image is stored and uploaded
            assert done(secondary) == node.image_txids()[-1]
        assert has_gap(segment_names(secondary.folder))
        # the next poll continues
        secondary.service.poll()
        assert not has_gap(segment_names(secondary.folder))


def test_edits_for_the_archive_are_not_mixed_with_a_lost_past(
    node: NamenodeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fetch was cancelled, then the node had to start over."""
    node.keeps_edits = True
    with Secondary.of(tmp_path, node, **archived(tmp_path)) as secondary:
        done(secondary)
        node.save_namespace()

        def cancelled(*_: object) -> None:
            raise TransferCancelledError("nn1", "the daemon is stopping")

        with monkeypatch.context() as patched:
            patched.setattr(Fetcher, "supply", cancelled)
            done(secondary)
        ours = segment_names(secondary.folder)
        secondary.role._guard.start_over(set_back("the edits differ"))
        node.steps.clear()
        assert list(secondary.role.upload(lambda: False, lambda: None, force=True)) == []
        assert not any(step.startswith("segment") for step in node.steps)
        assert segment_names(secondary.folder) == ours


# ---- configuration -----------------------------------------------------------------------------------------


def test_edits_are_stored_with_the_images_by_default(tmp_path: Path) -> None:
    config = secondary_config(tmp_path, 1, 2)
    assert config.edits_directories == config.image_directories == (tmp_path / "secondary",)


def test_directories_of_a_nameservice(tmp_path: Path) -> None:
    scoped = {"dfs.nameservices": "ns", "dfs.namenode.checkpoint.dir.ns": "/images"}
    config = secondary_config(tmp_path, 1, 2, **scoped)
    assert config.edits_directories == config.image_directories == (Path("/images"),)
    # a site file may contain Hadoop's default as a value, or as part of a value
    for own, paths in (("", ["/images"]), ("/e,/f", ["/images/e", "/f"])):
        edits = {"dfs.namenode.checkpoint.edits.dir": f"${{dfs.namenode.checkpoint.dir}}{own}"}
        config = secondary_config(tmp_path, 1, 2, **scoped, **edits)
        assert config.edits_directories == tuple(map(Path, paths))


def test_secondary_of_an_ha_nameservice_is_rejected(tmp_path: Path) -> None:
    values = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "nn1,nn2",
        "dfs.namenode.rpc-address.ns.nn1": "one:8020",
        "dfs.namenode.rpc-address.ns.nn2": "two:8020",
    }
    with pytest.raises(ConfigurationError, match="use --role standby"):
        secondary_config(tmp_path, 1, 2, **values)


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
        assert "Mount its file system." in secondary.service.request(force=True, wait=True).details["hint"]
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
