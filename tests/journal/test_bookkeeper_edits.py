"""A journal on BookKeeper, as commands, a daemon and the stub use it; edits of real NameNodes are merged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.storage.inspector import read_storage_info
from journal import journal_copy
from journal.binary_codec import encode_op
from journal.cli.edits_argument import opened
from journal.file_journal import FileJournal
from journal.journal import Journal, RecordBatch
from journal.journal_copy import CopiedSegment, CopyRange, copy_journal, select_range
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.quorum.quorum_journal import QuorumSegmentWriter
from journal.segment_writer import StoreWriter
from namenode_stub.config import StubConfig
from namenode_stub.formatting import format_storage
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.quorum_support import Quorum
from tests.checkpointer.standby_support import daemon_of, stub_config, write_edits
from tests.cli_runner import run_cli
from tests.depth import sample
from tests.journal import bookkeeper_recordings as recorded
from tests.journal.bookkeeper_cluster import PATH, Cluster
from tests.journal.contract_support import write_segments
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO, LAYOUT, delete, read_all

__all__ = ["stub_config"]


def batch(first: int, ops: list[EditOp], layout: int = LAYOUT) -> RecordBatch:
    records = b"".join(encode_op(replace(op, txid=txid), layout) for txid, op in enumerate(ops, first))
    return RecordBatch(first, first + len(ops) - 1, records)


def whole(first: int, last: int, layout: int = LAYOUT) -> RecordBatch:
    return batch(first, [StartLogSegmentOp(), *map(delete, range(first + 1, last)), EndLogSegmentOp()], layout)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(tmp_path / "bookies", bookies=4) as made:
        made.serve(monkeypatch)
        yield made


# ---- edits of real NameNodes -------------------------------------------------------------------------------

LOCAL = recorded.ROOT / "bkjm-ledgers"


def test_journal_of_name_nodes_is_read_like_their_local_edits(cluster: Cluster) -> None:
    cluster.load_recorded("7-graceful-failover")
    journal = cluster.journal()
    found = [(each.first, each.last, each.in_progress) for each in journal.segments(1, in_progress=True)]
    assert found == [(1, 77, False), (78, 83, False), (84, 85, False), (86, 86, True)]
    assert (count_of(journal, 1), count_of(journal, 80), count_of(journal, 1, in_progress=True)) == (85, 6, 86)
    for first in (1, 2, 40, 77, 78, 84):
        txids = [op.txid for each in journal.segments(first) for op in each.read(first)]
        assert txids == list(range(first, 86))


def test_recorded_edits_are_copied_byte_for_byte(cluster: Cluster, tmp_path: Path) -> None:
    cluster.load_recorded("7-graceful-failover")
    before = {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()}
    code, out, err = run_cli("edits", "convert", cluster.uri, f"file://{tmp_path}/off", "--json")
    assert code == 0, err
    assert json.loads(out)["transactions"] == 85
    local = (LOCAL / "edits_0000000000000000001-0000000000000000077").read_bytes()
    converted = (tmp_path / "off" / "current" / "edits_0000000000000000001-0000000000000000077").read_bytes()
    assert converted[: len(local)] == local
    # a reader neither changes the journal nor fences a writer
    assert {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()} == before
    code, out, _ = run_cli("edits", "info", cluster.uri, "--json")
    answer = json.loads(out)
    assert (answer["transactions"], answer["segments"], answer["inProgress"]) == (86, 4, True)
    assert (answer["firstTxid"], answer["lastTxid"], answer["layoutVersion"]) == (1, 86, -63)
    code, out, _ = run_cli("edits", "dump", cluster.uri, "--format", "json")
    assert code == 0
    assert len(out.splitlines()) == 87


def test_merges_from_bookkeeper_and_file_journal_are_equal(cluster: Cluster, tmp_path: Path) -> None:
    """The NameNode's edits are merged from both journals onto the namespace before its first transaction."""
    cluster.load_recorded("7-graceful-failover")
    empty = tmp_path / "empty"
    format_storage([empty], [empty], cluster.journal().namespace())
    code, _, err = run_cli("edits", "convert", cluster.uri, f"file://{tmp_path}/copy", "--to", "77")
    assert code == 0, err
    digests = []
    for folder in (LOCAL, tmp_path / "copy" / "current"):
        storage = tmp_path / folder.name
        shutil.copytree(empty, storage, dirs_exist_ok=True)
        for path in folder.glob("edits_*1-*77"):
            shutil.copy(path, storage / "current")
        code, _, err = run_cli("merge", storage)
        assert code == 0, err
        digests.append((storage / "current" / "fsimage_0000000000000000077.md5").read_text())
    assert digests[0] == digests[1]


