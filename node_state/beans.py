"""The JMX beans that Hadoop's tools read, built from the state of a daemon or the stub."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from node_state.state import NodeState, as_json
from servlets.jmx import Bean

_NEVER = -1


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts about a process that are constant while it runs.

    Attributes:
        namenode: host:port of the NameNode's RPC server, which a secondary reports as HostAndPort.
        address: host:port of this node.
        started_at: seconds since the epoch.
        security_enabled: whether the cluster uses Kerberos.
        checkpoint_directories: URIs of dfs.namenode.checkpoint.dir (or dfs.namenode.name.dir).
        edits_directories: URIs of dfs.namenode.checkpoint.edits.dir.
        compile_info: "DATE by USER from BRANCH".
    """

    software_version: str
    started_at: float
    security_enabled: bool
    namenode: str = ""
    address: str = ""
    hostname: str = ""
    checkpoint_directories: Sequence[str] = ()
    edits_directories: Sequence[str] = ()
    compile_info: str = ""


def daemon_beans(state: NodeState, facts: NodeFacts) -> list[Bean]:
    """Return the beans of a daemon: a bean with the complete `state`, and the beans of a Hadoop process with its
    role.
    """
    beans = [checkpointer_bean(state, facts)]
    if state.role == "secondary":
        return [*beans, secondary_namenode_bean(state, facts)]
    ha_state, nn_role = ("backup", "Backup Node") if state.role == "backup" else ("standby", "NameNode")
    return [
        *beans,
        fs_namesystem_bean(state, facts, ha_state=ha_state),
        namenode_status_bean(facts, ha_state=ha_state, nn_role=nn_role),
    ]


def secondary_namenode_bean(state: NodeState, facts: NodeFacts) -> Bean:
    """Return the SecondaryNameNodeInfoMXBean of Hadoop 3.4.1, in which LastCheckpointTime is wall-clock time."""
    at, since = state.checkpoint_at, state.seconds_since_checkpoint
    return Bean(
        "Hadoop:service=SecondaryNameNode,name=SecondaryNameNodeInfo",
        "org.apache.hadoop.hdfs.server.namenode.SecondaryNameNode",
        {
            "HostAndPort": facts.namenode,
            "SecurityEnabled": facts.security_enabled,
            "StartTime": _milliseconds(facts.started_at),
            "LastCheckpointTime": _milliseconds(at),
            "LastCheckpointDeltaMs": _NEVER if at is None or since is None else _milliseconds(since),
            "CheckpointDirectories": list(facts.checkpoint_directories),
            "CheckpointEditlogDirectories": list(facts.edits_directories),
            "CompileInfo": facts.compile_info,
            "SoftwareVersion": facts.software_version,
        },
    )


def fs_namesystem_bean(state: NodeState, facts: NodeFacts, *, ha_state: str) -> Bean:
    """Return the checkpoint attributes of FSNamesystem; `ha_state` is active, standby, observer or backup.

    Unknown transaction ids are omitted, because tools interpret every number as a valid id.
    """
    attributes: dict[str, Any] = {"tag.Context": "dfs", "tag.HAState": ha_state, "tag.Hostname": facts.hostname}
    known = {
        "TransactionsSinceLastCheckpoint": state.transactions_behind,
        # a standby reports 0
        "TransactionsSinceLastLogRoll": state.details.transactions_since_roll or 0,
        "LastWrittenTransactionId": state.journal_txid,
        "LastCheckpointTime": _milliseconds(state.checkpoint_at),
        "MillisSinceLastLoadedEdits": _milliseconds(state.details.tailing_lag_seconds),
    }
    attributes |= {name: value for name, value in known.items() if value is not None}
    return Bean("Hadoop:service=NameNode,name=FSNamesystem", "FSNamesystem", attributes)


def namenode_status_bean(facts: NodeFacts, *, ha_state: str, nn_role: str = "NameNode") -> Bean:
    """Return NameNodeStatusMXBean with role, state and address; tools use it to distinguish active and standby."""
    return Bean(
        "Hadoop:service=NameNode,name=NameNodeStatus",
        "org.apache.hadoop.hdfs.server.namenode.NameNode",
        {
            "NNRole": nn_role,
            "HostAndPort": facts.address,
            "SecurityEnabled": facts.security_enabled,
            "LastHATransitionTime": 0,
            "State": ha_state,
        },
    )


def namenode_info_bean(facts: NodeFacts) -> Bean:
    """Return NameNodeInfo with only the release."""
    return Bean(
        "Hadoop:service=NameNode,name=NameNodeInfo",
        "org.apache.hadoop.hdfs.server.namenode.FSNamesystem",
        {"SoftwareVersion": facts.software_version},
    )


def checkpointer_bean(state: NodeState, facts: NodeFacts) -> Bean:
    """Return all values of /status as attributes with a capital first letter (`imageTxid` becomes `ImageTxid`)."""
    attributes = {key[:1].upper() + key[1:]: _plain(value) for key, value in as_json(state).items()}
    fixed = {
        "SoftwareVersion": facts.software_version,
        "StartTime": _milliseconds(facts.started_at),
        "NameNode": facts.namenode,
        "Address": facts.address,
    }
    return Bean("Hadoop:service=Checkpointer,name=CheckpointerStatus", "hdfs-checkpointer", fixed | attributes)


def _milliseconds(seconds: float | None) -> int:
    """Convert seconds to milliseconds; None becomes 0, as in Hadoop."""
    return 0 if seconds is None else round(seconds * 1000)


def _plain(value: Any) -> Any:
    # JSON has neither NaN nor infinity
    return None if isinstance(value, float) and not math.isfinite(value) else value
