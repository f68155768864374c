"""Our JournalNode and Hadoop's, driven by the same calls: the same responses, refusals and folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.errors import JournalOutOfSyncError, RemoteError
from hadoop_rpc.qjournal_values import RequestInfo
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.served_journal import Served, content, hadoops, ours, version
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer, batch, other_batch, outcome

pytestmark = pytest.mark.interop

NOBODY = "http://127.0.0.1:9/getJournal?jid=j1"
FOREIGN = replace(NAMESPACE, cluster_id="CID-other")


class Script:
    """A sequence of calls, with the outcome of each."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.client = served.client
        self.outcomes: list[tuple[str, Any]] = []

    def call(self, what: str, call: Callable[[], Any]) -> None:
        found = outcome(call)
        # ports and URLs differ between nodes
        for name, value in (("http_port", 0), ("from_url", None)):
            if hasattr(found, name):
                found = replace(found, **{name: value})
        if hasattr(found, "manifest"):
            found = replace(found, manifest=replace(found.manifest, committed_txid=None))
        self.outcomes.append((what, found))

    def refused(self, what: str, call: Callable[[], Any]) -> None:
        """Perform a call whose refusal is an IOException of a platform-dependent class."""
        with pytest.raises(RemoteError):
            call()
        self.outcomes.append((what, "refused"))

    def manifest(self, since: int, *, in_progress_ok: bool = True) -> None:
        self.call(
            f"manifest {since} {in_progress_ok}",
            lambda: self.client.get_edit_log_manifest(JOURNAL, since, in_progress_ok=in_progress_ok),
        )


def before_the_format(script: Script) -> None:
    client, writer = script.client, script.served.writer()
    script.call("is formatted", lambda: client.is_formatted(JOURNAL))
    script.call("state of nothing", lambda: client.get_journal_state(JOURNAL))
    script.call("new epoch of nothing", writer.begin)
    script.call("start in nothing", lambda: writer.start(1))
    script.call("journal to nothing", lambda: writer.write(1, 1, 1))
    script.call("finalize nothing", lambda: writer.end(1, 1))
    script.call("purge nothing", lambda: writer.purge(1))
    script.call("prepare nothing", lambda: writer.prepare(1))
    script.call("accept nothing", lambda: writer.accept(1, 1))
    script.call("manifest of nothing", lambda: client.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=True))
    for name in ("", ".hidden", "a/b"):
        script.call(f"journal id {name!r}", partial(client.is_formatted, name))
    script.call(
        "format for no namespace", lambda: client.format(JOURNAL, replace(NAMESPACE, namespace_id=0), force=True)
    )
    script.call("format", lambda: client.format(JOURNAL, NAMESPACE, force=True))
    script.call("is formatted", lambda: client.is_formatted(JOURNAL))
    script.call("format again", lambda: client.format(JOURNAL, NAMESPACE, force=True))
    script.call("state", lambda: client.get_journal_state(JOURNAL))
    script.call("ctime", lambda: client.get_journal_ctime(JOURNAL))


def epochs(script: Script) -> None:
    client = script.client
    first = script.served.writer(epoch=1)
    script.call("new epoch of another cluster", lambda: client.new_epoch(JOURNAL, FOREIGN, 1))
    script.call("another namespace", lambda: client.new_epoch(JOURNAL, replace(NAMESPACE, namespace_id=7), 1))
    script.call("epoch 1", first.begin)
    script.call("epoch 1 again", first.begin)
    script.call("epoch 0", lambda: client.new_epoch(JOURNAL, NAMESPACE, 0))
    script.call("journal before start", lambda: first.write(1, 1, 1))
    script.call("start", lambda: first.start(1))
    script.call("journal", lambda: first.write(1, 1, 3))
    script.call("serial twice", lambda: client.heartbeat(RequestInfo(JOURNAL, 1, first.serial)))
    script.call("serial falls", lambda: client.heartbeat(RequestInfo(JOURNAL, 1, 0)))
    script.call("an older epoch", lambda: client.heartbeat(RequestInfo(JOURNAL, 0, 99)))
    script.manifest(1)
    script.manifest(2)
    script.manifest(4)
    script.manifest(1, in_progress_ok=False)
    script.call("a newer epoch by itself", lambda: client.heartbeat(RequestInfo(JOURNAL, 2, 1)))
    script.call("state", lambda: client.get_journal_state(JOURNAL))
    script.call("the older writer", lambda: first.write(1, 4, 4))
    script.call("a newer one that began nothing", lambda: script.served.writer(epoch=2, serial=5).write(1, 4, 4))
    script.call("epoch 3", script.served.writer(epoch=3).begin)


