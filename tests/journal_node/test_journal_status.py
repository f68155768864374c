"""Status of a JournalNode: /status, /jmx, /metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hadoop_rpc.errors import EditsCacheMissError
from hadoop_rpc.server_counts import RpcActivity
from journal_node.counters import SyncTimes
from journal_node.journal_beans import journal_node_beans
from journal_node.journal_facts import JournalNodeFacts, RpcFacts, journal_facts, node_status
from journal_node.journal_metrics import journal_metrics_blueprint
from journal_node.node import JournalNode
from servlets.application import create_application
from servlets.jmx import jmx_blueprint
from tests.journal_node.journal_node_support import HEADER, JOURNAL, batch, formatted
from tests.journal_node.memory_disk import MemoryDisk


def new_node(cache_bytes: int = 1000) -> JournalNode:
    disks: dict[str, MemoryDisk] = {}
    return JournalNode(
        lambda journal_id: disks.setdefault(journal_id, MemoryDisk(f"a/{journal_id}")), cache_bytes=cache_bytes
    )


@pytest.fixture
def node() -> JournalNode:
    """A node with journal j1: 1-10 is finalized, 11 to 12 is in progress, and 14 transactions are committed."""
    node = new_node()
    writer = formatted(node)
    writer.segment(1, 10)
    writer.committed = 14
    writer.start(11)
    writer.write(11, 11, 12)
    node.get_journaled_edits(JOURNAL, 11, 9)
    node.get_journaled_edits(JOURNAL, 13, 9)
    return node


def facts_of(node: JournalNode) -> JournalNodeFacts:
    return JournalNodeFacts("127.0.0.1:8485", "1.2", 1000.5, tuple(map(journal_facts, node.journals())))


def test_status_of_a_journal_node(node: JournalNode) -> None:
    status = json.loads(json.dumps(node_status(facts_of(node))))
    journal = status["journals"].pop(JOURNAL)
    assert journal.pop("lastBatchAt") > 1e9
    assert status == {
        "role": "journalnode",
        "address": "127.0.0.1:8485",
        "version": "1.2",
        "startedAt": 1000.5,
        "failing": {},
        "journals": {},
    }
    assert journal == {
        "directory": "a/j1",
        "formatted": True,
        "namespace": "-63:980837346:0:CID-x",
        "lastPromisedEpoch": 1,
        "lastWriterEpoch": 1,
        "highestTxid": 12,
        "committedTxid": 14,
        "lagTransactions": 2,
        "openSegment": 11,
        "transactionsWritten": 12,
        "bytesWritten": len(batch(1, 12)),
        "segmentsSynced": 0,
    }


def test_beans_are_named_as_in_hadoop() -> None:
    node = new_node()
    node.open_journal("j2")
    formatted(node)
    client = create_application(jmx_blueprint(lambda: journal_node_beans(facts_of(node)))).test_client()
    info, _, second, first = client.get("/jmx?qry=Hadoop:service=JournalNode,*").get_json()["beans"]
    assert info["name"] == "Hadoop:service=JournalNode,name=JournalNodeInfo"
    assert json.loads(info["JournalsStatus"]) == {"j2": {"Formatted": "false"}, "j1": {"Formatted": "true"}}
    assert info["ClusterIds"] == ["CID-x"]
    assert info["StorageInfos"] == ["{LayoutVersion=-63, ClusterId=CID-x, NamespaceId=980837346, CreationTime=0}"]
    assert (info["HostAndPort"], info["JNStartedTimeInMillis"]) == ("127.0.0.1:8485", 1000500)
    assert (first["name"], second["name"]) == (
        "Hadoop:service=JournalNode,name=Journal-j1",
        "Hadoop:service=JournalNode,name=Journal-j2",
    )
    assert first["modelerType"] == "Journal-j1"


def test_counters_in_the_bean_of_a_journal(node: JournalNode) -> None:
    (*_, bean) = journal_node_beans(facts_of(node))
    counts = {name: value for name, value in bean.attributes.items() if "Latency" not in name}
    assert counts.pop("LastJournalTimestamp") > 1e12
    assert counts == {
        "BatchesWritten": 2,
        "TxnsWritten": 12,
        "BytesWritten": len(batch(1, 12)),
        "BatchesWrittenWhileLagging": 1,
        "LastWriterEpoch": 1,
        "LastPromisedEpoch": 1,
        "LastWrittenTxId": 12,
        "CurrentLagTxns": 2,
        "NumEditLogsSynced": 0,
        "RpcEmptyResponses": 1,
        "TxnsServedViaRpc": 2,
        "BytesServedViaRpc": len(HEADER + batch(11, 12)),
        "RpcRequestCacheMissAmountNumMisses": 0,
        "RpcRequestCacheMissAmountAvgTxns": 0.0,
        "tag.JournalId": JOURNAL,
        "Syncs60sNumOps": 2,
        "Syncs300sNumOps": 2,
        "Syncs3600sNumOps": 2,
    }
    latencies = {name for name in bean.attributes if "Latency" in name}
    windows, parts = ("60s", "300s", "3600s"), (50, 75, 90, 95, 99)
    assert latencies == {f"Syncs{each}{part}thPercentileLatencyMicros" for each in windows for part in parts}


def test_cache_misses_are_counted_with_their_missing_transactions() -> None:
    node = new_node(cache_bytes=len(batch(11, 12)))
    writer = formatted(node)
    writer.segment(1, 10)
    writer.start(11)
    writer.write(11, 11, 12)
    for since in (6, 10):
        with pytest.raises(EditsCacheMissError):
            node.get_journaled_edits(JOURNAL, since, 9)
    (*_, bean) = journal_node_beans(facts_of(node))
    assert bean.attributes["RpcRequestCacheMissAmountNumMisses"] == 2
    assert bean.attributes["RpcRequestCacheMissAmountAvgTxns"] == pytest.approx(3.0)


def test_beans_of_the_process_and_its_rpc_server(node: JournalNode) -> None:
    activity = RpcActivity()
    activity.performed(0.002, 0.01, success=True)
    activity.performed(0.004, 0.03, success=False)
    activity.moved(received=10, sent=20)
    facts = replace(facts_of(node), rpc=RpcFacts(8485, activity.counts(), 3, 1))
    beans = {bean.name.rpartition("=")[2]: bean.attributes for bean in journal_node_beans(facts)}
    rpc = {name: value for name, value in beans["RpcActivityForPort8485"].items() if not name.startswith("tag.")}
    assert rpc == {
        "ReceivedBytes": 10,
        "SentBytes": 20,
        "RpcCallSuccesses": 1,
        "RpcQueueTimeNumOps": 2,
        "RpcQueueTimeAvgTime": pytest.approx(3.0),
        "RpcProcessingTimeNumOps": 2,
        "RpcProcessingTimeAvgTime": pytest.approx(20.0),
        "NumOpenConnections": 3,
        "CallQueueLength": 1,
    }
    assert beans["JvmMetrics"]["MemHeapUsedM"] > 1
    assert beans["JvmMetrics"]["ThreadsRunnable"] >= 1


def test_metrics_have_a_label_for_the_journal(node: JournalNode) -> None:
    node.open_journal("j2")
    client = create_application(journal_metrics_blueprint(lambda: facts_of(node))).test_client()
    text = client.get("/metrics").text
    samples = {
        (sample.name, sample.labels.get("journal")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    expected = {
        "journal_formatted": 1,
        "promised_epoch": 1,
        "writer_epoch": 1,
        "highest_txid": 12,
        "committed_txid": 14,
        "lag_transactions": 2,
        "segment_open": 1,
        "batches_total": 2,
        "lagging_batches_total": 1,
        "transactions_total": 12,
        "written_bytes_total": len(batch(1, 12)),
        "segments_synced_total": 0,
        "rpc_transactions_total": 2,
        "rpc_misses_total": 0,
    }
    assert {name: samples[f"hdfs_journalnode_{name}", "j1"] for name in expected} == expected
    assert samples["hdfs_journalnode_journal_formatted", "j2"] == 0
    assert ("hdfs_journalnode_committed_txid", "j2") not in samples
    assert samples["hdfs_journalnode_start_time_seconds", None] == 1000.5
    assert samples["hdfs_journalnode_info", None] == 1
    assert 'hdfs_journalnode_sync_quantile_seconds{journal="j1",quantile="0.99"}' in text


def test_syncs_of_the_last_minute_are_summarized(tmp_path: Path) -> None:
    now = 0.0
    times = SyncTimes(lambda: now)
    assert times.summary().count == 0
    assert times.summary().seconds[99] == 0.0
    for number in range(200):
        now = float(number)
        times.add(number / 100)
    summary = times.summary()
    assert summary.count == 61
    assert summary.seconds[50] == pytest.approx(1.69)
    assert summary.seconds[99] == pytest.approx(1.99)
