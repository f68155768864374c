"""The contract of `journal.journal` for every kind of journal: directories, sets, JSON and BookKeeper."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hadoop_common.storage_lock import StorageLock
from image_format.layout import NEWEST_LAYOUT, OLDEST_LAYOUT
from journal.binary_codec import encode_op
from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.edit_log_writer import EditLogWriter
from journal.errors import (
    JournalError,
    JournalExistsError,
    JournalInUseError,
    TransactionGapError,
    UnsupportedEditsLayoutError,
)
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_set import JournalMember, JournalSet
from journal.json_journal import JsonJournal
from journal.open_journal import open_journal
from journal.ops import EndLogSegmentOp
from tests.depth import examples
from tests.journal.bookkeeper_cluster import Cluster
from tests.journal.contract_support import batch, beginning, extents, whole, write_segments
from tests.journal.journal_support import count_of, operations
from tests.journal.wal_support import INFO, LAYOUT, delete, read_all

_TXIDS = re.compile(r"edits_([0-9]+)-([0-9]+)(\.json)?")
Open = Callable[[Path], Journal]


def open_file(root: Path) -> Journal:
    return FileJournal(root / "current")


def open_set(root: Path) -> Journal:
    return JournalSet([JournalMember(FileJournal(root / name / "current")) for name in "ab"])


def open_mixed(root: Path) -> Journal:
    return JournalSet([JournalMember(FileJournal(root / "a" / "current")), JournalMember(JsonJournal(root / "b"))])


def on_bookies(stack: ExitStack) -> Open:
    clusters: dict[Path, Cluster] = {}

    def opened(root: Path) -> Journal:
        if root not in clusters:
            clusters[root] = stack.enter_context(Cluster(root))
        return clusters[root].journal()

    return opened


LOCAL: dict[str, Open] = {"file": open_file, "set": open_set, "mixed set": open_mixed, "json": JsonJournal}
KINDS = [*LOCAL, "bookkeeper"]
on_local_disks = pytest.mark.parametrize("opened", LOCAL, indirect=True)
pytestmark = pytest.mark.parameters(len(KINDS))


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open journals of one kind, and close them at the end."""
    with ExitStack() as stack:

        def on_disk(root: Path) -> Journal:
            journal = LOCAL[request.param](root)
            stack.callback(journal.close)
            return journal

        yield on_disk if request.param in LOCAL else on_bookies(stack)


@pytest.fixture
def journal(opened: Open, tmp_path: Path) -> Journal:
    made = opened(tmp_path)
    made.format(INFO)
    return made


# ---- format and recovery -----------------------------------------------------------------------------------


def test_a_journal_is_formatted_once_unless_forced(opened: Open, tmp_path: Path) -> None:
    journal = opened(tmp_path / "new")
    assert not journal.is_formatted()
    journal.format(INFO)
    assert journal.is_formatted()
    assert (list(journal.segments(1)), count_of(journal, 1)) == ([], 0)
    write_segments(journal, (1, 4))
    before = read_all(journal)
    other = dataclasses.replace(INFO, cluster_id="CID-other")
    with pytest.raises(JournalExistsError) as caught:
        journal.format(other)
    assert caught.value.hint
    assert read_all(journal) == before == {2: "/000002", 3: "/000003"}
    journal.format(other, force=True)
    assert list(journal.segments(1)) == []
    with pytest.raises(JournalError, match="not recovered"):
        journal.start_segment(1, LAYOUT)
    with pytest.raises(JournalError, match="cluster_id is CID-other, not CID-test"):
        journal.recover(INFO)
    journal.recover(dataclasses.replace(other, layout_version=-63))


@on_local_disks
def test_segments_without_a_description_file_count_as_a_journal(journal: Journal, tmp_path: Path) -> None:
    write_segments(journal, (1, 4))
    for name in ("VERSION", "journal.json"):
        for path in tmp_path.rglob(name):
            path.unlink()
    with pytest.raises(JournalExistsError):
        journal.format(INFO)
    journal.format(INFO, force=True)
    assert count_of(journal, 1) == 0


def test_start_requires_recovery_and_a_known_layout(journal: Journal) -> None:
    with pytest.raises(JournalError, match="not recovered"):
        journal.start_segment(1, LAYOUT)
    journal.recover(INFO)
    with pytest.raises(UnsupportedEditsLayoutError):
        journal.start_segment(1, -70)
    assert extents(journal, 1, in_progress=True) == []
    journal.close()
    journal.close()


