"""Our quorum client on JournalNodes of Hadoop, on ours, and on a mixture of both."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha1
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name, segment_name
from hadoop_rpc.qjournal_protocol import QJournalClient
from journal.errors import JournalExistsError, TransactionGapError
from journal.quorum.errors import QuorumError, WriterFencedError
from journal.quorum.open_quorum import open_quorum_journal
from journal.quorum.quorum_journal import QuorumJournal
from tests.interop.cluster import JournalNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio
from tests.journal.journal_support import count_of
from tests.journal.quorum_model import LAYOUT, NAMESPACE
from tests.journal.quorum_ops import batch_of, end_op, mark, read_all, start_op
from tests.journal.quorum_processes import SETTINGS
from tests.journal_node import journal_node_support as single

pytestmark = pytest.mark.interop

MIXTURES = {"Hadoop's nodes": False, "our nodes": True, "two of Hadoop's and ours": (False, False, True)}


@pytest.fixture(params=MIXTURES)
def trio(request: pytest.FixtureRequest, conf: HadoopConf, tmp_path: Path) -> Iterator[JournalTrio]:
    with JournalTrio(tmp_path / "nodes", ours=MIXTURES[request.param]) as running:
        yield running


@pytest.fixture
def journals(trio: JournalTrio) -> Iterator[list[QuorumJournal]]:
    """A list of opened journals, closed at the end."""
    opened: list[QuorumJournal] = []
    yield opened
    for journal in opened:
        journal.close()


def writer(trio: JournalTrio, journals: list[QuorumJournal]) -> QuorumJournal:
    """Return a writer that has taken over the journal."""
    journal = reader(trio, journals)
    if not journal.is_formatted():
        journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    return journal


def reader(trio: JournalTrio, journals: list[QuorumJournal], **changes: object) -> QuorumJournal:
    settings = replace(SETTINGS, **changes)
    journal = open_quorum_journal(trio.uri, user="hdfs", settings=settings, namespace=NAMESPACE)
    journals.append(journal)
    return journal


def written(first: int, last: int, value: int = 0, *, ended: bool = True) -> dict[int, bytes]:
    """Return a segment's transactions."""
    middle = {txid: mark(txid, value) for txid in range(first + 1, last)}
    return {first: start_op(first), **middle, last: end_op(last) if ended else mark(last, value)}


def write(journal: QuorumJournal, first: int, last: int, value: int = 0, *, finalize: bool = True) -> dict[int, bytes]:
    records = written(first, last, value, ended=finalize)
    segment = journal.start_segment(first, LAYOUT)
    for txid, record in records.items():
        segment.append(batch_of(txid, [record]))
    if finalize:
        segment.finalize(last)
    return records


def ranges(journal: QuorumJournal, *, in_progress: bool = False) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in journal.segments(1, in_progress=in_progress)]


def settled(trio: JournalTrio, journal: QuorumJournal, expected: list[tuple[int, int]]) -> None:
    """Wait until slower nodes have the majority's segments."""
    for number in range(3):
        wait_until(lambda number=number: trio.segments(number) == expected, f"node {number} with {expected}")


def test_a_quorum_is_formatted_written_rolled_read_and_purged(trio: JournalTrio, journals: list[QuorumJournal]) -> None:
    journal = reader(trio, journals)
    assert not journal.is_formatted()
    journal.format(NAMESPACE)
    assert journal.is_formatted()
    with pytest.raises(JournalExistsError):
        journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    assert journal.epoch == 1
    expected = write(journal, 1, 5) | write(journal, 6, 6 + 40) | write(journal, 47, 50, finalize=False)
    settled(trio, journal, [(1, 5), (6, 46)])
    other = reader(trio, journals)
    assert ranges(other) == [(1, 5), (6, 46)]
    assert ranges(other, in_progress=True) == [(1, 5), (6, 46), (47, 50)]
    assert read_all(other.segments(1, in_progress=True)) == expected
    assert (count_of(other, 3), count_of(other, 3, in_progress=True)) == (44, 48)
    journal.purge(10)
    settled(trio, journal, [(6, 46)])
    with pytest.raises(TransactionGapError):
        other.segments(1)


@pytest.mark.deep
def test_a_killed_node_rejoins_with_the_next_segment(trio: JournalTrio, journals: list[QuorumJournal]) -> None:
    journal = writer(trio, journals)
    expected = write(journal, 1, 5)
    settled(trio, journal, [(1, 5)])
    segment = journal.start_segment(6, LAYOUT)
    segment.append(batch_of(6, [start_op(6)]))
    trio.nodes[0].kill()
    segment.append(batch_of(7, [mark(7, 1), end_op(8)]))
    segment.finalize(8)
    expected |= {6: start_op(6), 7: mark(7, 1), 8: end_op(8)}
    trio.nodes[0].start()
    expected |= write(journal, 9, 12)
    wait_until(lambda: (9, 12) in trio.segments(0), "the killed node with the next segment")
    trio.nodes[1].kill()
    assert read_all(journal.segments(1)) == expected