def segments(script: Script) -> None:
    writer = script.served.writer(epoch=3, serial=10)
    script.call("start over transactions", lambda: writer.start(1))
    script.call("prepare", lambda: writer.prepare(1))
    # Our node finalizes only accepted segments and segments of the same writer; a NameNode always calls accept first.
    script.call("accept", lambda: writer.accept(1, 3))
    script.call("finalize too far", lambda: writer.end(1, 4))
    script.call("finalize too short", lambda: writer.end(1, 2))
    script.call("finalize", lambda: writer.end(1, 3))
    script.call("finalize again", lambda: writer.end(1, 3))
    script.call("finalize again otherwise", lambda: writer.end(1, 2))
    script.call("finalize what is not there", lambda: writer.end(7, 8))
    script.call("start over a finalized one", lambda: writer.start(1))
    script.call("start", lambda: writer.start(4))
    script.call("a gap", lambda: writer.write(4, 5, 5))
    script.call("journal", lambda: writer.write(4, 4, 6))
    script.call("twice", lambda: writer.write(4, 4, 6))
    script.call("finalize while open, too far", lambda: writer.end(4, 9))
    script.call("journal after that", lambda: writer.write(4, 7, 7))
    script.call("finalize", lambda: writer.end(4, 6))
    script.call("start", lambda: writer.start(7))
    script.call("journal to the segment before", lambda: writer.write(4, 7, 7))
    script.call("journal to the right one after that", lambda: writer.write(7, 7, 7))
    script.call("start again", lambda: writer.start(7))
    script.call("prepare an empty one", lambda: writer.prepare(7))
    script.call("start", lambda: writer.start(7))
    script.call("journal", lambda: writer.write(7, 7, 7))
    script.call("start again with one transaction", lambda: writer.start(7))
    script.call("journal", lambda: writer.write(7, 7, 9))
    script.call("start the next without an end", lambda: writer.start(10))
    script.call("journal", lambda: writer.write(10, 10, 12))
    script.call("finalize", lambda: writer.end(10, 12))
    for since in (1, 2, 4, 5, 8, 10, 12):
        script.manifest(since, in_progress_ok=False)
    script.call("epoch 4", script.served.writer(epoch=4).begin)


def commits(script: Script) -> None:
    writer = script.served.writer(epoch=4, serial=1, committed=12)
    script.call("committed", writer.heartbeat)
    writer.committed = 11
    script.call("committed goes back", writer.heartbeat)
    writer.committed = None
    script.call("committed is not told", writer.heartbeat)
    script.call("prepare", lambda: writer.prepare(7))
    script.call("accept nothing", lambda: writer.accept(7, 6))
    script.call("accept what would lose nothing", lambda: writer.accept(7, 9))
    script.call("prepare what was accepted", lambda: writer.prepare(7))
    script.call("prepare what is finalized", lambda: writer.prepare(10))
    script.call("accept another end of what is finalized", lambda: writer.accept(10, 11))
    script.call("accept the end of what is finalized", lambda: writer.accept(10, 12))
    script.call("prepare it", lambda: writer.prepare(10))
    script.refused("accept what nobody serves", lambda: writer.accept(7, 8, NOBODY))
    writer.committed = 12
    script.call("start", lambda: writer.start(13))
    script.call("journal", lambda: writer.write(13, 13, 20))
    writer.committed = 20
    script.call("committed", writer.heartbeat)
    script.call("accept what loses committed ones", lambda: writer.accept(13, 15))
    script.call("finalize", lambda: writer.end(7, 9))
    script.call("finalize", lambda: writer.end(13, 20))
    script.call("epoch 5", script.served.writer(epoch=5).begin)