def test_a_segment_left_in_progress_is_recovered(opened: Open, journal: Journal, tmp_path: Path) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(beginning(1, 3))
    writer.append(batch(4, [delete(4)]))
    writer.abort()
    writer.abort()
    for call in (lambda: writer.append(batch(5, [delete(5)])), lambda: writer.finalize(4)):
        with pytest.raises(JournalError, match="abandoned"):
            call()
    with pytest.raises(JournalError, match="not recovered"):
        journal.start_segment(5, LAYOUT)
    assert extents(journal, 1) == []
    # on BookKeeper, only the writer knows that the newest batch is acknowledged
    assert extents(journal, 1, in_progress=True) in ([(1, 3, True)], [(1, 4, True)])
    journal.recover(INFO)
    for each in (journal, opened(tmp_path)):
        assert extents(each, 1) == extents(each, 1, in_progress=True) == [(1, 4, False)]
    # the segments stay separate, regardless of the first operation of the next segment
    second = journal.start_segment(5, LAYOUT)
    second.append(batch(5, [delete(5)]))
    assert extents(journal, 1, in_progress=True) == [(1, 4, False), (5, 5, True)]
    second.finalize(5)
    assert extents(opened(tmp_path), 1) == [(1, 4, False), (5, 5, False)]


# ---- one writer --------------------------------------------------------------------------------------------


def test_segment_accepts_only_consecutive_txids(journal: Journal) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(whole(1, 3))
    writer.finalize(3)
    with pytest.raises(JournalError, match="abandoned"):
        writer.append(batch(4, [delete(4)]))
    for first in (1, 3):
        with pytest.raises(JournalError, match="exists"):
            journal.start_segment(first, LAYOUT)
        journal.recover(INFO)
    writer = journal.start_segment(4, LAYOUT)
    with pytest.raises(JournalError, match="expected txid 4, found 5"):
        writer.append(beginning(5, 6))
    writer.abort()
    assert extents(journal, 1) == [(1, 3, False)]


def test_segment_is_finalized_only_at_its_last_txid(journal: Journal) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(whole(1, 3))
    with pytest.raises(JournalError, match="its last txid is 3"):
        writer.finalize(4)
    writer.abort()
    journal.recover(INFO)
    assert extents(journal, 1) == [(1, 3, False)]


def test_a_second_segment_is_refused_while_one_is_written(journal: Journal) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    for call in (
        lambda: journal.start_segment(2, LAYOUT),
        lambda: journal.recover(INFO),
        lambda: journal.format(INFO, force=True),
    ):
        with pytest.raises(JournalInUseError, match="segment 1 is being written"):
            call()
    writer.append(beginning(1, 2))
    writer.finalize(2)
    assert extents(journal, 1) == [(1, 2, False)]


@on_local_disks
def test_a_second_writer_is_refused(opened: Open, journal: Journal, tmp_path: Path) -> None:
    journal.recover(INFO)
    second = opened(tmp_path)
    for call in (lambda: second.recover(INFO), lambda: second.format(INFO, force=True)):
        with pytest.raises(JournalInUseError, match="held by this process"):
            call()
    assert count_of(second, 1) == 0  # readers need no lock
    assert list(tmp_path.rglob("in_use.lock")) != []
    journal.close()
    assert list(tmp_path.rglob("in_use.lock")) == []
    second.recover(INFO)


@pytest.mark.parametrize(("kind", "prefix"), [("file", "file://"), ("json", "json://")])
def test_lock_of_the_caller_is_used(kind: str, prefix: str, tmp_path: Path) -> None:
    formatted = LOCAL[kind](tmp_path)
    formatted.format(INFO)
    formatted.close()
    with StorageLock(tmp_path) as lock:
        journal = open_journal(f"{prefix}{tmp_path}", locks=[lock])
        journal.recover(INFO)
        journal.start_segment(1, LAYOUT)
        journal.close()
        assert lock.held
    with pytest.raises(JournalError, match="the caller released"):
        journal.recover(INFO)


# ---- reading -----------------------------------------------------------------------------------------------


def test_reader_gets_segments_starting_at_a_txid(opened: Open, journal: Journal, tmp_path: Path) -> None:
    journal.recover(INFO)
    log = EditLogWriter(journal, LAYOUT, 1)
    for txid in (2, 5, 8):
        log.sync(log.write(delete(txid)))
        if txid < 8:
            log.roll()
    log.write(delete(9))
    # on BookKeeper, only the writer knows that the newest batch is acknowledged
    behind = isinstance(journal, BookKeeperJournal)
    for each, newest in ((journal, 8), (opened(tmp_path), 8 - behind)):
        assert extents(each, 1) == [(1, 3, False), (4, 6, False)]
        assert extents(each, 5, in_progress=True) == [(4, 6, False), (7, newest, True)]
        assert [op.txid for op in each.segments(5)[0].read(5)] == [5, 6]
        paths = {txid: f"/{txid:06d}" for txid in (2, 5, 8) if txid <= newest}
        assert read_all(each, 1, in_progress=True) == paths
        assert (count_of(each, 1), count_of(each, 5), count_of(each, 99)) == (6, 2, 0)
        assert count_of(each, 5, in_progress=True) == newest - 4
        assert list(each.segments(7)) == []
    log.close()
    assert count_of(journal, 1) == 10