@pytest.mark.deep
def test_a_fenced_writer_writes_nothing_more(trio: JournalTrio, journals: list[QuorumJournal]) -> None:
    first = writer(trio, journals)
    segment = first.start_segment(1, LAYOUT)
    segment.append(batch_of(1, [start_op(1), mark(2, 1)]))
    second = writer(trio, journals)
    assert ranges(second) == [(1, 2)]
    with pytest.raises(WriterFencedError):
        segment.append(batch_of(3, [mark(3, 9)]))
    with pytest.raises(WriterFencedError):
        first.recover(NAMESPACE)
    expected = {1: start_op(1), 2: mark(2, 1)} | write(second, 3, 6)
    assert read_all(reader(trio, journals).segments(1)) == expected


@pytest.mark.deep
def test_a_writer_killed_within_a_segment_loses_no_acknowledged_edit(
    trio: JournalTrio, journals: list[QuorumJournal]
) -> None:
    reader(trio, journals).format(NAMESPACE)
    acked, batches = 0, dict[tuple[int, int], str]()
    for value in range(1, 5):
        command = [sys.executable, "-m", "tests.journal.quorum_writer", trio.uri, str(value)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            recovered = int(process.stdout.readline().removeprefix("recovered "))
            assert recovered >= acked
            reported = [process.stdout.readline() for _ in range(11 * value)]
            process.send_signal(signal.SIGKILL)
            reported += process.stdout.read().splitlines()
        batches |= {(int(first), int(last)): digest for _, first, last, digest in map(str.split, reported)}
        acked = max(last for _, last in batches)
    journal = writer(trio, journals)
    assert journal.epoch == 5
    found = read_all(journal.segments(1))
    assert list(found) == list(range(1, len(found) + 1))
    assert len(found) >= acked > 100
    for (first, last), digest in batches.items():
        assert sha1(b"".join(found[txid] for txid in range(first, last + 1))).hexdigest() == digest
    write(journal, len(found) + 1, len(found) + 5)
    # each node of the last recovery has the same bytes
    files = [node.edits_dir / NAMESERVICE / "current" for node in trio.nodes]
    names = {segment_name(each.first, each.last) for each in journal.segments(1)}
    for name in names:
        copies = {(folder / name).read_bytes().rstrip(b"\xff") for folder in files if (folder / name).exists()}
        assert len(copies) == 1, name
    # a majority finalized the segment; the writer does not wait for the third node
    assert sum((folder / inprogress_name(len(found) + 1)).exists() for folder in files) <= 1


@pytest.mark.deep
def test_in_progress_tailing_falls_back_to_streams_without_node_caches(
    trio: JournalTrio, journals: list[QuorumJournal]
) -> None:
    journal = writer(trio, journals)
    expected = write(journal, 1, 5) | write(journal, 6, 9, finalize=False)
    tailing = reader(trio, journals, tail_in_progress=True)
    found = tailing.segments(1, in_progress=True)
    assert read_all(found) == expected
    # one call reads the caches of our nodes; Hadoop's nodes need one stream per segment
    assert len(found) in (1, 2)
    assert count_of(tailing, 1, in_progress=True) == 9


@pytest.mark.deep
def test_two_stopped_nodes_block_writing_and_recovery(trio: JournalTrio, journals: list[QuorumJournal]) -> None:
    journal = writer(trio, journals)
    write(journal, 1, 5)
    for node in trio.nodes[:2]:
        node.kill()
    for call in (lambda: journal.start_segment(6, LAYOUT), lambda: journal.segments(1)):
        with pytest.raises(QuorumError):
            call()
    for node in trio.nodes[:2]:
        node.start()
    journal.recover(NAMESPACE)
    assert ranges(journal) == [(1, 5)]


@pytest.mark.deep
def test_hadoops_node_keeps_a_copy_as_long_as_the_chosen_segment(conf: HadoopConf) -> None:
    """Because Hadoop's node keeps such a copy, our client compares the copies before the node takes part in a
    recovery.
    """
    with JournalNode(conf) as node, QJournalClient(*node.rpc_address, user="hdfs", timeout=600.0) as client:
        client.format(single.JOURNAL, single.NAMESPACE, force=True)
        old = single.Writer(client)
        old.begin()
        old.start(1)
        old.write(1, 1, 3)
        later = single.Writer(client, epoch=2)
        later.begin()
        later.accept(1, 3, "http://127.0.0.1:9/getJournal?jid=j1")  # an address without a server
        later.end(1, 3)
        found = node.edits_dir / single.JOURNAL / "current" / segment_name(1, 3)
        assert found.read_bytes().rstrip(b"\xff").endswith(single.batch(1, 3))
