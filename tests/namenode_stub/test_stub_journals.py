"""The journals of a NameNode: writes, and the reports to checkpointers when the journals differ."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.transfer import download_segment
from hadoop_common.errors import StorageError
from hadoop_common.names import segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.namenode_protocol import NamenodeClient
from journal.edit_log_writer import EditLogWriter
from journal.errors import TransactionGapError
from journal.journal_set import JournalSet
from namenode_stub.config import StubConfig
from namenode_stub.edit_journals import check_shared_edits, journal_name, open_edit_journals, open_other_journals
from namenode_stub.image_store import local_segments, manifest
from namenode_stub.node import NameNodeStub
from namenode_stub.storage import StorageLocks, check_storage
from tests.checkpointer.quorum_support import Quorum, quorum
from tests.namenode_stub.ha_support import paths, running, status
from tests.namenode_stub.stub_support import formatted, stub_config_for, uris, wait_until

__all__ = ["quorum"]

NOBODY = "qjournal://127.0.0.1:1;127.0.0.1:2;127.0.0.1:3/ns1"
WHOLE = ((1, 3), (4, 6), (7, 9))


@pytest.fixture
def locks() -> Iterator[StorageLocks]:
    taken = StorageLocks()
    yield taken
    taken.release()


def opened(config: StubConfig, locks: StorageLocks) -> tuple[JournalSet, StorageInfo]:
    """Return the recovered journals of `config`, with locked directories."""
    for directory in config.storage_directories:
        locks.take(directory)
    info = check_storage(config.storage_directories)
    journals = open_edit_journals(config, locks.held, info)
    journals.recover(info)
    return journals, info


def lose(folder: Path, *segments: tuple[int, int]) -> None:
    for first, last in segments:
        (folder / segment_name(first, last)).unlink()


def report(stub: NameNodeStub, since: int = 1) -> list[tuple[int, int]]:
    """Return the response to getEditLogManifest."""
    assert stub.rpc_address is not None
    with NamenodeClient(*stub.rpc_address, user=getpass.getuser(), retry=NO_RETRY) as client:
        return [(log.first, log.last) for log in client.edit_log_manifest(since).logs]


def write_whole(stub: NameNodeStub) -> None:
    """Write `WHOLE`, and a change in the open segment."""
    for number in range(3):
        stub.namespace.mkdirs(f"/{number}")
        stub.active.roll()
    stub.namespace.mkdirs("/open")


# ---- writes ------------------------------------------------------------------------------------------------


def test_journals_from_the_configuration(tmp_path: Path) -> None:
    local = uris(tmp_path / "name", tmp_path / "more", tmp_path / "needed")
    edits = (local[0], NOBODY, local[1], local[2])
    config = stub_config_for(tmp_path, edits=edits, shared_edits=NOBODY, required_edits=(local[2],))
    for directory in (tmp_path / "name", tmp_path / "more", tmp_path / "needed"):
        directory.mkdir()
    journals = open_edit_journals(config, [])
    found = [(journal_name(each.journal), each.required, each.shared) for each in journals.members]
    # journals that a standby reads come first, then journals that the NameNode requires
    assert found == [
        (NOBODY, True, True),
        (str(tmp_path / "needed/current"), True, False),
        (str(tmp_path / "name/current"), False, False),
        (str(tmp_path / "more/current"), False, False),
    ]
    journals.close()
    others = open_other_journals(config)
    assert [each.location for each in others] == [NOBODY]
    for journal in others:
        journal.close()


# ---- segments that the set lists ---------------------------------------------------------------------------


def test_the_log_combines_the_segments_of_all_journals(tmp_path: Path, locks: StorageLocks) -> None:
    config = formatted(tmp_path)
    name, shared = (tmp_path / each / "current" for each in ("name", "shared"))
    with NameNodeStub(config) as stub:
        write_whole(stub)
        lose(name, WHOLE[0])
        lose(shared, WHOLE[1])
        journals = stub.active.journals
        found = [(each.first, each.last, each.in_progress) for each in journals.segments(1, in_progress=True)]
        assert found == [*((first, last, False) for first, last in WHOLE), (10, 11, True)]
        assert [(each.first, each.last) for each in journals.segments(5)] == [*WHOLE[1:]]
        lose(shared, WHOLE[2])
        lose(name, WHOLE[1])
        # segments that may be purged are listed across a gap; the log must not have gaps
        assert [(each.first, each.last) for each in journals.finalized(1)] == [WHOLE[0], WHOLE[2]]
        with pytest.raises(TransactionGapError) as gap:
            journals.segments(1)
        assert (gap.value.expected, gap.value.found) == (4, 7)
        assert [journals.reach(each) for each in journals.members] == [3, 9]


def test_the_shared_journal_must_reach_the_loaded_txid(tmp_path: Path, locks: StorageLocks) -> None:
    config = formatted(tmp_path)
    journals, info = opened(config, locks)
    # the shared journal is new, so other journals may have been written before it existed
    check_shared_edits(journals, 100)
    with EditLogWriter(journals, info.layout_version, 1):
        pass
    check_shared_edits(journals, 1)
    check_shared_edits(journals, 2)
    with pytest.raises(
        StorageError, match=r"shared/current ends at txid 2, but images or edits of this NameNode continue to 3"
    ):
        check_shared_edits(journals, 3)
    journals.close()
    alone = open_edit_journals(dataclasses.replace(config, shared_edits=""), locks.held)
    check_shared_edits(alone, 3)
    alone.close()


# ---- reports to checkpointers ------------------------------------------------------------------------------


def test_a_manifest_combines_all_directories(tmp_path: Path) -> None:
    config = formatted(tmp_path, rpc_address=("127.0.0.1", 0))
    name, shared = (tmp_path / each / "current" for each in ("name", "shared"))
    with NameNodeStub(config) as stub:
        write_whole(stub)
        lose(name, WHOLE[0])  # this segment is now only in the shared directory
        # the open segment is only in the local directory, so it is not listed yet
        lose(shared, WHOLE[1])
        assert report(stub) == [*WHOLE]
        assert report(stub, 2) == [*WHOLE[1:]]
        assert report(stub, 10) == []
        (tmp_path / "fetched").mkdir()
        for first, last in WHOLE:
            download_segment(stub.server.url, first, last, stub.images.storage_info(), [tmp_path / "fetched"])
        # a shorter copy, as left by a kill, does not hide the longer copy
        (shared / segment_name(4, 5)).write_bytes(b"")
        assert report(stub) == [*WHOLE]
        lose(name, WHOLE[1])
        (shared / segment_name(4, 5)).unlink()
        # after a gap, the list starts over, because earlier segments could not be applied
        assert report(stub) == [WHOLE[2]]


def test_a_manifest_excludes_segments_only_on_journal_nodes(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        write_whole(active)
        assert report(active) == [*WHOLE]
        name = tmp_path / "nn1/name/current"
        lose(name, WHOLE[0], WHOLE[1])
        assert report(active) == [WHOLE[2]]
        assert [(each.first, each.last) for each in active.active.journals.segments(1)] == [*WHOLE]
        # the standby reads the JournalNodes
        wait_until("all edits", lambda: status(standby)["lastTxid"] >= 9)
        active.transition_to_standby()
        standby.transition_to_active()
        assert paths(standby) == {"/", "/0", "/1", "/2", "/open"}
        # after a takeover, the new active NameNode has no copies of earlier segments until it has fetched them
        wait_until("local copies", lambda: report(standby)[:3] == [*WHOLE])


def test_a_manifest_skips_a_failed_directory(tmp_path: Path) -> None:
    edits = uris(tmp_path / "name", tmp_path / "more")
    config = formatted(tmp_path, edits=edits, shared_edits="", rpc_address=("127.0.0.1", 0))
    more = tmp_path / "more/current"
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")
        stub.active.roll()
        more.rename(tmp_path / "gone")
        assert report(stub) == [(1, 3)]
        (tmp_path / "gone").rename(more)
        # names that cannot be parsed
        (tmp_path / "name/current" / segment_name(9, 8)).touch()
        assert report(stub) == [(1, 3)]


def test_a_manifest_is_empty_if_no_directory_can_be_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert manifest(local_segments([tmp_path / "a", tmp_path / "b"]), 1) == []
    assert len(caplog.records) == 2