def purges(script: Script) -> None:
    writer = script.served.writer(epoch=5, serial=1)
    script.call("purge nothing", lambda: writer.purge(1))
    script.call("purge within a segment", lambda: writer.purge(5))
    script.manifest(1, in_progress_ok=False)
    script.call("purge", lambda: writer.purge(10))
    script.manifest(1, in_progress_ok=False)
    script.call("discard within a segment", lambda: script.client.discard_segments(JOURNAL, 15))
    script.call("discard", lambda: script.client.discard_segments(JOURNAL, 13))
    script.manifest(1, in_progress_ok=False)
    script.call("prepare", lambda: writer.prepare(10))


def upgrades(script: Script) -> None:
    client = script.client
    newer = replace(NAMESPACE, c_time=55)
    script.call("can roll back", lambda: client.can_roll_back(JOURNAL, NAMESPACE, NAMESPACE, -63))
    script.call("upgrade unprepared", lambda: client.do_upgrade(JOURNAL, NAMESPACE))
    script.call("prepare", lambda: client.do_pre_upgrade(JOURNAL))
    script.call("upgrade", lambda: client.do_upgrade(JOURNAL, newer))
    script.call("ctime", lambda: client.get_journal_ctime(JOURNAL))
    script.call("state", lambda: client.get_journal_state(JOURNAL))
    script.call("prepare again", lambda: client.do_pre_upgrade(JOURNAL))
    script.call("can roll back", lambda: client.can_roll_back(JOURNAL, newer, NAMESPACE, -63))
    script.call("not to another layout", lambda: client.can_roll_back(JOURNAL, newer, NAMESPACE, -60))
    script.call("roll back", lambda: client.do_rollback(JOURNAL))
    script.call("ctime", lambda: client.get_journal_ctime(JOURNAL))
    script.call("prepare", lambda: client.do_pre_upgrade(JOURNAL))
    script.call("upgrade", lambda: client.do_upgrade(JOURNAL, newer))
    script.call("finalize", lambda: client.do_finalize(JOURNAL))
    script.call("finalize again", lambda: client.do_finalize(JOURNAL))
    script.call("can roll back", lambda: client.can_roll_back(JOURNAL, newer, NAMESPACE, -63))
    script.call("ctime", lambda: client.get_journal_ctime(JOURNAL))
    script.manifest(1, in_progress_ok=False)


CHAPTERS = [before_the_format, epochs, segments, commits, purges, upgrades]


def test_the_same_calls_give_equal_responses_and_directories(conf: HadoopConf, tmp_path: Path) -> None:
    with hadoops(conf) as theirs, ours(tmp_path / "ours") as mine:
        for chapter in CHAPTERS:
            expected, found = Script(theirs), Script(mine)
            chapter(expected)
            chapter(found)
            assert found.outcomes == expected.outcomes, chapter.__name__
            assert content(mine.current) == content(theirs.current), chapter.__name__
            assert version(mine.current) == version(theirs.current), chapter.__name__


def filled(served: Served) -> Writer:
    """Make a journal with a finalized segment, a segment in progress and an accepted recovery."""
    served.client.format(JOURNAL, NAMESPACE, force=True)
    writer = served.writer()
    writer.begin()
    writer.segment(1, 10)
    writer.committed = 10
    writer.start(11)
    writer.write(11, 11, 15)
    writer = served.writer(epoch=2, committed=15)
    writer.begin()
    writer.prepare(11)
    writer.accept(11, 15)
    return writer


def tail(served: Served) -> None:
    """Recover the journal with the next writer, and begin a segment."""
    writer = served.writer(epoch=3, committed=15)
    assert outcome(served.writer(epoch=2).begin) == "java.io.IOException"
    assert writer.begin() == 11
    prepared = writer.prepare(11)
    assert (prepared.accepted_in_epoch, prepared.last_writer_epoch, prepared.last_committed_txid) == (2, 1, 15)
    writer.accept(11, 15)
    writer.end(11, 15)
    writer.segment(16, 20)
    found = served.client.get_edit_log_manifest(JOURNAL, 1, in_progress_ok=False).manifest
    assert [(log.first, log.last) for log in found.logs] == [(1, 10), (11, 15), (16, 20)]


def test_our_node_opens_a_directory_of_hadoops(conf: HadoopConf, tmp_path: Path) -> None:
    with hadoops(conf) as theirs:
        filled(theirs)
    with ours(theirs.edits_dir) as mine:
        tail(mine)


