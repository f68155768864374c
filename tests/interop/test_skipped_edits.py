"""A segment without some operations: a real NameNode and our merge replay it to the same image."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from journal.dependents import dependents
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from journal.segment_file import list_segments, map_file
from journal.segment_output import write_pieces
from journal.skipping import SkipRequest, plan_skips, source_ops
from tests.cli_runner import run_cli
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.recorded_cases import RECORDED, imgcmp

pytestmark = [pytest.mark.interop, pytest.mark.recorded]

CASES = ["renames", "acl-xattr", "basic-files", "quotas-storage-policy", "snapshots-basic"]
_MAX_SKIPPED = 4


LOADERS = {"hadoop-3.5.0": "hadoop_3", "hadoop-2.7.3": "hadoop_2"}


def storage(folder: Path, case: str, recorded: str = "hadoop-2.7.3") -> Path:
    shutil.copytree(RECORDED / recorded / case / "before", folder / "current")
    return folder


def left_out(folder: Path, txids: set[int]) -> list[int]:
    """Replace the segment with a segment without these transactions; return the transactions that depend on them."""
    (segment,) = list_segments(folder / "current")
    with map_file(segment.path) as content:
        plan = plan_skips(content, SkipRequest(txids, segment.path.name, segment.first, segment.last))
        found = [each.txid for each in dependents(source_ops(plan, content), txids)]
        write_pieces(folder / "result", content, plan.pieces)
    (folder / "result").rename(segment.path)
    return found


def alone(folder: Path) -> list[int]:
    """Return transactions without dependents, spread over the segment."""
    (segment,) = list_segments(folder / "current")
    found = []
    with map_file(segment.path) as content:
        assert segment.last is not None
        request = SkipRequest((), "", segment.first, segment.last)
        ops = list(source_ops(plan_skips(content, request), content))
    for op in ops:
        if not isinstance(op, StartLogSegmentOp | EndLogSegmentOp) and not list(dependents(ops, {op.txid})):
            found.append(op.txid)
    return found[:: max(1, len(found) // _MAX_SKIPPED)][:_MAX_SKIPPED]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("recorded", LOADERS)
def test_a_log_without_some_operations_is_replayed_as_in_hadoop(
    request: pytest.FixtureRequest, tmp_path: Path, recorded: str, case: str
) -> None:
    hadoop: Hadoop = request.getfixturevalue(LOADERS[recorded])
    ours, theirs = (storage(tmp_path / name, case, recorded) for name in ("ours", "theirs"))
    txids = set(alone(ours))
    assert txids
    for folder in (ours, theirs):
        assert left_out(folder, txids) == []
    (segment,) = list_segments(theirs / "current")
    assert b"OP_TIMES" in hadoop.view_edits(segment.path)
    saved = hadoop.replay_and_save(theirs)
    result = merge_directory(plan_directory(ours))
    made = ours / "current" / image_name(result.txid)
    # some operations lack a time, so each replay uses its own clock
    clock = imgcmp.Clock(str(RECORDED / recorded / case / "edits.xml.gz"))
    assert imgcmp.compare(imgcmp.Image(str(saved)), imgcmp.Image(str(made)), clock=clock) == []


def test_a_namenode_stops_at_operations_reported_as_dependent(hadoop_2: Hadoop, tmp_path: Path) -> None:
    ours, theirs = storage(tmp_path / "ours", "renames"), storage(tmp_path / "theirs", "renames")
    # the first directory, which is the parent of others
    for folder in (ours, theirs):
        assert left_out(folder, {32})
    with pytest.raises(HadoopRefusedError):
        hadoop_2.replay_and_save(theirs)
    with pytest.raises(HdfsError):
        merge_directory(plan_directory(ours))


def test_the_command_skips_a_damaged_operation(hadoop_2: Hadoop, tmp_path: Path) -> None:
    folder = storage(tmp_path / "nn", "corrupt/edits-flip-body")
    (segment,) = list_segments(folder / "current")
    (tmp_path / "out").mkdir()
    outcome = run_cli("edits", "recover", segment.path, tmp_path / "out", "--skip", "107")
    assert outcome.code == 0, outcome.err
    made = tmp_path / "out" / segment.path.name
    assert b"OP_TIMES" in hadoop_2.view_edits(made)
    made.replace(segment.path)
    hadoop_2.replay_and_save(folder)