@on_local_disks
def test_reader_follows_a_growing_segment(opened: Open, journal: Journal, tmp_path: Path) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    reader = opened(tmp_path)
    assert list(reader.segments(1, in_progress=True)) == []
    writer.append(beginning(1, 2))
    (held,) = reader.segments(1, in_progress=True)
    for txid in range(3, 7):
        writer.append(batch(txid, [delete(txid)]))
        assert extents(reader, 1, in_progress=True) == [(1, txid, True)]
    writer.append(batch(7, [EndLogSegmentOp()]))
    writer.finalize(7)
    assert extents(reader, 3) == [(1, 7, False)]
    assert [op.txid for op in held.read(1)] == [1, 2]


@on_local_disks
def test_gap_is_reported(journal: Journal, tmp_path: Path) -> None:
    write_segments(journal, (1, 3), (4, 6), (7, 9))
    for path in tmp_path.rglob("edits_*"):
        name = _TXIDS.fullmatch(path.name)
        assert name is not None
        if int(name[1]) == 4:
            path.unlink()
    for call in (lambda: journal.segments(2), lambda: count_of(journal, 1)):
        with pytest.raises(TransactionGapError, match="txids 4 to 6 are missing") as caught:
            call()
        assert (caught.value.expected, caught.value.found) == (4, 7)
    with pytest.raises(TransactionGapError, match="txids 5 to 6 are missing"):
        journal.segments(5)
    assert extents(journal, 7) == [(7, 9, False)]


@on_local_disks
def test_purge_removes_older_segments(opened: Open, journal: Journal, tmp_path: Path) -> None:
    write_segments(journal, (1, 3), (4, 6))
    writer = journal.start_segment(7, LAYOUT)
    writer.append(beginning(7, 8))
    journal.purge(6)
    assert extents(journal, 4, in_progress=True) == [(4, 6, False), (7, 8, True)]
    with pytest.raises(TransactionGapError, match="txids 3 to 3 are missing"):
        journal.segments(3)
    journal.purge(100)
    assert extents(opened(tmp_path), 7, in_progress=True) == [(7, 8, True)]
    writer.abort()
    journal.recover(INFO)
    assert extents(journal, 7) == [(7, 8, False)]


# ---- content -----------------------------------------------------------------------------------------------


def test_concurrent_writers_lose_and_reorder_nothing(opened: Open, journal: Journal, tmp_path: Path) -> None:
    journal.recover(INFO)
    threads, each = 6, 40
    with EditLogWriter(journal, LAYOUT, 1, capacity=1000) as log, ThreadPoolExecutor(threads) as pool:

        def work(thread: int) -> dict[int, str]:
            written = {}
            for number in range(each):
                op = delete(thread * each + number)
                written[txid := log.write(op)] = op.path
                if number % 7 == thread:
                    log.flush()
                elif number % 11 == thread:
                    log.sync(txid)
                    assert log.durable_txid >= txid
                if number == 20:
                    log.roll()
            assert list(written) == sorted(written)
            return written

        results = [future.result() for future in [pool.submit(work, number) for number in range(threads)]]
    expected = {txid: path for result in results for txid, path in result.items()}
    assert len(expected) == threads * each
    reader = opened(tmp_path)
    assert read_all(reader) == expected
    assert len(reader.segments(1)) == threads + 1


@pytest.mark.parametrize("kind", LOCAL)
@examples(15, suppress_health_check=list(HealthCheck))
@given(data=st.data(), layout_version=st.sampled_from(range(OLDEST_LAYOUT, NEWEST_LAYOUT - 1, -1)))
def test_every_operation_round_trips(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject, layout_version: int
) -> None:
    root = tmp_path_factory.mktemp("journal")
    journal = LOCAL[kind](root)
    journal.format(INFO)
    journal.recover(INFO)
    ops = data.draw(st.lists(operations(layout_version=layout_version), min_size=1, max_size=12))
    writer = journal.start_segment(7, layout_version)
    writer.append(batch(7, ops, layout_version))
    writer.finalize(6 + len(ops))
    journal.close()
    (segment,) = LOCAL[kind](root).segments(7)
    found = list(segment.read(7))
    assert found == ops
    assert [encode_op(op, layout_version) for op in found] == [encode_op(op, layout_version) for op in ops]
