"""The journal on BookKeeper: its contract, its znodes, and its state after the writer stopped at any step."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.bookkeeper.errors import (
    BookKeeperError,
    FrameError,
    LedgerFencedError,
    MetadataStoreError,
    NotEnoughBookiesError,
)
from journal.bookkeeper.journal_znodes import format_max_txid
from journal.bookkeeper.ledger_metadata import parse_metadata
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.ledger_paths import LedgerManager
from journal.bookkeeper.settings import BookKeeperAddress, BookKeeperSettings
from journal.edit_log_writer import EditLogWriter
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError, UnsupportedEditsLayoutError
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from journal.open_journal import open_journal
from journal.ops import EndLogSegmentOp
from tests.depth import deep
from tests.journal.bookkeeper_cluster import PATH, PATIENT, Cluster, KilledError
from tests.journal.contract_support import batch, beginning, extents, whole, write_segments
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO, LAYOUT, delete, read_all

IMPATIENT = LedgerLimits(add=0.5)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


@pytest.fixture
def journal(cluster: Cluster) -> BookKeeperJournal:
    made = cluster.journal()
    made.format(INFO)
    return made


# ---- the part of the contract that only this journal has -----------------------------------------------------


def test_a_forced_format_leaves_no_ledger(cluster: Cluster) -> None:
    journal = cluster.journal()
    with pytest.raises(JournalError, match="not formatted"):
        journal.segments(1)
    journal.format(INFO)
    assert journal.namespace() == INFO
    write_segments(journal, (1, 4))
    with pytest.raises(UnsupportedEditsLayoutError):
        journal.start_segment(5, -70)
    assert len(cluster.ledgers()) == 1
    journal.format(dataclasses.replace(INFO, cluster_id="CID-other"), force=True)
    assert cluster.ledgers() == []
    with pytest.raises(JournalError, match="cluster_id is CID-other, not CID-test"):
        cluster.journal(namespace=INFO).segments(1)


def test_reader_follows_one_batch_behind_without_fencing_the_writer(
    cluster: Cluster, journal: BookKeeperJournal
) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    reader = cluster.journal()
    writer.append(beginning(1, 2))
    assert list(reader.segments(1, in_progress=True)) == []
    writer.append(batch(3, [delete(3)]))
    (held,) = reader.segments(1, in_progress=True)
    for txid in range(4, 60):
        writer.append(batch(txid, [delete(txid)]))
    assert extents(reader, 1, in_progress=True) == [(1, 58, True)]
    (tail,) = reader.segments(50, in_progress=True)
    assert [op.txid for op in tail.read(50)] == list(range(50, 59))
    writer.append(batch(60, [EndLogSegmentOp()]))
    writer.finalize(60)
    assert extents(reader, 3) == [(1, 60, False)]
    assert [op.txid for op in held.read(1)] == [1, 2]
    for first in (1, 2, 17, 59, 60):
        assert [op.txid for op in reader.segments(first)[0].read(first)] == list(range(first, 61))


def test_gap_is_reported_and_purge_removes_older_segments(cluster: Cluster, journal: BookKeeperJournal) -> None:
    write_segments(journal, (1, 3), (4, 6), (7, 9))
    writer = journal.start_segment(10, LAYOUT)
    writer.append(beginning(10, 11))
    cluster.znodes.delete(f"{PATH}/ledgers/edits_{4:018d}_{6:018d}")
    for call in (lambda: journal.segments(2), lambda: count_of(journal, 1)):
        with pytest.raises(TransactionGapError, match="txids 4 to 6 are missing"):
            call()
    journal.purge(9)
    assert (cluster.names(), len(cluster.ledgers()), cluster.notes()) == (
        [f"edits_{7:018d}_{9:018d}", "inprogress_a"],
        3,
        [],
    )
    journal.purge(100)
    assert extents(journal, 10, in_progress=True) == [(10, 11, True)]


def test_many_layouts_and_large_operations(cluster: Cluster, journal: BookKeeperJournal) -> None:
    write_segments(journal, (1, 3))
    old = journal.start_segment(4, -56)
    old.append(batch(4, [delete(4), delete(5)], -56))
    old.append(batch(6, [delete(6)], -56))
    old.finalize(6)
    assert read_all(cluster.journal()) == {2: "/000002", 4: "/000004", 5: "/000005", 6: "/000006"}
    writer = journal.start_segment(7, LAYOUT)
    large = dataclasses.replace(delete(7), path="/" + "x" * 30000)
    writer.append(batch(7, [large] * 30))
    with pytest.raises(FrameError, match="larger than bookies accept") as caught:
        huge = dataclasses.replace(delete(7), path="/" + "x" * 32000)
        record = batch(37, [huge]).records
        writer.append(dataclasses.replace(batch(37, [huge]), records=_inflated(bytes(record))))
    assert caught.value.txid == 37
    journal.recover(INFO)
    assert count_of(journal, 1) == 36


def _inflated(record: bytes) -> bytes:
    """Return the operation with 1 MiB of padding, so that it exceeds a frame; the operation is never decoded."""
    length = int.from_bytes(record[1:5], "big") + (1 << 20)
    return record[:1] + length.to_bytes(4, "big") + record[5:] + bytes(1 << 20)


def test_journal_set_of_bookkeeper_and_a_directory(cluster: Cluster, tmp_path: Path) -> None:
    shared = cluster.journal()
    both = JournalSet(
        [JournalMember(shared, required=True, shared=True), JournalMember(FileJournal(tmp_path / "dir" / "current"))]
    )
    both.format(INFO)
    both.recover(INFO)
    with EditLogWriter(both, LAYOUT, 1) as log:
        for number in range(2, 40):
            log.sync(log.write(delete(number)))
            if number % 10 == 0:
                log.roll()
    expected = read_all(FileJournal(tmp_path / "dir" / "current"))
    assert len(expected) == 38
    assert read_all(cluster.journal()) == expected
    both.purge(20)
    assert extents(cluster.journal(), 25)[0][0] == extents(both, 25)[0][0]


# ---- one writer --------------------------------------------------------------------------------------------


def test_second_writer_takes_over_and_fences_the_first(cluster: Cluster, journal: BookKeeperJournal) -> None:
    journal.recover(INFO)
    first = journal.start_segment(1, LAYOUT)
    first.append(beginning(1, 3))
    other = cluster.journal()
    other.recover(INFO)
    assert extents(other, 1) == [(1, 3, False)]
    second = other.start_segment(4, LAYOUT)
    second.append(beginning(4, 5))
    with pytest.raises(LedgerFencedError, match="another client has recovered ledger"):
        first.append(batch(4, [delete(99)]))
    with pytest.raises(JournalError, match="abandoned"):
        first.finalize(3)
    second.append(batch(6, [EndLogSegmentOp()]))
    second.finalize(6)
    assert read_all(cluster.journal()) == {2: "/000002", 3: "/000003", 5: "/000005"}


def test_only_one_of_two_concurrent_writers_starts_a_segment(cluster: Cluster, journal: BookKeeperJournal) -> None:
    other = cluster.journal()
    journal.recover(INFO)
    other.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    with pytest.raises(JournalError, match=r"transaction 1 exists|another writer"):
        other.start_segment(1, LAYOUT)
    cluster.znodes.set(f"{PATH}/maxtxid", format_max_txid(0), -1)
    other.recover(INFO)
    # the empty segment is removed
    assert cluster.names() == []
    again = other.start_segment(1, LAYOUT)
    with pytest.raises(LedgerFencedError):
        writer.append(beginning(1, 2))
    again.append(beginning(1, 2))
    with pytest.raises(JournalError):
        journal.start_segment(3, LAYOUT)


def test_ledger_of_a_failed_segment_is_recovered(cluster: Cluster, journal: BookKeeperJournal) -> None:
    """All bookies but one fail: nothing is acknowledged, the error is clear, and later the next segment continues."""
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(beginning(1, 3))
    for bookie in cluster.bookies[1:]:
        bookie.stop()
    client = journal._client
    patient, client.limits = client.limits, IMPATIENT
    with pytest.raises(NotEnoughBookiesError, match="failed, and all writable bookies are in use"):
        writer.append(batch(4, [delete(4)]))
    with pytest.raises(BookKeeperError, match="cannot be fenced on enough bookies"):
        journal.recover(INFO)
    with pytest.raises(JournalError, match="not recovered"):
        journal.start_segment(5, LAYOUT)
    client.limits = patient
    for bookie in cluster.bookies[1:]:
        bookie.start()
    journal.recover(INFO)
    (found,) = extents(journal, 1)
    assert found[1] in (3, 4)
    journal.start_segment(found[1] + 1, LAYOUT)


def test_failed_bookie_is_replaced(tmp_path: Path) -> None:
    with Cluster(tmp_path, bookies=4, manager=LedgerManager.HIERARCHICAL) as cluster:
        journal = cluster.journal()
        journal.format(INFO)
        journal.recover(INFO)
        writer = journal.start_segment(1, LAYOUT)
        writer.append(beginning(1, 3))
        path = next(name for name in cluster.znodes.nodes if name.endswith("/L0001") or name.endswith("/L0000"))
        used = parse_metadata(cluster.znode(path) or b"").last_segment.bookies
        victim = next(each for each in cluster.bookies if each.name == used[0])
        victim.stop()
        for txid in range(4, 20):
            writer.append(batch(txid, [delete(txid)]))
        metadata = parse_metadata(cluster.znode(path) or b"")
        assert len(metadata.segments) == 2
        assert victim.name not in metadata.last_segment.bookies
        writer.append(batch(20, [EndLogSegmentOp()]))
        writer.finalize(20)
        # another bookie also has the entries of the stopped bookie
        assert len(read_all(cluster.journal())) == 18


def test_without_a_spare_bookie_the_ack_quorum_acknowledges(cluster: Cluster) -> None:
    journal = cluster.journal(dataclasses.replace(PATIENT, write_quorum=3, ack_quorum=2))
    journal.format(INFO)
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(beginning(1, 3))
    victim = cluster.bookies[0]
    victim.stop()
    for txid in range(4, 20):
        writer.append(batch(txid, [delete(txid)]))
    victim.start()
    for txid in range(20, 24):
        writer.append(batch(txid, [delete(txid)]))
    writer.append(batch(24, [EndLogSegmentOp()]))
    writer.finalize(24)
    assert len(read_all(cluster.journal())) == 22


def test_writer_waits_for_a_bookie_of_the_ack_quorum_without_a_spare(cluster: Cluster) -> None:
    """The bookie is unavailable while entries are written, and while the next segment begins."""
    journal = cluster.journal()
    journal.format(INFO)
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(beginning(1, 3))
    victim = cluster.bookies[0]
    for txid in (4, 5, 6):
        victim.stop()
        with _later(victim.start):
            writer.append(batch(txid, [delete(txid)]))
    writer.append(batch(7, [EndLogSegmentOp()]))
    writer.finalize(7)
    victim.stop()
    with _later(victim.start):
        writer = journal.start_segment(8, LAYOUT)
    writer.append(whole(8, 9))
    writer.finalize(9)
    assert extents(journal, 1) == [(1, 7, False), (8, 9, False)]


@contextmanager
def _later(action: Callable[[], None]) -> Iterator[None]:
    """Run the action in a thread, shortly after the block has begun."""
    timer = threading.Timer(0.2, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_too_few_bookies_are_reported(tmp_path: Path) -> None:
    with Cluster(tmp_path, bookies=2) as cluster:
        journal = cluster.journal(BookKeeperSettings(add_timeout=0.1))
        journal.format(INFO)
        journal.recover(INFO)
        with pytest.raises(NotEnoughBookiesError, match="a ledger needs 3 bookies, but 2 "):
            journal.start_segment(1, LAYOUT)
        small = cluster.journal(dataclasses.replace(PATIENT, ensemble_size=2, write_quorum=2))
        write_segments(small, (1, 3))
        assert count_of(small, 1) == 3


# ---- znodes as NameNodes have them -------------------------------------------------------------------------


def test_znodes_equal_those_of_a_namenode(cluster: Cluster, journal: BookKeeperJournal) -> None:
    nodes = cluster.znodes.nodes
    assert {name: nodes[name].data for name in nodes if name.startswith(PATH) and name != f"{PATH}/version"} == {
        PATH: b"0",
        f"{PATH}/ledgers": b"0",
    }
    journal.recover(INFO)
    assert nodes[f"{PATH}/CurrentInprogress"].data is None
    assert f"{PATH}/maxtxid" not in nodes
    writer = journal.start_segment(78, LAYOUT)
    (ledger,) = cluster.ledgers()
    number = int(ledger[1:])
    current = nodes[f"{PATH}/CurrentInprogress"].data or b""
    assert current.startswith(b'path: "/hdfsjournal/ledgers/inprogress_4e"\nhostname: "')
    assert nodes[f"{PATH}/maxtxid"].data == b"txId: 78\n"
    assert (
        nodes[f"{PATH}/ledgers/inprogress_4e"].data
        == f"dataLayoutVersion: {LAYOUT}\nledgerId: {number}\nfirstTxId: 78\n".encode()
    )
    writer.append(whole(78, 83))
    writer.finalize(83)
    assert nodes[f"{PATH}/CurrentInprogress"].data is None
    assert nodes[f"{PATH}/maxtxid"].data == b"txId: 83\n"
    assert cluster.names() == ["edits_000000000000000078_000000000000000083"]
    text = f"dataLayoutVersion: {LAYOUT}\nledgerId: {number}\nfirstTxId: 78\nlastTxId: 83\n"
    assert nodes[f"{PATH}/ledgers/{cluster.names()[0]}"].data == text.encode()
    assert cluster.notes() == []
    content = cluster.znode(f"/ledgers/{ledger}") or b""
    members = "".join(f'  ensembleMember: "{name}"\n' for name in parse_metadata(content).last_segment.bookies)
    text = (
        f"BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 3\nlength: {len(whole(78, 83).records)}\n"
        f"lastEntryId: 0\nstate: CLOSED\nsegment {{\n{members}  firstEntryId: 0\n}}\ndigestType: HMAC\n"
        'password: ""\nackQuorumSize: 2\n'
    )
    assert content == text.encode()


def test_segments_left_open_by_namenodes_are_recovered(cluster: Cluster, journal: BookKeeperJournal) -> None:
    """Cases: an end that stopped halfway, an empty segment, a finalized segment with an open ledger, damaged znodes."""
    write_segments(journal, (1, 3))
    writer = journal.start_segment(4, LAYOUT)
    writer.append(whole(4, 6))
    in_progress = f"{PATH}/ledgers/inprogress_4"
    kept = cluster.znode(in_progress) or b""
    edits = f"{PATH}/ledgers/edits_{4:018d}_{6:018d}"
    cluster.znodes.create(edits, kept + b"lastTxId: 6\n")
    writer.abort()
    # finalized by name, but with an open ledger: a reader receives the durable part, and the error contains the next
    # step
    assert extents(journal, 1) == [(1, 3, False), (4, 6, False)]
    with pytest.raises(SegmentError, match=r"ends with txid 3, the segment with 6|ends with txid") as caught:
        list(cluster.journal().segments(4)[0].read(4))
    assert "recovery by the next writer of this journal closes it" in caught.value.hint
    journal.recover(INFO)
    assert in_progress not in cluster.znodes.nodes
    assert [op.txid for op in journal.segments(4)[0].read(4)] == [4, 5, 6]
    # an empty segment is removed, and its txid can be used again
    journal.start_segment(7, LAYOUT).abort()
    assert len(cluster.ledgers()) == 3
    journal.recover(INFO)
    assert (cluster.znode(f"{PATH}/maxtxid"), len(cluster.ledgers()), cluster.notes()) == (b"txId: 6\n", 2, [])
    journal.start_segment(7, LAYOUT).abort()
    for damaged in (b"", b"ledgerId: 3\n", b"\xff\xfe", kept):
        cluster.znodes.set(f"{PATH}/ledgers/inprogress_7", damaged, -1)
        with pytest.raises(JournalError, match="inprogress_7"):
            journal.recover(INFO)


def test_missing_ledger_and_damaged_operations_are_reported(cluster: Cluster, journal: BookKeeperJournal) -> None:
    journal.recover(INFO)
    writer = journal.start_segment(1, LAYOUT)
    records = bytearray(whole(1, 3).records)
    records[-1] ^= 1
    writer.append(dataclasses.replace(whole(1, 3), records=bytes(records)))
    writer.finalize(3)
    with pytest.raises(CorruptOpError, match=r"edits_0{17}1_0{17}3, ledger \d+, entry 0"):
        list(journal.segments(1)[0].read(1))
    writer = journal.start_segment(4, LAYOUT)
    writer.append(beginning(4, 5))
    writer.abort()
    for ledger in cluster.ledgers():
        cluster.znodes.delete(f"/ledgers/{ledger}")
    with pytest.raises(SegmentError, match=r"ledger .* of the segment no longer exists"):
        journal.recover(INFO)


# ---- each step may be the last -------------------------------------------------------------------------------


def _life(cluster: Cluster, acknowledged: list[int]) -> None:
    """Write two segments, leave the second segment open, and purge."""
    journal = cluster.journal()
    journal.recover(INFO)
    for first in (acknowledged[-1] + 1, acknowledged[-1] + 4):
        writer = journal.start_segment(first, LAYOUT)
        writer.append(whole(first, first + 2))
        acknowledged += range(first, first + 3)
        writer.finalize(first + 2)
    journal.purge(5)
    first = acknowledged[-1] + 1
    writer = journal.start_segment(first, LAYOUT)
    writer.append(beginning(first, first + 1))
    acknowledged += (first, first + 1)


@pytest.mark.parametrize("how", ["dies before", "dies behind", "answer lost", "tried again", "away"])
def test_stop_after_any_znode_change_loses_nothing_acknowledged(tmp_path: Path, how: str) -> None:
    with Cluster(tmp_path) as cluster:
        first = cluster.journal()
        first.format(INFO)
        write_segments(first, (1, 3))
        acknowledged = [1, 2, 3]
        step = done = 0
        while not done:
            step += 1 if deep() else 3
            done = _stopped_at(cluster, step, how, acknowledged)
        assert step > 10


def _stopped_at(cluster: Cluster, step: int, how: str, acknowledged: list[int]) -> bool:
    """Stop one run of a writer at its change `step`, and recover; return whether the run had ended before this
    change.
    """
    left = step

    def count() -> bool:
        nonlocal left
        left -= 1
        if left == 0 and how != "tried again":
            raise KilledError if how.startswith("dies") else MetadataStoreError("away")
        return left == 0

    session = cluster.znodes.session
    made = session()
    if how in ("dies before", "away"):
        made.before = count  # type: ignore[assignment]
    else:
        made.after = count
    cluster.znodes.session = lambda: made  # type: ignore[method-assign]
    with suppress(*(() if how == "tried again" else (KilledError, JournalError))):
        _life(cluster, acknowledged)
    cluster.znodes.session = session  # type: ignore[method-assign]
    other = cluster.journal()
    other.recover(INFO)
    reader = cluster.journal()
    chain = reader.segments(acknowledged[-1] if cluster.names() else 1)
    last = chain[-1].last
    assert last >= acknowledged[-1], f"step {step}"
    acknowledged += range(acknowledged[-1] + 1, last + 1)
    first = min(each.first for each in reader._readable(0, in_progress=False))
    assert [op.txid for each in reader.segments(first) for op in each.read(first)] == list(range(first, last + 1))
    # every ledger has a name, and every name a ledger
    assert cluster.notes() == []
    assert len(cluster.ledgers()) == len(cluster.names())
    assert not [name for name in cluster.names() if name.startswith("inprogress")]
    return left > 0


# ---- opening -----------------------------------------------------------------------------------------------


def test_journal_uris() -> None:
    journal = open_journal("bookkeeper://zk1:2181;zk2:2181/a/b")
    assert isinstance(journal, BookKeeperJournal)
    assert journal.location == "bookkeeper://zk1:2181;zk2:2181/a/b"
    assert open_journal(journal.location).location == journal.location
    assert BookKeeperAddress.parse("bookkeeper://zk1:2181,zk2:2181/x").hosts == "zk1:2181,zk2:2181"
    for wrong in ("bookkeeper://zk1:2181", "bookkeeper:///x", "bookkeeper://a@b:1/x", "bookkeeper://zk:2181/x?y"):
        with pytest.raises(JournalError, match="bookkeeper:") as caught:
            open_journal(wrong)
        assert "bookkeeper://zookeeper:2181" in caught.value.hint
    journal.close()
    with pytest.raises(MetadataStoreError, match="closed"):
        journal.is_formatted()