def test_hadoops_node_opens_a_directory_of_ours(conf: HadoopConf, tmp_path: Path) -> None:
    with ours(tmp_path / "ours") as mine:
        filled(mine)
    conf.update({"dfs.journalnode.edits.dir": str(mine.edits_dir)})
    with hadoops(conf) as theirs:
        tail(theirs)


def test_both_nodes_serve_segments_alike(conf: HadoopConf, tmp_path: Path) -> None:
    right, wrong = NAMESPACE.colon_string(), replace(NAMESPACE, namespace_id=7).colon_string()
    queries: list[dict[str, str]] = [
        {"jid": JOURNAL, "segmentTxId": "1", "storageInfo": right},
        {"jid": JOURNAL, "segmentTxId": "1"},
        {"jid": JOURNAL, "segmentTxId": "11", "storageInfo": right},
        {"jid": JOURNAL, "segmentTxId": "1", "storageInfo": wrong},
        {"jid": JOURNAL, "segmentTxId": "5", "storageInfo": right},
        {"jid": JOURNAL, "segmentTxId": "1", "storageInfo": replace(NAMESPACE, layout_version=-60).colon_string()},
        {"jid": JOURNAL, "segmentTxId": "x"},
        {"jid": JOURNAL},
        {"segmentTxId": "1"},
        {"jid": "unknown", "segmentTxId": "1"},
        {"jid": "unknown", "segmentTxId": "1", "storageInfo": right},
        {"jid": "../up", "segmentTxId": "1"},
        {"jid": JOURNAL, "segmentTxId": "1", "storageInfo": "nonsense"},
    ]
    with hadoops(conf) as theirs, ours(tmp_path / "ours") as mine:
        filled(theirs)
        filled(mine)
        for query in queries:
            expected, found = theirs.get(**query), mine.get(**query)
            assert found.status_code == expected.status_code, query
            if expected.status_code == 200:
                assert found.content == expected.content.rstrip(b"\xff"), query
                for header in ("Content-Disposition", "X-Image-Edits-Name"):
                    assert found.headers[header] == expected.headers[header], query
                assert int(found.headers["Content-Length"]) == len(found.content)


def test_each_node_recovers_segments_from_the_other(conf: HadoopConf, tmp_path: Path) -> None:
    with hadoops(conf) as theirs, ours(tmp_path / "ours") as mine:
        for ahead, behind in ((theirs, mine), (mine, theirs)):
            for served, last in ((ahead, 9), (behind, 4)):
                served.client.format(JOURNAL, NAMESPACE, force=True)
                writer = served.writer()
                writer.begin()
                writer.start(1)
                writer.write(1, 1, last)
            recovery = behind.writer(epoch=2)
            assert recovery.begin() == 1
            recovery.accept(1, 9, ahead.segment_url(1))
            recovery.end(1, 9)
            found = behind.current / "edits_0000000000000000001-0000000000000000009"
            assert found.read_bytes().rstrip(b"\xff").endswith(batch(1, 9))


def test_ours_is_stricter_with_segment_copies_of_other_writers(conf: HadoopConf, tmp_path: Path) -> None:
    """If copies have the same length and different transactions, Hadoop's node finalizes its own copy, even if it was
    not accepted. Our node replaces the copy or refuses the call.
    """
    with hadoops(conf) as theirs, ours(tmp_path / "ours") as mine:
        for node, other in ((theirs, mine), (mine, theirs)):
            for served, records in ((node, other_batch(1, 4)), (other, batch(1, 4))):
                served.client.format(JOURNAL, NAMESPACE, force=True)
                writer = served.writer()
                writer.begin()
                writer.start(1)
                served.client.journal(writer.request(), 1, 1, 4, records)
            recovery = node.writer(epoch=2)
            assert recovery.begin() == 1
            unseen = outcome(partial(recovery.end, 1, 4))
            assert unseen == (None if node is theirs else JournalOutOfSyncError.java_class)
            recovery.accept(1, 4, other.segment_url(1))
            recovery.end(1, 4)
            found = (node.current / "edits_0000000000000000001-0000000000000000004").read_bytes().rstrip(b"\xff")
            assert found.endswith(other_batch(1, 4) if node is theirs else batch(1, 4))
