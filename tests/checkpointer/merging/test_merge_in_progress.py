"""`checkpointer merge --in-progress`: the verdicts are the same as a NameNode's, and no segment is changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.in_progress_segments import read_in_progress_segments
from hadoop_common.names import inprogress_name, segment_name
from journal.binary_codec import encode_op
from journal.errors import CorruptHeaderError
from journal.ops import EditOp, EndLogSegmentOp, MkdirOp, PermissionStatus, SetPermissionsOp, StartLogSegmentOp
from journal.segment_file import EditLogSegment
from journal.segment_format import SegmentCursor, encode_header
from journal.segment_output import write_ops
from tests.cli_runner import Outcome, fingerprint, run_cli
from tests.journal.journal_support import unreadable_op
from tests.recorded_cases import RECORDED, Case

CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"
IN_PROGRESS = sorted(
    path.parent for path in CORRUPT.glob("*/case.json") if any(path.parent.glob("before/edits_inprogress_*"))
)
EMPTY = Case(RECORDED / "hadoop-2.7.3" / "empty")
RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")
OWNER = PermissionStatus("hdfs", "supergroup", 0o755)


def storage_of(path: Path, tmp_path: Path) -> Path:
    shutil.copytree(path / "before", tmp_path / "name" / "current")
    return tmp_path / "name"


def merge(directory: Path, *arguments: str) -> Outcome:
    return run_cli("merge", directory, "--in-progress", "--json", *arguments)


def test_number_of_recorded_cases() -> None:
    assert len(IN_PROGRESS) == 10


@pytest.mark.recorded
@pytest.mark.parametrize("path", IN_PROGRESS, ids=lambda path: path.name)
def test_merge_verdict_equals_that_of_a_namenode(path: Path, tmp_path: Path) -> None:
    directory = storage_of(path, tmp_path)
    before = fingerprint(directory)
    verdict = json.loads((path / "case.json").read_text())["verdict"]["NameNode"]
    code, out, err = merge(directory)
    after = fingerprint(directory)
    if not verdict["loaded"]:
        assert code in (4, 6), err
        assert after == before
        assert "  next: " in err
        return
    assert code == 0, err
    report = json.loads(out)
    assert report["txid"] == verdict["txid"]
    assert report["inProgress"] == []
    (read,) = report["inProgressRead"]
    assert (read["firstTxid"], read["lastTxid"]) == (31, verdict["txid"])
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2


@pytest.mark.recorded
def test_image_equals_that_after_finalizing_at_the_last_good_operation(tmp_path: Path) -> None:
    directory = storage_of(CORRUPT / "inprogress-half-op-ff", tmp_path / "open")
    image = Path(json.loads(merge(directory).out)["image"])
    finalized = tmp_path / "finalized"
    current = RENAMES.copy_to(finalized)
    (whole,) = current.glob("edits_*")
    ops = [op for op in SegmentCursor(whole.read_bytes()) if op.txid <= 181]
    whole.unlink()
    write_ops(current, ops, -63)
    other = Path(json.loads(run_cli("merge", finalized, "--json").out)["image"])
    assert image.name == other.name
    assert image.read_bytes() == other.read_bytes()


# ---- storage directories made here: an image without files, and the segments that follow it ----


def base(tmp_path: Path) -> tuple[Path, int]:
    """Return a storage directory without edits, and the txid of its image."""
    directory = tmp_path / "name"
    current = EMPTY.copy_to(directory)
    for segment in current.glob("edits_*"):
        segment.unlink()
    txid = int(EMPTY.info["txid_before"])
    (current / "seen_txid").write_text(f"{txid}\n")
    return directory, txid


def ops(first: int, last: int, *, end: bool = True) -> list[EditOp]:
    middle = [
        MkdirOp(inode_id=50000 + txid, path=f"/d{txid}", timestamp=txid, permissions=OWNER)
        for txid in range(first + 1, last + (not end))
    ]
    made: list[EditOp] = [StartLogSegmentOp(), *middle, *([EndLogSegmentOp()] if end else [])]
    for txid, op in enumerate(made, first):
        op.txid = txid
    return made


def put_finalized(directory: Path, first: int, last: int) -> Path:
    return write_ops(directory / "current", ops(first, last), -63).path


def put_open(directory: Path, first: int, last: int, tail: bytes = b"\xff" * 4096) -> Path:
    path = directory / "current" / inprogress_name(first)
    write_ops(path, ops(first, last, end=False), -63)
    with path.open("ab") as out:
        out.write(tail)
    return path


def refused(directory: Path, code: int, *words: str) -> None:
    before = fingerprint(directory)
    outcome = merge(directory)
    assert outcome.code == code, outcome.err
    for word in words:
        assert word in outcome.err
    assert fingerprint(directory) == before


def merged(directory: Path) -> dict[str, object]:
    before = fingerprint(directory)
    code, out, err = merge(directory)
    assert code == 0, err
    after = fingerprint(directory)
    assert {name: after[name] for name in before} == before
    report: dict[str, object] = json.loads(out)
    return report


@pytest.mark.recorded
def test_open_segments_follow_finalized_ones(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    put_finalized(directory, txid + 1, txid + 5)
    path = put_open(directory, txid + 6, txid + 9)
    report = merged(directory)
    assert report["txid"] == txid + 9
    assert report["inProgressRead"] == [{"file": str(path), "firstTxid": txid + 6, "lastTxid": txid + 9, "cutBytes": 0}]


@pytest.mark.recorded
def test_several_open_segments_are_merged_in_sequence(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    put_open(directory, txid + 1, txid + 4, b"\x00" * 100)
    put_finalized(directory, txid + 5, txid + 8)
    put_open(directory, txid + 9, txid + 12, b"")
    assert merged(directory)["txid"] == txid + 12


@pytest.mark.recorded
@pytest.mark.parametrize(("first", "text"), [(6, "txid {0} .. {0}"), (4, "are also in")], ids=["gap", "overlap"])
def test_open_segments_that_are_not_consecutive_are_rejected(tmp_path: Path, first: int, text: str) -> None:
    directory, txid = base(tmp_path)
    put_open(directory, txid + 1, txid + 4)
    put_open(directory, txid + first, txid + 8)
    refused(directory, 4, text.format(txid + 5))


@pytest.mark.recorded
@pytest.mark.parametrize(("first", "last"), [(1, 5), (3, 7), (1, 7), (5, 9), (2, 4)])
def test_two_versions_of_a_transaction_are_rejected(tmp_path: Path, first: int, last: int) -> None:
    # a NameNode refuses only the first pair, whose finalized name already exists
    directory, txid = base(tmp_path)
    put_finalized(directory, txid + 1, txid + 5)
    path = put_open(directory, txid + first, txid + last)
    refused(directory, 4, path.name, segment_name(txid + 1, txid + 5), "Compare the two files")


@pytest.mark.recorded
def test_open_segment_contained_in_the_image_is_not_read(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    old = put_open(directory, max(1, txid - 5), txid)
    put_finalized(directory, txid + 1, txid + 3)
    report = merged(directory)
    assert (report["txid"], report["inProgress"], report["inProgressRead"]) == (txid + 3, [str(old)], [])


@pytest.mark.recorded
def test_open_segment_that_grows_between_two_merges(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    path = put_open(directory, txid + 1, txid + 4)
    assert merged(directory)["txid"] == txid + 4
    path.unlink()
    put_open(directory, txid + 1, txid + 9)
    report = merged(directory)
    assert (report["baseTxid"], report["txid"], report["transactions"]) == (txid + 4, txid + 9, 5)
    code, out, _ = merge(directory)
    assert (code, json.loads(out)["merged"]) == (0, False)


@pytest.mark.recorded
@pytest.mark.parametrize("content", [b"", encode_header(-63), encode_header(-63) + b"\xff" * 4096])
def test_open_segments_without_operations_are_skipped(tmp_path: Path, content: bytes) -> None:
    directory, txid = base(tmp_path)
    put_finalized(directory, txid + 1, txid + 3)
    path = directory / "current" / inprogress_name(txid + 4)
    path.write_bytes(content)
    report = merged(directory)
    assert (report["txid"], report["inProgress"]) == (txid + 3, [str(path)])
    # seen_txid shows that the segment was begun, so its transactions are lost
    (directory / "current" / "seen_txid").write_text(f"{txid + 4}\n")
    (directory / "current" / f"fsimage_{txid + 3:019d}").unlink()
    refused(directory, 6, "seen_txid")


@pytest.mark.recorded
def test_leftovers_of_a_recovery_are_not_read(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    put_finalized(directory, txid + 1, txid + 3)
    for suffix in (".empty", ".corrupt", ".trash", ".stale"):
        (directory / "current" / (inprogress_name(txid + 4) + suffix)).write_bytes(b"junk")
    report = merged(directory)
    assert (report["txid"], report["inProgress"], report["inProgressRead"]) == (txid + 3, [], [])


@pytest.mark.recorded
@pytest.mark.parametrize("content", [b"\xff" * 100, encode_header(-63)[:6]])
def test_damaged_header_is_rejected(tmp_path: Path, content: bytes) -> None:
    directory, txid = base(tmp_path)
    put_finalized(directory, txid + 1, txid + 3)
    (directory / "current" / inprogress_name(txid + 4)).write_bytes(content)
    refused(directory, 4, inprogress_name(txid + 4), "contains no transaction", "move the file away")


@pytest.mark.recorded
@pytest.mark.parametrize("content", [b"\xff" * 100 + b"\x03", b"abc"])
def test_other_bytes_than_those_of_a_roll_that_failed_are_not_called_empty(tmp_path: Path, content: bytes) -> None:
    directory, txid = base(tmp_path)
    (directory / "current" / inprogress_name(txid + 1)).write_bytes(content)
    refused(directory, 4, "  next: ")
    assert "contains no transaction" not in merge(directory).err


@pytest.mark.recorded
def test_unknown_layout_is_rejected(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    (directory / "current" / inprogress_name(txid + 1)).write_bytes(b"\xff\xff\xff\x90" + bytes(4))
    refused(directory, 5, "layout")


@pytest.mark.recorded
def test_transactions_that_contradict_the_file_name_are_rejected(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    path = put_open(directory, txid + 2, txid + 5)
    path.rename(path.with_name(inprogress_name(txid + 1)))
    refused(directory, 4, f"expected txid {txid + 1}, found {txid + 2}")


@pytest.mark.recorded
def test_operation_repeated_at_the_end_is_rejected(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    path = directory / "current" / inprogress_name(txid + 1)
    written = write_ops(path, ops(txid + 1, txid + 5, end=False), -63)
    content = path.read_bytes()
    last = [op.offset for op in SegmentCursor(content)][-1]
    path.write_bytes(content + content[last : written.size])
    refused(directory, 4, "out of order")


@pytest.mark.recorded
def test_operation_that_cannot_be_applied_changes_no_file(tmp_path: Path) -> None:
    directory, txid = base(tmp_path)
    made = ops(txid + 1, txid + 2, end=False)
    made.append(SetPermissionsOp(txid=txid + 3, src="/not/there", mode=0o700))
    write_ops(directory / "current" / inprogress_name(txid + 1), made, -63)
    refused(directory, 4, "OP_SET_PERMISSIONS", f"txid {txid + 3}")


@pytest.mark.recorded
@pytest.mark.parametrize("kind", ["opcode", "further field"])
@pytest.mark.parametrize("damaged", [False, True])
def test_operation_of_other_software_at_the_end_is_rejected(tmp_path: Path, kind: str, damaged: bool) -> None:
    directory, txid = base(tmp_path)
    tail = unreadable_op(kind, txid + 6) + b"\xff" * 64
    if damaged:
        put_open(directory, txid + 1, txid + 4, encode_op(EndLogSegmentOp(txid=txid + 5), -63)[:-1] + b"\x07" + tail)
        refused(directory, 4, f"intact transactions follow it: {txid + 6} to {txid + 6}")
    else:
        put_open(directory, txid + 1, txid + 5, tail)
        refused(directory, 4, f"txid {txid + 6}: ", "Use a release of this program")


def test_error_for_a_damaged_or_empty_open_segment(tmp_path: Path) -> None:
    path = tmp_path / inprogress_name(1)
    path.write_bytes(b"\xff\xff")
    with pytest.raises(CorruptHeaderError):
        read_in_progress_segments([EditLogSegment(1, None, path)])
    path.write_bytes(b"")
    assert read_in_progress_segments([EditLogSegment(1, None, path)]) == []
