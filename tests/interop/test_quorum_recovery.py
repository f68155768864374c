"""Recovery of a segment whose writer was killed: Hadoop's JournalNodes and ours have the same segments afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.names import segment_name
from journal.errors import JournalError
from journal.journal import RecordBatch
from journal.quorum.open_quorum import open_quorum_journal
from namenode_stub.ports import free_port
from tests.depth import scaled
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.served_journal import Served, content, hadoops, ours, version
from tests.journal.quorum_processes import SETTINGS
from tests.journal_node.journal_node_support import LAYOUT, NAMESPACE, Writer, batch, outcome

pytestmark = pytest.mark.interop

CASES = scaled(20, quick=2)


class Nodes:
    """Two running nodes, and the address of a third node that is down, so that the same two nodes answer in every
    run.
    """

    def __init__(self, served: list[Served], dead: int) -> None:
        self.served = served
        addresses = [*(each.client.address for each in served), f"127.0.0.1:{dead}"]
        self.uri = f"qjournal://{';'.join(addresses)}"

    def folders(self, journal_id: str) -> list[Path]:
        return [each.edits_dir / journal_id / "current" for each in self.served]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Nodes, Nodes]]:
    """Return Hadoop's nodes and ours."""
    with ExitStack() as stack:
        dead = free_port()
        confs = [HadoopConf(tmp_path / f"theirs{number}") for number in range(2)]
        theirs = [stack.enter_context(hadoops(conf)) for conf in confs]
        mine = [stack.enter_context(ours(tmp_path / f"ours{number}")) for number in range(2)]
        yield Nodes(theirs, dead), Nodes(mine, dead)


def leave_torn(nodes: Nodes, journal_id: str, chance: random.Random) -> list[Any]:
    """Write a segment 1-3 and a segment that begins at 4, during which one or two writers die; return the responses."""
    message: list[Any] = []
    writers = []
    for served in nodes.served:
        served.client.format(journal_id, NAMESPACE, force=True)
        writers.append(Writer(served.client, journal_id=journal_id))
    for writer in writers:
        message.append(outcome(writer.begin))
        writer.segment(1, 3)
    ends = [chance.choice([None, 3, 4, chance.randrange(4, 12)]) for _ in writers]
    for writer, end in zip(writers, ends, strict=True):
        if end is None:
            continue
        writer.start(4)
        for txid in range(4, end + 1):
            writer.write(4, txid, txid)
        writer.committed = chance.choice([None, 3, min(each for each in [*ends, 3] if each is not None)])
        writer.heartbeat()
        # A segment ends where a majority has it completely; other nodes may lag but are never ahead.
        if end > 3 and end == max(each or 0 for each in ends) and chance.random() < 0.4:
            writer.end(4, end)
    if chance.random() < 0.5:
        message += half_recover(nodes, journal_id, chance)
    return message


def half_recover(nodes: Nodes, journal_id: str, chance: random.Random) -> list[Any]:
    """Make a second writer die during its recovery: one node has accepted the segment, and at most one node has
    finalized it.
    """
    message = []
    writers = [Writer(each.client, epoch=2, journal_id=journal_id) for each in nodes.served]
    chosen = chance.sample([0, 1], chance.choice([1, 2]))
    for number in chosen:
        message.append(outcome(writers[number].begin))
    held = {number: writers[number].prepare(4).segment for number in chosen}
    message.append(held)
    best = max(chosen, key=lambda number: -1 if held[number] is None else held[number].last)
    segment = held[best]
    if segment is None or segment.last < 4:
        return message
    url = f"{nodes.served[best].url}/getJournal?jid={journal_id}&segmentTxId=4"
    taker = chance.choice(chosen)
    message.append(outcome(lambda: writers[taker].accept(4, segment.last, url)))
    if chance.random() < 0.3:
        message.append(outcome(lambda: writers[taker].end(4, segment.last)))
    return message


def recovered(nodes: Nodes, journal_id: str) -> Any:
    """Recover with our client, and write a next segment of three transactions."""
    journal = open_quorum_journal(f"{nodes.uri}/{journal_id}", user="hdfs", settings=SETTINGS, namespace=NAMESPACE)
    try:
        journal.recover(NAMESPACE)
        last = journal.segments(1)[-1].last
        segment = journal.start_segment(last + 1, LAYOUT)
        segment.append(RecordBatch(last + 1, last + 3, batch(last + 1, last + 3)))
        segment.finalize(last + 3)
        return journal.epoch, [(each.first, each.last) for each in journal.segments(1)]
    except JournalError as error:
        return type(error).__name__
    finally:
        journal.close()


def test_recovered_segments_are_identical(both: tuple[Nodes, Nodes]) -> None:
    endings = set()
    for seed in range(CASES):
        journal_id = f"case{seed}"
        message = [leave_torn(nodes, journal_id, random.Random(seed)) for nodes in both]
        assert message[0] == message[1], seed
        results = [recovered(nodes, journal_id) for nodes in both]
        assert results[0] == results[1], seed
        assert not isinstance(results[0], str), (seed, results[0])
        for theirs, mine in zip(*(nodes.folders(journal_id) for nodes in both), strict=True):
            assert content(mine) == content(theirs), seed
            assert version(mine) == version(theirs), seed
        one, other = (content(folder) for folder in both[0].folders(journal_id))
        for first, last in results[0][1]:
            assert one[segment_name(first, last)] == other[segment_name(first, last)], seed
        endings.add(results[0][1][1][1])
    assert len(endings) > min(4, CASES // 3)