def test_segment_that_name_nodes_left_in_progress_is_recovered(cluster: Cluster) -> None:
    cluster.load_recorded("7-graceful-failover")
    journal = cluster.journal()
    journal.recover(journal.namespace())
    assert [(each.first, each.last) for each in journal.segments(1)] == [(1, 77), (78, 83), (84, 85), (86, 87)]
    assert cluster.znode(f"{PATH}/maxtxid") == b"txId: 87\n"
    assert cluster.znode(f"{PATH}/CurrentInprogress") is None
    writer = journal.start_segment(88, -63)
    writer.append(whole(88, 90, -63))


# ---- commands ----------------------------------------------------------------------------------------------


def test_interrupted_copy_is_resumed(cluster: Cluster, tmp_path: Path) -> None:
    journal = cluster.journal()
    journal.format(INFO)
    write_segments(journal, (1, 30), (31, 60), (61, 90))
    target = FileJournal(tmp_path / "off" / "current")
    parts = select_range(journal, CopyRange(), layout_version=None, default_layout=LAYOUT)
    copy_journal(parts[:1], target, INFO)
    # add a part of the second segment, as a crash would leave it
    writer = target.start_segment(31, LAYOUT)
    half = [op for op in parts[1].ops() if op.txid <= 40]
    writer.append(batch(31, half))
    writer.abort()
    target.close()
    uri = f"file://{tmp_path}/off"
    assert run_cli("edits", "convert", cluster.uri, uri)[0] == 6
    code, out, err = run_cli("edits", "convert", cluster.uri, uri, "--resume", "--json")
    assert code == 0, err
    assert json.loads(out)["transactions"] == 90
    extents = [(each.first, each.last) for each in target.segments(1)]
    assert extents == [(1, 30), (31, 40), (41, 60), (61, 90)]
    assert read_all(target) == read_all(journal)
    # repeating the command has no effect, and the copy of another journal is refused
    assert run_cli("edits", "convert", cluster.uri, uri, "--resume")[0] == 0
    other = cluster.journal(path="/other")
    other.format(INFO)
    write_segments(other, (1, 25), (26, 90))
    code, _, err = run_cli("edits", "convert", cluster.uri.replace(PATH, "/other"), uri, "--resume")
    assert (code, "no segment of the source does" in err) == (4, True), err
    assert run_cli("edits", "convert", cluster.uri, uri, "--resume", "--force")[0] == 2
    code, out, err = run_cli("edits", "convert", uri, cluster.uri.replace(PATH, "/back"))
    assert code == 0, err
    assert read_all(cluster.journal(path="/back")) == read_all(journal)


def contents_of(journal: Journal) -> list[bytes]:
    """Return every transaction, encoded."""
    return [encode_op(op, LAYOUT) for each in journal.segments(1) for op in each.read(each.first)]


class StoppedError(BaseException):
    """The simulated end of the process; no code handles this error."""


def stop_at(monkeypatch: pytest.MonkeyPatch, kind: type[Any], call: str, number: int) -> None:
    """Make a writer's process die before call `number`, or after it if `number` is odd."""
    left, perform = number // 2, getattr(kind, call)

    def counted(writer: Any, argument: Any) -> None:
        nonlocal left
        left -= 1
        if left == -1 and number % 2 == 0:
            raise StoppedError
        perform(writer, argument)
        if left == -1:
            raise StoppedError

    monkeypatch.setattr(kind, call, counted)


