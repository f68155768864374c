"""Makes facts for the checks, and returns a check's decision on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from checkpointer.checks.facts import (
    DaemonFacts,
    DirectoryFacts,
    Facts,
    ImageFacts,
    JournalFacts,
    NameNodeFacts,
    Observation,
)
from checkpointer.checks.registry import CHECKS, perform
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict
from checkpointer.storage.inspector import StorageDirectory, StorageState
from hadoop_common.names import SegmentName
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_values import RemoteEditLog
from journal.quorum.node_answers import NodeAnswer
from node_state.state import NodeState

NOW = 1_000_000.0
INFO = StorageInfo(-63, 7, 0, "CID-1", "BP-1")
DOWN: Observation[Any] = Observation(error="connection refused")
ROOT, OTHER = Path("/data/1"), Path("/data/2")
BY_NAME = {check.name: check for check in CHECKS}


def namenode(number: int = 1, **changes: Any) -> NameNodeFacts:
    found = NameNodeFacts(
        http=f"http://nn{number}:9870",
        rpc=f"nn{number}:8020",
        last_txid=Observation(100),
        checkpoint_txid=Observation(90),
        state=Observation("ACTIVE"),
        storage_info=Observation(INFO),
        software="2.7.3",
        segments=Observation((SegmentName(91, 100),)),
        beans=Observation({}),
    )
    return replace(found, **changes)


def down(number: int = 1) -> NameNodeFacts:
    return namenode(
        number, last_txid=DOWN, checkpoint_txid=DOWN, state=DOWN, storage_info=DOWN, segments=DOWN, beans=DOWN
    )


def directory(root: Path = ROOT, state: StorageState = StorageState.NORMAL, **changes: Any) -> DirectoryFacts:
    version = INFO if state is StorageState.NORMAL else None
    found = DirectoryFacts(
        root=root, listing=Observation(StorageDirectory(root, state, version)), free=Observation(10_000)
    )
    return replace(found, **changes)


def image(**changes: Any) -> Observation[ImageFacts]:
    copies = ((ROOT / "current/fsimage_90", Observation("d41d")),)
    return Observation(replace(ImageFacts(txid=90, size=1000, modified=NOW - 60, copies=copies), **changes))


def facts(**changes: Any) -> Facts:
    found = Facts(
        now=NOW,
        period=3600.0,
        transactions=50,
        reserved=500,
        namenodes=(namenode(),),
        directories=(directory(),),
        image=image(),
        daemon=DaemonFacts(
            url="http://localhost:9868",
            live=Observation((True, "running")),
            ready=Observation((True, "10 behind")),
            status=Observation(NodeState(role="secondary")),
        ),
    )
    return replace(found, **changes)


def decide(name: str, thresholds: Thresholds | None = None, **changes: Any) -> CheckVerdict:
    return perform([BY_NAME[name]], facts(**changes), thresholds or Thresholds())[0].verdict


def node(number: int, last: int = 100, **changes: Any) -> NodeAnswer:
    logs = (RemoteEditLog(1, 40), RemoteEditLog(41, last, in_progress=True))
    found = NodeAnswer(f"jn{number}:8485", logs=logs, committed_txid=95, epoch=3, same_namespace=True)
    return replace(found, **changes)


UNTIL_60 = (RemoteEditLog(1, 40), RemoteEditLog(41, 60))
FROM_61 = (*UNTIL_60, RemoteEditLog(61, 100, in_progress=True))


def silent(number: int) -> NodeAnswer:
    return NodeAnswer(f"jn{number}:8485", fault="connection refused")


def journal(*segments: SegmentName) -> JournalFacts:
    return JournalFacts(place="/shared/current", storage_info=Observation(INFO), segments=Observation(segments))


def daemon(**changes: Any) -> dict[str, DaemonFacts]:
    found = facts().daemon
    assert found is not None
    return {"daemon": replace(found, **changes)}
