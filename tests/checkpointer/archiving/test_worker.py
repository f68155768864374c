"""The process that fills an archive: its search for removed objects, and its temporary folder when it hangs."""

from __future__ import annotations

import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from unittest import mock

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from archive.catalogue import IMAGES
from archive.following import ArchiveFollower
from archive.scratch import SCRATCH_PREFIX
from checkpointer.archiving.messages import ArchiveReport, ArchiveSource
from checkpointer.archiving.worker import Inbox, Rounds
from checkpointer.daemon.archive_process import ArchiveProcess
from hadoop_common.names import image_name
from site_config.archive_settings import ArchiveSettings
from tests.archive.open_segment import found
from tests.archive.storage import segment, storage
from tests.checkpointer.service_support import standby_config
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


def test_hanging_process_removes_its_folder_before_it_exits(tmp_path: Path) -> None:
    scratch, ended = tmp_path / f"{SCRATCH_PREFIX}1", threading.Event()
    scratch.mkdir()
    (scratch / "edits").write_bytes(b"decrypted")
    with (
        mock.patch("checkpointer.archiving.worker._GRACE_SECONDS", 0),
        mock.patch("checkpointer.archiving.worker.gettempdir", return_value=str(scratch)),
        mock.patch("checkpointer.archiving.worker.os._exit", side_effect=lambda code: ended.set()),
    ):
        Inbox(BytesIO())
        assert ended.wait(600)
    assert not scratch.exists()


def test_removed_object_is_found_within_an_hour(tmp_path: Path) -> None:
    nn, place = storage(tmp_path / "nn"), tmp_path / "archive"
    current = nn / "current"
    source = ArchiveSource((current,), (current,), BASE_TXID, current / image_name(BASE_TXID))
    segment(nn, BASE_TXID, mkdir("/a", 20001))
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        position = rounds.make(source)
        assert position is not None
        assert rounds.lost == ""
        (place / archive.catalogue().edits[0].name).unlink()
        rounds.make(source)
        # the archive is listed only once an hour
        assert rounds.lost == ""
        rounds._searched_at = None
        rounds.make(source)
        assert rounds.lost == archive.catalogue().edits[0].name
    process = ArchiveProcess(standby_config(**{"checkpointer.archive.dir": str(place)}))
    report = ArchiveReport(position.branch, position.last_txid, position.restorable_txid, complete=True)
    for lost in (rounds.lost, ""):
        process._reported(replace(report, lost=lost))
        assert [rounds.lost in alarm for alarm in process.alarms()] == [True] * bool(lost)


def test_object_that_another_process_replaces_during_the_search_is_not_lost(tmp_path: Path) -> None:
    nn, place = storage(tmp_path / "nn"), tmp_path / "archive"
    segment(nn, segment(nn, BASE_TXID, mkdir("/a", 20001)), mkdir("/b", 20002))
    with open_archive(str(place)) as archive:
        add_directory(archive, nn)
        follower = ArchiveFollower(archive, AddOptions())
        follower.follow(found(nn))
        first, second = archive.catalogue().edits
        sizes = archive.store.sizes

        def absorbed(folder: str) -> dict[str, int]:
            if folder == IMAGES:
                archive.publish(archive.catalogue(), remove=[second.name])
                archive.store.remove(second.name)
            return sizes(folder)

        with mock.patch.object(archive.store, "sizes", absorbed):
            assert follower.lost_objects() == []
        (place / first.name).unlink()
        assert follower.lost_objects() == [first.name]
        archive.publish(archive.catalogue(), remove=[first.name])
        assert follower.lost_objects() == []
