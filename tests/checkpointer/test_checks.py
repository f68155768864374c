"""Decisions of the checks, over facts that are made up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer import checks
from checkpointer.checks import ask_journal
from checkpointer.checks.ask_journal import _asked_again, _held
from checkpointer.checks.checkpoint_checks import coverage
from checkpointer.checks.facts import (
    DaemonFacts,
    DirectoryFacts,
    Facts,
    ImageFacts,
    JournalFacts,
    LockFacts,
    NameNodeFacts,
    Observation,
    SegmentRange,
)
from checkpointer.checks.registry import CHECKS, FactGroup, perform, state_of
from checkpointer.checks.thresholds import MEASURED, Thresholds, parse_thresholds
from checkpointer.checks.verdict import CheckVerdict, Metric, State, worst
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import LockHolder
from checkpointer.storage.inspector import StorageDirectory, StorageState
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_values import RemoteEditLog
from journal.quorum.address import QuorumAddress
from journal.quorum.node_answers import NodeAnswer, NodeQuery
from node_state.state import ArchiveState, CheckpointRecord, NodeState
from site_config.checkpoint_config import Role

NOW = 1_000_000.0
INFO = StorageInfo(-63, 7, 0, "CID-1", "BP-1")
DOWN: Observation[Any] = Observation(error="connection refused")
ROOT = Path("/data/1")
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
        segments=Observation((SegmentRange(91, 100),)),
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
        role=Role.SECONDARY,
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


def test_all_is_well() -> None:
    outcomes = perform(CHECKS, facts(), Thresholds())
    assert [(each.name, each.verdict.state) for each in outcomes] == [(check.name, State.OK) for check in CHECKS]
    assert state_of(outcomes) is State.OK
    assert not any(each.hint for each in outcomes)


@pytest.mark.parametrize("name", ["transactions", "edits", "version"])
def test_nothing_is_to_be_changed_where_nothing_is_known(name: str) -> None:
    (outcome,) = perform([BY_NAME[name]], facts(namenodes=(down(1), down(2))), Thresholds())
    assert outcome.verdict.state is State.UNKNOWN
    assert "do not change anything" in outcome.hint


# ---- namenode, ha, version -----------------------------------------------------------------------------------


def test_a_web_server_that_refuses_us_has_its_own_next_step() -> None:
    refused: Observation[Any] = Observation(error="HTTP 401", hint="Set the key.")
    assert decide("namenode", namenodes=(namenode(beans=refused),)).hint == "Set the key."
    assert decide("namenode", namenodes=(namenode(1), namenode(2, beans=refused))).hint == "Set the key."
    assert decide("namenode", namenodes=(replace(down(), beans=refused),)).hint == ""


@pytest.mark.parametrize(
    ("nodes", "state"),
    [
        ((namenode(1), namenode(2)), State.OK),
        ((namenode(1), down(2)), State.WARNING),
        ((namenode(1), namenode(2, beans=DOWN)), State.WARNING),
        ((down(1), down(2)), State.CRITICAL),
        ((namenode(1, last_txid=DOWN),), State.CRITICAL),
    ],
)
def test_namenode(nodes: tuple[NameNodeFacts, ...], state: State) -> None:
    found = decide("namenode", namenodes=nodes)
    assert found.state is state
    assert len(found.details) == 2 * len(nodes)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("ACTIVE", "STANDBY"), State.OK),
        (("ACTIVE", "STANDBY", "OBSERVER"), State.OK),
        (("ACTIVE", None), State.OK),
        (("STANDBY", None), State.UNKNOWN),
        (("STANDBY", "STANDBY"), State.CRITICAL),
        (("ACTIVE", "ACTIVE"), State.CRITICAL),
    ],
)
def test_ha(states: tuple[str | None, ...], state: State) -> None:
    nodes = tuple(namenode(n, state=DOWN if each is None else Observation(each)) for n, each in enumerate(states))
    assert decide("ha", is_ha=True, namenodes=nodes).state is state


def test_ha_that_is_not_configured() -> None:
    assert decide("ha", namenodes=(namenode(state=DOWN),)).state is State.OK


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"cluster_id": "CID-2"}, State.CRITICAL, "cluster_id is CID-2"),
        ({"namespace_id": 8}, State.CRITICAL, "namespace_id"),
        ({"blockpool_id": "BP-2"}, State.CRITICAL, "blockpool_id"),
        ({"blockpool_id": ""}, State.OK, "layout -63"),
        ({"c_time": 5}, State.WARNING, "upgrade"),
        ({"layout_version": -64}, State.WARNING, "upgrade"),
        ({"layout_version": -90}, State.CRITICAL, "-90"),
        ({"layout_version": -40}, State.CRITICAL, "-40"),
    ],
)
def test_version(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("version", namenodes=(namenode(storage_info=Observation(replace(INFO, **change))),))
    assert found.state is state
    assert word in found.summary


def test_version_of_the_journal_and_of_nobody() -> None:
    other = JournalFacts(place="/shared/current", storage_info=Observation(replace(INFO, cluster_id="CID-9")))
    assert decide("version", journal=other).state is State.CRITICAL
    lost = JournalFacts(place="/shared/current", storage_info=DOWN)
    assert decide("version", journal=lost).state is State.UNKNOWN
    assert decide("version", namenodes=(down(),)).state is State.UNKNOWN
    assert decide("version", namenodes=(down(),), directories=()).state is State.UNKNOWN


# As a JournalNode of Hadoop 3.5.0 answers after its syncer fetched a segment whose end it had missed.
OVERLAP = (
    "IllegalStateException: Invalid log manifest (log [4-? (in-progress)] overlaps [7-? (in-progress)]) [[1,3], [4,6], "
    "[7-? (in-progress)], [4-? (in-progress)]] CommittedTxId: -12345"
)


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (OVERLAP, "move the file out of `current`"),
        ("IllegalStateException: Invalid log manifest (log [5,9] overlaps [4,6])", "docs/operations.md"),
        ("no answer", "docs/operations.md"),
    ],
)
def test_a_journal_node_that_lists_nothing_is_not_reformatted(fault: str, hint: str) -> None:
    nodes = (NodeAnswer("jn1:8485", fault=fault), NodeAnswer("jn2:8485"), NodeAnswer("jn3:8485"))
    journal = JournalFacts(place="qjournal://…", nodes=nodes)
    (outcome,) = perform([BY_NAME["journalnodes"]], facts(journal=journal), Thresholds())
    assert outcome.verdict.state is State.WARNING
    assert hint in outcome.hint
    assert ("edits_inprogress_0000000000000000004" in outcome.hint) == (fault is OVERLAP)
    assert "reformatted" not in outcome.hint


def test_a_lost_past_is_no_damaged_image() -> None:
    lost = (directory(lost_pasts=(ROOT / "lost_past/1",)),)
    assert "keep it" in decide("storage", directories=lost).hint
    damaged = image(copies=((ROOT / "current/fsimage_90", DOWN),))
    (outcome,) = perform([BY_NAME["storage"]], facts(directories=lost, image=damaged), Thresholds())
    assert "fetch-image" in outcome.hint


def test_what_could_not_be_compared_is_listed_without_a_warning() -> None:
    folder = ROOT / "not_compared/1"
    found = decide("storage", directories=(directory(not_compared=(folder,)),))
    assert (found.state, found.hint) == (State.OK, "")
    assert any(str(folder) in line and "set back by mistake" in line for line in found.details)


# ---- storage, space ------------------------------------------------------------------------------------------

OTHER = Path("/data/2")
NEW = directory(OTHER, StorageState.NOT_FORMATTED)
BROKEN = directory(OTHER, listing=Observation(error="no such disk"))


@pytest.mark.parametrize(
    ("directories", "state", "word"),
    [
        ((directory(), directory(OTHER)), State.OK, "intact"),
        ((directory(), BROKEN), State.WARNING, "1 of 2"),
        ((directory(), directory(OTHER, writable=False)), State.WARNING, "1 of 2"),
        ((directory(writable=False),), State.CRITICAL, "no storage directory"),
        ((BROKEN,), State.CRITICAL, "no storage directory"),
        ((NEW,), State.WARNING, "no image yet"),
        ((directory(), NEW), State.WARNING, "no image yet"),
        ((directory(), directory(OTHER, StorageState.MISSING)), State.WARNING, "no image yet"),
        ((directory(OTHER, StorageState.HALF_FORMATTED), directory()), State.CRITICAL, "half-formatted"),
        (
            (
                directory(),
                directory(
                    OTHER,
                    listing=Observation(
                        StorageDirectory(OTHER, StorageState.NORMAL, replace(INFO, cluster_id="CID-2"))
                    ),
                ),
            ),
            State.CRITICAL,
            "cluster_id",
        ),
        ((directory(unusable=("a: cut",)),), State.WARNING, "1 file with the name of an image cannot be used"),
        ((directory(lost_pasts=(ROOT / "lost_past/1",)),), State.WARNING, "1 lost past was set aside"),
    ],
)
def test_storage(directories: tuple[DirectoryFacts, ...], state: State, word: str) -> None:
    found = decide("storage", directories=directories)
    assert found.state is state
    assert word in found.summary


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (image(copies=((ROOT, Observation("d41d")), (OTHER, Observation(error="wrong digest")))), State.WARNING),
        (image(copies=((ROOT, Observation(error="wrong digest")),)), State.CRITICAL),
        (image(deep=Observation(0)), State.OK),
        (image(deep=Observation(3)), State.CRITICAL),
        (image(deep=Observation(error="no answer within 1 s")), State.UNKNOWN),
        (Observation(error="there is no image in /data/1"), State.UNKNOWN),
    ],
)
def test_the_image_of_the_storage(found: Observation[ImageFacts], state: State) -> None:
    assert decide("storage", image=found).state is state


def test_a_codec_that_a_namenode_may_lack_is_reported() -> None:
    lz4 = "org.apache.hadoop.io.compress.Lz4Codec"
    found = decide("storage", codec=lz4, image=image(codec="", layout_version=-67))
    assert found.state is State.WARNING
    assert found.summary == "new images get DefaultCodec, not Lz4Codec as configured"
    assert "lz4-java" in found.hint
    for its_own in (image(codec=lz4, layout_version=-67), image()):
        assert decide("storage", codec=lz4, image=its_own).state is State.OK


def test_a_held_lock_is_told() -> None:
    assert "in use by 12@host" in decide("storage", directories=(directory(holder="12@host"),)).details[0]


@pytest.mark.parametrize(
    ("free", "state"),
    [(10_000, State.OK), (5000, State.OK), (4999, State.WARNING), (2500, State.WARNING), (2499, State.CRITICAL)],
)
def test_space(free: int, state: State) -> None:
    found = decide("space", directories=(directory(free=Observation(free)), directory(OTHER, free=Observation(99_999))))
    assert found.state is state
    assert str(found.metrics[0]) == f"space={free}B;5000:;2500:"


@pytest.mark.parametrize(
    ("ours", "segments", "said"),
    [
        (101, (SegmentRange(91, 100),), "image at txid 101 is ahead of the NameNode"),
        (95, (SegmentRange(91, 100),), "image at txid 95 does not belong to the NameNode's past"),
    ],
)
def test_an_image_of_ours_that_is_of_another_past(ours: int, segments: tuple[SegmentRange, ...], said: str) -> None:
    nodes = (namenode(segments=Observation(segments)),)
    found = decide("edits", namenodes=nodes, image=image(txid=ours))
    assert found.state is State.CRITICAL
    assert said in found.summary
    whole = (namenode(segments=Observation((SegmentRange(91, ours), SegmentRange(ours + 1, ours + 9)))),)
    assert decide("edits", namenodes=whole, image=image(txid=ours)).state is (
        State.OK if ours <= 100 else State.CRITICAL
    )


def test_a_directory_for_edits_needs_the_reserve_only() -> None:
    assert decide("space", edits_directories=(directory(OTHER, free=Observation(1_500)),)).state is State.OK
    tight = decide("space", edits_directories=(directory(OTHER, free=Observation(400)),))
    assert (tight.state, str(tight.metrics[0])) == (State.CRITICAL, "space=400B;1000:;500:")
    assert str(OTHER) in tight.summary
    assert decide("space", edits_directories=(directory(OTHER, free=DOWN),)).state is State.WARNING


def test_a_directory_for_edits_that_cannot_be_used() -> None:
    half = directory(OTHER, StorageState.HALF_FORMATTED)
    assert decide("storage", edits_directories=(half,)).state is State.OK
    third = Path("/data/3")
    found = decide("storage", edits_directories=(half, directory(third, writable=False)))
    assert (found.state, found.summary) == (State.WARNING, "1 of 2 directories for edits cannot be used")
    found = decide("storage", edits_directories=(directory(third, listing=DOWN),))
    assert (found.state, found.summary) == (State.CRITICAL, "no directory for edits can be used")


def test_a_copy_that_is_not_read_in_time_is_not_damaged() -> None:
    late: Observation[str] = Observation(error="no answer within 30 s", late=True)
    first, second = ROOT / "current/fsimage_90", OTHER / "current/fsimage_90"
    found = decide("storage", image=image(copies=((first, late),)))
    assert found.state is State.UNKNOWN
    assert "--timeout" in found.summary
    assert decide("storage", image=image(copies=((first, late), (second, Observation("d41d"))))).state is State.UNKNOWN
    assert decide("storage", image=image(copies=((first, late), (second, DOWN)))).state is State.UNKNOWN
    assert decide("storage", image=image(copies=((first, DOWN), (second, DOWN)))).state is State.CRITICAL


def test_space_with_thresholds_of_its_own_and_without_an_answer() -> None:
    assert decide("space", Thresholds(critical={"space": 20_000.0})).state is State.CRITICAL
    assert decide("space", directories=(directory(free=DOWN),)).state is State.UNKNOWN
    assert decide("space", directories=(directory(free=DOWN), directory(OTHER))).state is State.WARNING


# ---- age, transactions, edits, daemon ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "state"), [(7200, State.OK), (7201, State.WARNING), (10_800, State.WARNING), (10_801, State.CRITICAL)]
)
def test_age(age: int, state: State) -> None:
    assert decide("age", image=image(modified=NOW - age)).state is state
    beans = Observation({"LastCheckpointTime": int((NOW - age) * 1000)})
    found = decide("age", namenodes=(namenode(beans=beans),))
    assert found.state is state
    assert str(found.metrics[0]) == f"age={age}s;7200;10800"


@pytest.mark.parametrize(("at", "age"), [(NOW - 5, 5), (NOW - 700, 660), (None, 660)])
def test_age_where_the_namenode_reports_what_it_remembers(at: float | None, age: int) -> None:
    """/jmx is kept for a while; the daemon knows what the NameNode took since."""
    beans = Observation({"LastCheckpointTime": int((NOW - 660) * 1000)})
    daemon = DaemonFacts(url="http://localhost:9868", status=Observation(NodeState(role="secondary", checkpoint_at=at)))
    (metric,) = decide("age", namenodes=(namenode(beans=beans),), daemon=daemon).metrics
    assert metric.value == age


@pytest.mark.parametrize(
    ("warning", "critical", "fits"),
    [
        ({"age": 3600.0}, {"age": 7200.0}, True),
        ({"age": 36_000.0}, {"age": 5.0}, False),
        ({"space": 200.0}, {"space": 100.0}, True),
        ({"space": 100.0}, {"space": 200.0}, False),
        ({"tls": 1.0}, {"tls": 2.0}, False),
        ({"age": 36_000.0}, {"space": 5.0}, True),
    ],
)
def test_a_warning_comes_before_it_is_critical(
    warning: dict[str, float], critical: dict[str, float], fits: bool
) -> None:
    assert (Thresholds(warning, critical).disorder() == "") is fits


def test_age_when_nothing_was_written_since() -> None:
    idle = namenode(checkpoint_txid=Observation(100))
    assert decide("age", image=image(modified=0.0), namenodes=(idle,)).state is State.OK


def test_the_daemon_says_what_to_do_about_its_alarms() -> None:
    status = NodeState(role="secondary", alarms=("it is full",), next_steps={"it is full": "Free space."})
    daemon = DaemonFacts(
        url="http://here",
        live=Observation((True, "running")),
        ready=Observation((False, "it is full")),
        status=Observation(status),
    )
    verdict = decide("daemon", daemon=daemon)
    assert (verdict.state, verdict.hint) == (State.WARNING, "Free space.")


def test_age_that_nobody_knows() -> None:
    nobody = {"image": Observation(error="no image"), "namenodes": (down(),)}
    assert decide("age", **nobody).state is State.UNKNOWN


def test_a_clock_that_is_behind_does_not_make_an_age_negative() -> None:
    assert decide("age", image=image(modified=NOW + 50)).metrics[0].value == 0


def test_transactions() -> None:
    many = {"namenodes": (namenode(checkpoint_txid=Observation(0), last_txid=Observation(101)),)}
    assert decide("transactions").state is State.OK
    assert decide("transactions", **many).state is State.WARNING
    assert decide("transactions", Thresholds(critical={"transactions": 100.0}), **many).state is State.CRITICAL
    assert decide("transactions", namenodes=(down(),)).state is State.UNKNOWN


def test_a_check_that_is_not_critical_is_a_warning_at_most() -> None:
    made = replace(BY_NAME["daemon"], critical=False)
    gone = facts(daemon=DaemonFacts(url="http://x", live=DOWN))
    assert perform([made], gone, Thresholds())[0].verdict.state is State.WARNING


@pytest.mark.parametrize(
    ("segments", "gaps", "tail"),
    [
        ([(91, 100)], (), None),
        ([(91, 95), (96, None)], (), None),
        ([(91, 95)], (), (96, 100)),
        ([(96, 100)], ((91, 95),), None),
        ([(1, 92), (90, 95), (98, None)], ((96, 97),), None),
        ([(1, 50)], (), (91, 100)),
        ([], (), (91, 100)),
        ([(91, 120)], (), None),
        ([(101, None)], ((91, 100),), None),
        ([(91, 92), (95, 96), (99, 100)], ((93, 94), (97, 98)), None),
    ],
)
def test_coverage(
    segments: list[tuple[int, int | None]], gaps: tuple[tuple[int, int], ...], tail: tuple[int, int] | None
) -> None:
    found = coverage(90, [SegmentRange(first, last) for first, last in segments], 100)
    assert (found.gaps, found.tail) == (gaps, tail)


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(1, 30), st.one_of(st.none(), st.integers(0, 8))), max_size=8),
    st.integers(0, 30),
)
def test_coverage_is_what_counting_says(base: int, drawn: list[tuple[int, int | None]], last: int) -> None:
    segments = [SegmentRange(first, None if size is None else first + size) for first, size in drawn]
    held = {txid for each in segments for txid in range(each.first, (last if each.last is None else each.last) + 1)}
    lacking = set(range(base + 1, last + 1)) - held
    found = coverage(base, segments, last)
    told = {
        txid for first, end in [*found.gaps, *([found.tail] if found.tail else [])] for txid in range(first, end + 1)
    }
    assert told == lacking
    if found.tail:
        assert not held & set(range(found.tail[0], last + 1))


def node(number: int, last: int = 100, **changes: Any) -> NodeAnswer:
    logs = (RemoteEditLog(1, 40), RemoteEditLog(41, last, in_progress=True))
    found = NodeAnswer(f"jn{number}:8485", logs=logs, committed_txid=95, epoch=3, same_namespace=True)
    return replace(found, **changes)


UNTIL_60 = (RemoteEditLog(1, 40), RemoteEditLog(41, 60))
FROM_61 = (*UNTIL_60, RemoteEditLog(61, 100, in_progress=True))


def silent(number: int) -> NodeAnswer:
    return NodeAnswer(f"jn{number}:8485", fault="connection refused")


@pytest.mark.parametrize(
    ("nodes", "state", "summary"),
    [
        ((), State.OK, "not on JournalNodes"),
        ((node(1), node(2), node(3)), State.OK, "3 of 3 answer by RPC and HTTP, the furthest behind lacks 0"),
        ((node(1), node(2, 50), node(3)), State.OK, "lacks 50"),
        ((node(1), node(2, 49), node(3)), State.WARNING, "lacks 51"),
        ((node(1), silent(2), node(3)), State.WARNING, "2 of 3"),
        ((node(1), silent(2), silent(3)), State.CRITICAL, "1 of 3"),
        ((node(1), node(2, http_fault="no answer"), node(3)), State.WARNING, "2 of 3"),
        ((node(1), node(2, same_namespace=False), node(3, same_namespace=False)), State.CRITICAL, "1 of 3"),
        ((node(1, same_namespace=None), node(2), node(3)), State.OK, "3 of 3"),
        (
            (node(1, logs=FROM_61), node(2, logs=FROM_61), node(3, logs=UNTIL_60)),
            State.WARNING,
            "written to jn3:8485 be",
        ),
        ((node(1, logs=UNTIL_60), node(2, 60), node(3, logs=UNTIL_60)), State.OK, "3 of 3"),
        # its NameNode died before it began the segment on the others
        ((node(1, logs=FROM_61), node(2, logs=UNTIL_60), node(3, logs=UNTIL_60)), State.OK, "lacks 40"),
    ],
)
def test_journal_nodes(nodes: tuple[NodeAnswer, ...], state: State, summary: str) -> None:
    found = decide("journalnodes", journal=replace(journal(), nodes=nodes))
    assert found.state is state
    assert summary in found.summary
    assert len(found.details) == len(nodes)


def test_what_journal_nodes_say() -> None:
    nodes = (node(1), node(2, 98), silent(3))
    found = decide("journalnodes", journal=replace(journal(), nodes=nodes))
    assert found.details == (
        "jn1:8485: last txid 100, 0 behind, knows 95 to be committed, epoch 3",
        "jn2:8485: last txid 98, 2 behind, knows 95 to be committed, epoch 3",
        "jn3:8485: connection refused",
    )
    assert [str(metric) for metric in found.metrics] == ["journalnodes=2", "lag=2;50"]
    strict = Thresholds(warning=parse_thresholds(["journalnodes=0"]), critical=parse_thresholds(["journalnodes=1"]))
    assert decide("journalnodes", strict, journal=replace(journal(), nodes=nodes[:2])).state is State.CRITICAL
    assert decide("journalnodes").state is State.OK


def test_what_journal_nodes_hold_together() -> None:
    behind = NodeAnswer("jn3:8485", logs=(RemoteEditLog(1, 40, in_progress=True),))
    assert _held([node(1), node(2), behind]).value == (SegmentRange(1, 40), SegmentRange(41, None))
    assert "1 of 3 JournalNodes answer" in _held([node(1), silent(2), silent(3)]).error


@pytest.mark.parametrize("newer", [node(3, logs=FROM_61), silent(3)])
def test_only_a_node_that_lacks_the_open_segment_is_asked_again(
    newer: NodeAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (node(1, logs=FROM_61), node(2, logs=FROM_61), node(3, logs=UNTIL_60))
    question = NodeQuery(quorum=QuorumAddress.parse("qjournal://jn1;jn2;jn3/j"), user="hdfs", timeout=20)
    asked: list[NodeQuery] = []
    monkeypatch.setattr(ask_journal, "ask_nodes", lambda query: asked.append(query) or [newer])
    assert _asked_again(question, first, 0) == first
    assert asked == []
    assert _asked_again(question, first, 30) == (*first[:2], first[2] if newer.fault else newer)
    assert [(len(query.quorum.nodes), query.timeout) for query in asked] == [(1, 10)]


def journal(*segments: SegmentRange) -> JournalFacts:
    return JournalFacts(place="/shared/current", storage_info=Observation(INFO), segments=Observation(segments))


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"journal": journal(SegmentRange(91, 95), SegmentRange(96, None))}, State.OK, "without a gap"),
        ({"journal": journal(SegmentRange(91, 95))}, State.WARNING, "96-100 are not"),
        ({"journal": journal(SegmentRange(94, 100))}, State.CRITICAL, "91-93"),
        ({"journal": journal(), "image": image(txid=200)}, State.CRITICAL, "ahead"),
        ({"journal": journal(), "image": Observation(error="no image")}, State.UNKNOWN, "no image"),
        ({"journal": replace(journal(), segments=DOWN)}, State.UNKNOWN, "refused"),
        # the NameNode's open segment is in no manifest
        ({"namenodes": (namenode(segments=Observation((SegmentRange(91, 95),))),)}, State.OK, "without a gap"),
        ({"namenodes": (namenode(segments=Observation((SegmentRange(93, 95),))),)}, State.CRITICAL, "91-92"),
        ({"namenodes": (namenode(segments=DOWN),)}, State.UNKNOWN, "refused"),
        ({"namenodes": (down(),)}, State.UNKNOWN, "no NameNode"),
    ],
)
def test_edits(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("edits", **change)
    assert found.state is state
    assert word in found.summary


def test_many_gaps_are_not_all_listed() -> None:
    found = decide(
        "edits", journal=journal(*[SegmentRange(txid, txid) for txid in range(92, 100, 2)], SegmentRange(100, None))
    )
    assert "91-91" in found.summary
    many = decide(
        "edits", image=image(txid=0), journal=journal(*[SegmentRange(txid, txid) for txid in range(2, 60, 2)])
    )
    assert "more" in many.summary


def test_the_active_is_believed() -> None:
    standby = namenode(1, state=Observation("STANDBY"), last_txid=Observation(500))
    assert decide("transactions", namenodes=(standby, namenode(2))).metrics[0].value == 10


def daemon(**changes: Any) -> dict[str, DaemonFacts]:
    found = facts().daemon
    assert found is not None
    return {"daemon": replace(found, **changes)}


def archived(**values: Any) -> Observation[NodeState]:
    known = {"directory": "/a", "archived_txid": 90, "restorable_txid": 90, "lag_transactions": 3, "lag_seconds": 2.0}
    state = NodeState(role="standby", archive=ArchiveState(**{**known, **values}))
    if error := state.archive and state.archive.error:
        state = replace(state, alarms=(f"not filled: {error}",), next_steps={f"not filled: {error}": "free space"})
    if values.get("lag_seconds"):
        state = replace(state, alarm_kinds={"/a has been incomplete for 400 s": "archive"})
    return Observation(state)


@pytest.mark.parametrize(
    ("status", "state", "word"),
    [
        (Observation(NodeState(role="standby")), State.OK, "is not set"),
        (archived(), State.OK, "up to transaction 90, 3 transactions behind, complete 2 s ago"),
        (archived(missing_transactions=4), State.OK, "4 transactions were purged before they were archived"),
        (archived(missing_transactions=4, restorable_txid=80), State.WARNING, "4 transactions were purged"),
        (archived(restorable_txid=-1), State.WARNING, "no image"),
        (archived(error="disk full"), State.WARNING, "/a is not filled: disk full"),
        (archived(lag_seconds=400.0), State.WARNING, "has been incomplete"),
        (DOWN, State.UNKNOWN, "refused"),
    ],
)
def test_the_archive(status: Observation[NodeState], state: State, word: str) -> None:
    found = decide("archive", **daemon(status=status))
    assert found.state is state
    assert word in found.summary
    assert (found.hint == "free space") == ("disk full" in word)


def failed(error: str, **record: float) -> Observation[NodeState]:
    record["last_error_at"] = NOW - 30
    return Observation(NodeState(role="secondary", record=CheckpointRecord(last_error=error, **record)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"live": DOWN}, State.CRITICAL, "does not answer"),
        ({"live": Observation((False, "stopping"))}, State.CRITICAL, "stopping"),
        ({"ready": Observation((False, "3 periods late"))}, State.WARNING, "3 periods late"),
        ({"ready": DOWN}, State.UNKNOWN, "refused"),
        ({"status": DOWN}, State.UNKNOWN, "refused"),
        ({"status": failed("disk full")}, State.WARNING, "30 s ago: disk full"),
        ({"status": failed("x", saved_at=NOW - 40)}, State.WARNING, "x"),
        ({"status": failed("x", saved_at=NOW - 20)}, State.OK, "ready"),
        ({"status": failed("x", uploaded_at=NOW - 20)}, State.OK, "ready"),
    ],
)
def test_daemon(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("daemon", **daemon(**change))
    assert found.state is state
    assert word in found.summary


# ---- the leader ----------------------------------------------------------------------------------------------

LEADER = Leader(host="b", pid=7, role="secondary", address="0.0.0.0:9868", since=NOW - 900)


def lock(holding: Observation[LockHolder | None], *, host: str = "a", required: bool = False) -> CheckVerdict:
    found = LockFacts(
        lock="ZooKeeper /hadoop-checkpointer/ns1/leader",
        required=required,
        host=host,
        address="0.0.0.0:9868",
        holding=holding,
    )
    return decide("leader", lock=found)


def test_who_leads_since_when_and_by_what() -> None:
    found = lock(Observation(LockHolder(LEADER, NOW - 600)))
    assert found.state is State.OK
    assert found.summary == (
        "secondary on b (process 7, HTTP 0.0.0.0:9868) leads, for 10 min 0 s; the daemon of this configuration stands "
        "by (best effort, lock: ZooKeeper /hadoop-checkpointer/ns1/leader)"
    )
    assert found.details[0] == "since 1970-01-12T13:36:40+00:00"
    ours = lock(Observation(LockHolder(LEADER, NOW - 600)), host="b", required=True)
    assert "this is the daemon of this configuration (required, lock:" in ours.summary
    assert "a daemon whose entry cannot be read leads" in lock(Observation(LockHolder(None, NOW))).summary


def test_nobody_leads_or_nobody_knows() -> None:
    assert decide("leader").summary.startswith("this daemon works alone")
    nobody = lock(Observation())
    assert (nobody.state, nobody.summary.partition(" (")[0]) == (State.WARNING, "no daemon leads")
    assert lock(DOWN).state is State.WARNING
    assert "checkpoints continue without it: connection refused" in lock(DOWN).summary
    required = lock(DOWN, required=True)
    assert required.state is State.CRITICAL
    assert "checkpoints stop without it" in required.summary


# ---- thresholds and the whole --------------------------------------------------------------------------------


def test_thresholds() -> None:
    assert parse_thresholds(["age=3h", "transactions=5", "space=1k"]) == {
        "age": 10_800,
        "transactions": 5,
        "space": 1024,
    }


@pytest.mark.parametrize("text", ["age", "ages=1", "age=soon", "space=-", "=1", ""])
def test_thresholds_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"threshold|takes"):
        parse_thresholds([text])


def test_every_check_takes_its_thresholds_or_has_none() -> None:
    without = {"namenode", "ha", "version", "storage", "edits", "daemon", "archive", "leader", "kerberos"}
    assert MEASURED.keys() | without == BY_NAME.keys()
    sources = [path.read_text() for path in Path(checks.__file__).parent.glob("*_checks.py")]
    assert {name for text in sources for name in re.findall(r'thresholds\.limits\("(\w+)"', text)} == MEASURED.keys()
    assert all(check.hint and check.purpose and check.needs <= set(FactGroup) for check in CHECKS)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([], State.OK),
        ([State.OK, State.UNKNOWN], State.UNKNOWN),
        ([State.UNKNOWN, State.WARNING], State.WARNING),
        ([State.CRITICAL, State.UNKNOWN, State.WARNING], State.CRITICAL),
    ],
)
def test_the_worst(states: list[State], state: State) -> None:
    assert worst(states) is state


def test_metrics_in_the_plugin_format() -> None:
    assert str(Metric("age", 12, "s")) == "age=12s"
    assert str(Metric("age", 12, "s", critical=5)) == "age=12s;;5"
    assert str(Metric("bytes", 123_456_789_012, "B")) == "bytes=123456789012B"
