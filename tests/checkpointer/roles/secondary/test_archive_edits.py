"""Edits that a secondary fetches only for its archive: those before an image that the NameNode saved itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from archive.archive import open_archive
from archive.following import ArchivePosition
from checkpointer.archiving.messages import ArchiveSource
from checkpointer.archiving.worker import Rounds
from checkpointer.roles.secondary.fetch import Fetcher
from checkpointer.set_back.proof import set_back
from checkpointer.transfer import download_segment
from checkpointer.transfer.common import TransferCancelledError
from engine.observer import SilentObserver
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.names import parse_segment, segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcConnectionError
from hadoop_rpc.namenode_protocol import EditLogManifest, NamenodeClient
from servlets.received_files import ReceivedFile
from servlets.status import TriggerState
from site_config.archive_settings import ArchiveSettings
from tests.checkpointer.secondary_support import Secondary, done, segment_names
from tests.journal.journal_support import segment_bytes, some_ops
from tests.namenode_stub.namenode_double import NamenodeDouble


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


def test_edits_for_the_archive_are_fetched_after_a_kill_before_the_upload(node: NamenodeDouble, tmp_path: Path) -> None:
    """Neither our files nor the memory of the process show any longer which edits are missing."""
    changes = {"dfs__namenode__num__extra__edits__retained": "0", **archived(tmp_path)}
    with Secondary.of(tmp_path, node, **changes) as secondary:
        done(secondary)
        node.save_namespace()
        secondary.role.checkpoint(SilentObserver())
        assert segment_names(secondary.folder)[0] > segment_name(111, 0)[:25]
    with Secondary.of(tmp_path, node, **changes) as secondary:
        offers = secondary.role.upload(lambda: False, lambda: None, force=True)
        assert [each.result for each in offers] == ["SUCCESS"]
        assert not list(node.folder.glob(segment_name(89, 0)[:25] + "*"))
        names = segment_names(secondary.folder)
        assert names[0].startswith(segment_name(89, 0)[:25])
        assert not has_gap(names)
        node.steps.clear()
        done(secondary)
        assert "segment-89" not in node.steps


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


def test_edits_for_the_archive_after_a_kill_are_not_mixed_with_a_lost_past(
    node: NamenodeDouble, tmp_path: Path
) -> None:
    """The NameNode was set back while the node was down, and has newer transactions than our image."""
    changes = {"dfs__namenode__num__extra__edits__retained": "0", **archived(tmp_path)}
    with Secondary.of(tmp_path, node, **changes) as secondary:
        done(secondary)
        node.save_namespace()
        secondary.role.checkpoint(SilentObserver())
        ours = segment_names(secondary.folder)
    node.set_back(200)
    node.roll_edit_log()
    node.steps.clear()
    with Secondary.of(tmp_path, node, **changes) as secondary:
        secondary.role.prepare()
        with suppress(HdfsError):
            list(secondary.role.upload(lambda: False, lambda: None, force=True))
        assert not any(step.startswith("segment") for step in node.steps)
        assert segment_names(secondary.folder) == ours


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
