"""Generated edits are the same for the same seed, contain the operations of their mix, and are replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.edits import MIXES, write_edits
from checkpointer.merging.offline import merge_directory, plan_directory
from image_tools.verify.checker import verify_image
from journal.segment_file import list_segments, read_ops
from tests.bench.made import TRANSACTIONS, make

every_mix = pytest.mark.parametrize("mix", MIXES)


@every_mix
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, mix: str) -> None:
    a, b = (make(tmp_path / name, mix).path.parent for name in "ab")
    segments = [segment.path.name for segment in list_segments(a)]
    assert len(segments) == 2
    assert [(a / name).read_bytes() for name in segments] == [(b / name).read_bytes() for name in segments]


def test_operations_of_each_mix(tmp_path: Path) -> None:
    counts: dict[str, Counter[str]] = {}
    for mix in MIXES:
        base = make(tmp_path / mix, mix)
        counts[mix] = Counter(op.name for segment in list_segments(base.path.parent) for op in read_ops(segment))
    jobs = counts["jobs"]
    for name in ("MKDIR", "ADD", "ALLOCATE_BLOCK_ID", "SET_GENSTAMP_V2", "ADD_BLOCK", "CLOSE", "RENAME_OLD", "DELETE"):
        assert jobs[f"OP_{name}"] > 10
    assert jobs["OP_ADD_BLOCK"] > jobs["OP_CLOSE"]
    assert set(counts["attributes"]) > {"OP_TIMES", "OP_SET_OWNER", "OP_SET_PERMISSIONS", "OP_SET_REPLICATION"}
    assert counts["deletes"]["OP_DELETE"] > 300
    snapshots = {"OP_ALLOW_SNAPSHOT", "OP_CREATE_SNAPSHOT", "OP_RENAME_SNAPSHOT", "OP_DELETE_SNAPSHOT"}
    assert set(counts["snapshots"]) > snapshots
    assert set(counts["mixed"]) > {*jobs, "OP_TIMES", "OP_ALLOW_SNAPSHOT"}


@pytest.mark.parameters(2)
@pytest.mark.parametrize("snapshots", [False, True])
@every_mix
def test_generated_edits_can_be_replayed_onto_the_image(tmp_path: Path, mix: str, snapshots: bool) -> None:
    make(tmp_path, mix, snapshots=snapshots)
    result = merge_directory(plan_directory(tmp_path))
    assert result.transactions == TRANSACTIONS
    found = verify_image(result.saved.paths[0])
    assert [str(finding) for finding in found.findings.listed] == []


def test_progress_ends_with_all_transactions(tmp_path: Path) -> None:
    seen: list[int] = []
    write_edits(make(tmp_path), 100, "jobs", segment=60, progress=seen.append)
    assert seen == [60, 100]


def test_too_few_transactions_and_unknown_mixes_are_refused(tmp_path: Path) -> None:
    base = make(tmp_path)
    with pytest.raises(ValueError, match="1 transactions"):
        write_edits(base, 1, "jobs")
    with pytest.raises(ValueError, match="'weather'"):
        write_edits(base, 10, "weather")


def test_no_segment_with_a_single_transaction_remains(tmp_path: Path) -> None:
    base = make(tmp_path)
    paths = write_edits(base, 21, "mixed", segment=10)
    assert [path.name[-19:].lstrip("0") for path in paths] == ["1010", "1021"]