@pytest.mark.parametrize("direction", ["off to a quorum", "from a directory"])
def test_copy_interrupted_at_any_step_can_be_completed(
    cluster: Cluster, tmp_path: Path, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = direction == "off to a quorum"
    monkeypatch.setattr(journal_copy, "_BATCH", 300)
    with Quorum(tmp_path / "quorum") as quorum:
        source: Journal = cluster.journal() if off else FileJournal(tmp_path / "from" / "current")
        source.format(INFO)
        write_segments(source, (1, 30), (31, 60), (61, 90))
        source_uri = cluster.uri if off else f"file://{tmp_path}/from"
        kind: type[Any] = QuorumSegmentWriter if off else StoreWriter
        expected = contents_of(source)
        stops = [("append", number) for number in range(14)] + [("finalize", number) for number in range(6)]
        for number, (call, step) in enumerate(sample(stops, 4, "stops")):
            uri = f"{quorum.uri}-{number}" if off else cluster.uri.replace(PATH, f"/copy{number}")
            with monkeypatch.context() as patched:
                stop_at(patched, kind, call, step)
                with closing(opened(uri, None)) as target, pytest.raises(StoppedError):
                    copy_journal(parts_of(source), target, INFO)
            assert run_cli("edits", "convert", source_uri, uri)[0] == 6
            code, out, err = run_cli("edits", "convert", source_uri, uri, "--resume", "--json")
            assert code == 0, f"{call} {step}: {err}"
            assert json.loads(out)["transactions"] == 90
            with closing(opened(uri, None)) as target:
                assert contents_of(target) == expected, f"{call} {step}"
                assert target.segments(1, in_progress=True)[-1].last == 90


def test_rejected_copy_does_not_fence_the_writer_of_the_target(cluster: Cluster, tmp_path: Path) -> None:
    """The target has another namespace or other content, or is a complete copy that a NameNode has since extended."""
    source = FileJournal(tmp_path / "from" / "current")
    source.format(INFO)
    write_segments(source, (1, 30), (31, 60))
    stranger = replace(INFO, namespace_id=INFO.namespace_id + 1, cluster_id="CID-stranger")
    with Quorum(tmp_path / "quorum") as quorum:
        for uri in (cluster.uri, quorum.uri):
            with closing(opened(uri, None)) as target:
                target.format(stranger)
                target.recover(stranger)
                writer = target.start_segment(1, LAYOUT)
                writer.append(batch(1, [StartLogSegmentOp(), delete(2)]))
                writer.append(batch(3, [delete(3)]))
                code, _, err = run_cli("edits", "convert", source.folder.parent, uri, "--resume")
                assert code != 0
                assert "namespace" in err.lower(), err
                writer.append(batch(4, [delete(4)]))
        for number, (first, other) in enumerate([(31, [delete(99)]), (61, [delete(62)])]):
            for uri in (cluster.uri.replace(PATH, f"/other{number}"), f"{quorum.uri}-{number}"):
                with closing(opened(uri, None)) as target:
                    copy_journal([part for part in parts_of(source) if part.last < first], target, INFO)
                    writer = target.start_segment(first, LAYOUT)
                    writer.append(batch(first, [StartLogSegmentOp(), *other]))
                    writer.append(batch(first + 2, [delete(first + 2)]))
                    code, _, err = run_cli("edits", "convert", source.folder.parent, uri, "--resume")
                    assert (code, "not a copy of the source" in err or "differ from the written" in err) == (4, True), (
                        err
                    )
                    writer.append(batch(first + 3, [delete(first + 3)]))
        # all transactions are present, and a reader cannot yet see the new segment, so nothing needs recovery
        uri = cluster.uri.replace(PATH, "/whole")
        with closing(opened(uri, None)) as target:
            copy_journal(parts_of(source), target, INFO)
            writer = target.start_segment(61, LAYOUT)
            writer.append(batch(61, [StartLogSegmentOp()]))
            assert run_cli("edits", "convert", source.folder.parent, uri, "--resume")[0] == 0
            writer.append(batch(62, [delete(62)]))
    # the writer of a directory locks it
    target = FileJournal(tmp_path / "to" / "current")
    copy_journal(parts_of(source), target, INFO)
    code, _, err = run_cli("edits", "convert", source.folder.parent, target.folder.parent, "--resume")
    assert (code, "in use" in err or "lock" in err) == (6, True), err
    target.close()


def parts_of(source: Journal) -> list[CopiedSegment]:
    return select_range(source, CopyRange(), layout_version=None, default_layout=LAYOUT)


# ---- with the stub -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_progress", [False, True])
def test_standby_daemon_checkpoints_from_edits_of_the_stub(
    cluster: Cluster, stub_config: StubConfig, tmp_path: Path, in_progress: bool
) -> None:
    uri = cluster.uri
    cluster.journal().format(read_storage_info(stub_config.image_directories[0]))
    with NameNodeStub(replace(stub_config, edits=(*stub_config.edits, uri), shared_edits=uri)) as stub:
        with daemon_of(stub, tmp_path, tail_in_progress=in_progress, shared_edits=uri) as daemon:
            write_edits(stub, "a")
            daemon.role.tail()
            assert daemon.service.poll().state is TriggerState.DONE
            assert daemon.service.status()["alarms"] == []
            victim = next(each for each in cluster.bookies if each.up)
            victim.stop()
            last = write_edits(stub, "b")
            assert stub.namespace.transactions.log.durable_txid >= last
            daemon.role.tail()
            assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
        # the writer was never disturbed
        stub.namespace.mkdirs("/after")
