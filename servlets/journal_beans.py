"""The beans of a JournalNode, by which Hadoop's tools and dashboards know it (JournalNodeMXBean, JournalMetrics)."""

from __future__ import annotations

import json
from typing import Any

from servlets.jmx import Bean
from servlets.journal_facts import JournalFacts, JournalNodeFacts


def journal_node_beans(facts: JournalNodeFacts) -> list[Bean]:
    """JournalNodeInfo, and one bean a journal."""
    return [_info(facts), *map(_journal, facts.journals)]


def _info(facts: JournalNodeFacts) -> Bean:
    formatted = {name: {"Formatted": "false"} for name in facts.failing}
    formatted |= {each.journal_id: {"Formatted": str(each.info is not None).lower()} for each in facts.journals}
    known = [each.info for each in facts.journals if each.info is not None]
    return Bean(
        "Hadoop:service=JournalNode,name=JournalNodeInfo",
        "org.apache.hadoop.hdfs.qjournal.server.JournalNode",
        {
            "JournalsStatus": json.dumps(formatted, separators=(",", ":")),
            # ours: why journals are not served
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


def _journal(facts: JournalFacts) -> Bean:
    counters, syncs = facts.counters, facts.syncs
    attributes: dict[str, Any] = {
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
        "Syncs60sNumOps": syncs.count,
        **{f"Syncs60s{part}thPercentileLatencyMicros": round(value * 1e6) for part, value in syncs.seconds.items()},
    }
    name = f"Journal-{facts.journal_id}"
    return Bean(f"Hadoop:service=JournalNode,name={name}", name, attributes)
