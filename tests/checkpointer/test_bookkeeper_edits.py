"""A journal on BookKeeper in the commands, in a daemon, and under the stub; what NameNodes left there is merged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.storage.lookup import read_storage_info
from journal.binary_codec import encode_op
from journal.file_journal import FileJournal
from journal.journal import Journal, RecordBatch
from journal.journal_copy import CopyRange, copy_journal, select_range
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from namenode_stub.config import StubConfig
from namenode_stub.formatting import format_storage
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.cli_runner import run_cli
from tests.checkpointer.test_daemon_standby import PERIOD, TRANSACTIONS, Daemon, config_for, write_edits
from tests.journal import bookkeeper_recordings as recorded
from tests.journal.bookkeeper_cluster import PATH, Cluster
from tests.journal.wal_support import INFO, LAYOUT, delete, read_all
from tests.namenode_stub.stub_support import formatted


def batch(first: int, ops: list[EditOp], layout: int = LAYOUT) -> RecordBatch:
    records = b"".join(encode_op(replace(op, txid=txid), layout) for txid, op in enumerate(ops, first))
    return RecordBatch(first, first + len(ops) - 1, records)


def whole(first: int, last: int, layout: int = LAYOUT) -> RecordBatch:
    return batch(first, [StartLogSegmentOp(), *map(delete, range(first + 1, last)), EndLogSegmentOp()], layout)


def write_segments(journal: Journal, *bounds: tuple[int, int]) -> None:
    journal.recover(INFO)
    for first, last in bounds:
        writer = journal.start_segment(first, LAYOUT)
        writer.append(whole(first, last))
        writer.finalize(last)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(tmp_path / "bookies", bookies=4) as made:
        made.serve(monkeypatch)
        yield made


# ---- what real NameNodes left ------------------------------------------------------------------------------

LOCAL = recorded.ROOT / "bkjm-ledgers"


def test_the_journal_of_name_nodes_is_read_as_their_local_edits(cluster: Cluster) -> None:
    cluster.load_recorded("7-graceful-failover")
    journal = cluster.journal()
    found = [(each.first, each.last, each.in_progress) for each in journal.segments(1, in_progress=True)]
    assert found == [(1, 77, False), (78, 83, False), (84, 85, False), (86, 86, True)]
    assert (journal.count(1), journal.count(80), journal.count(1, in_progress=True)) == (85, 6, 86)
    for first in (1, 2, 40, 77, 78, 84):
        txids = [op.txid for each in journal.segments(first) for op in each.read(first)]
        assert txids == list(range(first, 86))


def test_recorded_edits_come_off_it_byte_for_byte(cluster: Cluster, tmp_path: Path) -> None:
    cluster.load_recorded("7-graceful-failover")
    before = {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()}
    code, out, err = run_cli("edits", "convert", cluster.uri, f"file://{tmp_path}/off", "--json")
    assert code == 0, err
    assert json.loads(out)["transactions"] == 85
    local = (LOCAL / "edits_0000000000000000001-0000000000000000077").read_bytes()
    converted = (tmp_path / "off" / "current" / "edits_0000000000000000001-0000000000000000077").read_bytes()
    assert converted[: len(local)] == local
    # whoever reads changes nothing, and fences nobody
    assert {path: (node.data, node.version) for path, node in cluster.znodes.nodes.items()} == before
    code, out, _ = run_cli("edits", "info", cluster.uri, "--json")
    answer = json.loads(out)
    assert (answer["transactions"], answer["segments"], answer["inProgress"]) == (86, 4, True)
    assert (answer["firstTxid"], answer["lastTxid"], answer["layoutVersion"]) == (1, 86, -63)
    code, out, _ = run_cli("edits", "dump", cluster.uri, "--format", "json")
    assert code == 0
    assert len(out.splitlines()) == 87


def test_image_and_journal_merge_to_the_image_of_the_file_journal(cluster: Cluster, tmp_path: Path) -> None:
    """The namespace before its first transaction, and what the NameNode wrote, both ways."""
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


def test_what_name_nodes_left_in_progress_is_recovered(cluster: Cluster) -> None:
    cluster.load_recorded("7-graceful-failover")
    journal = cluster.journal()
    journal.recover(journal.namespace())
    assert [(each.first, each.last) for each in journal.segments(1)] == [(1, 77), (78, 83), (84, 85), (86, 87)]
    assert cluster.znode(f"{PATH}/maxtxid") == b"txId: 87\n"
    assert cluster.znode(f"{PATH}/CurrentInprogress") is None
    writer = journal.start_segment(88, -63)
    writer.append(whole(88, 90, -63))


# ---- commands ----------------------------------------------------------------------------------------------


def test_a_copy_that_stopped_goes_on_where_it_ended(cluster: Cluster, tmp_path: Path) -> None:
    journal = cluster.journal()
    journal.format(INFO)
    write_segments(journal, (1, 30), (31, 60), (61, 90))
    target = FileJournal(tmp_path / "off" / "current")
    parts = select_range(journal, CopyRange(), layout_version=None, default_layout=LAYOUT)
    copy_journal(parts[:1], target, INFO)
    # and a part of the second one, as a kill leaves it
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
    # once more there is nothing to do, and another journal's copy is none
    assert run_cli("edits", "convert", cluster.uri, uri, "--resume")[0] == 0
    other = cluster.journal(path="/other")
    other.format(INFO)
    write_segments(other, (1, 25), (26, 90))
    code, _, err = run_cli("edits", "convert", cluster.uri.replace(PATH, "/other"), uri, "--resume")
    assert (code, "no such end" in err) == (4, True), err
    assert run_cli("edits", "convert", cluster.uri, uri, "--resume", "--force")[0] == 2
    code, out, err = run_cli("edits", "convert", uri, cluster.uri.replace(PATH, "/back"))
    assert code == 0, err
    assert read_all(cluster.journal(path="/back")) == read_all(journal)


# ---- beside the stub ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_progress", [False, True])
def test_the_stub_writes_it_and_a_standby_daemon_checkpoints_from_it(
    cluster: Cluster, tmp_path: Path, in_progress: bool
) -> None:
    uri = cluster.uri
    stub_config: StubConfig = formatted(
        tmp_path / "active",
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        rpc_address=("127.0.0.1", 0),
    )
    cluster.journal().format(read_storage_info(stub_config.image_directories[0]))
    with NameNodeStub(replace(stub_config, edits=(*stub_config.edits, uri), shared_edits=uri)) as stub:
        config = config_for(
            tmp_path,
            stub.server.url,
            namenode_rpc_addresses=(stub.rpc_address,),
            tail_in_progress=in_progress,
            shared_edits=uri,
        )
        with Daemon(config) as daemon:
            write_edits(stub, "a")
            daemon.role.tail()
            assert daemon.service.poll().state is TriggerState.DONE
            assert daemon.service.status()["alarms"] == []
            victim = next(each for each in cluster.bookies if each.up)
            victim.stop()
            last = write_edits(stub, "b")
            assert stub.namespace.log.durable_txid >= last
            daemon.role.tail()
            assert daemon.service.poll().details["uploads"] == {stub.server.url: "SUCCESS"}
        # the writer was never disturbed
        stub.namespace.mkdirs("/after")
