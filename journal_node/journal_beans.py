"""The beans of a JournalNode for Hadoop's tools and dashboards (JournalNodeMXBean, JournalMetrics)."""

from __future__ import annotations

import gc
import json
import socket
import threading
from typing import Any, Final

from hadoop_common.process_memory import resident_memory
from journal_node.journal_facts import HostedJournalFacts, JournalNodeFacts, RpcFacts
from servlets.jmx import Bean

_SERVICE: Final = "Hadoop:service=JournalNode"
_MEBI: Final = 1 << 20


def journal_node_beans(facts: JournalNodeFacts) -> list[Bean]:
    """Return JournalNodeInfo, JvmMetrics, the RPC server's bean, and a bean for each journal."""
    rpc = [] if facts.rpc is None else [_rpc(facts.rpc)]
    return [_info(facts), _process(), *rpc, *map(_journal, facts.journals)]


def _mean(total: float, count: int) -> float:
    return total / count if count else 0.0


def _process() -> Bean:
    """Return the values of this process for JVM dashboards, without attributes that do not exist in Python."""
    resident, threads = resident_memory() / _MEBI, threading.active_count()
    attributes = {
        "tag.Context": "jvm",
        "tag.ProcessName": "JournalNode",
        "tag.Hostname": socket.gethostname(),
        "MemHeapUsedM": resident,
        "MemHeapCommittedM": resident,
        "GcCount": sum(generation["collections"] for generation in gc.get_stats()),
        "ThreadsRunnable": threads,
    }
    return Bean(f"{_SERVICE},name=JvmMetrics", "JvmMetrics", attributes)


def _rpc(facts: RpcFacts) -> Bean:
    """Return RpcMetrics; times are means in ms since the start. Hadoop reports means of the last interval."""
    counts, name = facts.counts, f"RpcActivityForPort{facts.port}"
    attributes = {
        "tag.port": str(facts.port),
        "tag.Context": "rpc",
        "tag.Hostname": socket.gethostname(),
        "ReceivedBytes": counts.received,
        "SentBytes": counts.sent,
        "RpcCallSuccesses": counts.successes,
        "RpcQueueTimeNumOps": counts.calls,
        "RpcQueueTimeAvgTime": 1000 * _mean(counts.queue_seconds, counts.calls),
        "RpcProcessingTimeNumOps": counts.calls,
        "RpcProcessingTimeAvgTime": 1000 * _mean(counts.processing_seconds, counts.calls),
        "NumOpenConnections": facts.open_connections,
        "CallQueueLength": facts.queue_length,
    }
    return Bean(f"{_SERVICE},name={name}", name, attributes)


def _info(facts: JournalNodeFacts) -> Bean:
    formatted = {name: {"Formatted": "false"} for name in facts.failing}
    formatted |= {each.journal_id: {"Formatted": str(each.info is not None).lower()} for each in facts.journals}
    known = [each.info for each in facts.journals if each.info is not None]
    return Bean(
        f"{_SERVICE},name=JournalNodeInfo",
        "org.apache.hadoop.hdfs.qjournal.server.JournalNode",
        {
            "JournalsStatus": json.dumps(formatted, separators=(",", ":")),
            # not in Hadoop: the reasons why journals are not served
            "FailingJournals": json.dumps(dict(facts.failing), separators=(",", ":")),
            "HostAndPort": facts.address,
            "ClusterIds": sorted({info.cluster_id for info in known}),
            "Version": facts.version,
            "JNStartedTimeInMillis": round(facts.started_at * 1000),
            "StorageInfos": [
                f"{{LayoutVersion={info.layout_version}, ClusterId={info.cluster_id}, "
                f"NamespaceId={info.namespace_id}, CreationTime={info.c_time}}}"
                for info in known
            ],
        },
    )


def _journal(facts: HostedJournalFacts) -> Bean:
    counters = facts.counters
    attributes: dict[str, Any] = {
        "tag.JournalId": facts.journal_id,
        "BatchesWritten": counters.batches_written,
        "TxnsWritten": counters.transactions_written,
        "BytesWritten": counters.bytes_written,
        "BatchesWrittenWhileLagging": counters.batches_written_while_lagging,
        "LastWriterEpoch": facts.writer_epoch,
        "LastPromisedEpoch": facts.promised_epoch,
        "LastWrittenTxId": facts.highest_txid,
        "CurrentLagTxns": facts.lag,
        "LastJournalTimestamp": counters.last_journal_ms,
        "NumEditLogsSynced": counters.segments_synced,
        "RpcEmptyResponses": counters.rpc_empty_answers,
        "TxnsServedViaRpc": counters.rpc_transactions,
        "BytesServedViaRpc": counters.rpc_bytes,
        "RpcRequestCacheMissAmountNumMisses": counters.rpc_requests_missed,
        "RpcRequestCacheMissAmountAvgTxns": _mean(counters.rpc_transactions_missed, counters.rpc_requests_missed),
    }
    for window, syncs in facts.syncs.items():
        attributes[f"Syncs{window}sNumOps"] = syncs.count
        for part, seconds in syncs.seconds.items():
            attributes[f"Syncs{window}s{part}thPercentileLatencyMicros"] = round(seconds * 1e6)
    name = f"Journal-{facts.journal_id}"
    return Bean(f"{_SERVICE},name={name}", name, attributes)
