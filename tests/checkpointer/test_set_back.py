"""The past of a node: recorded, compared with a witness, stored and set aside."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.errors import TransferError
from checkpointer.set_back.proof import DAMAGE_HINT, PastFinding, PastVerdict, prove, refuse
from checkpointer.set_back.provenance import ProvenanceStore, held_images, read_provenances
from checkpointer.set_back.start_over import StartOverLimiter
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.lost_pasts import PROVENANCE
from engine.txn_runs import _TIME_STAMPED, ImageId, Provenance, TxnRecorder, TxnRun, is_identifying, runs_of_segments
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, segment_name
from image_format.md5_file import md5_path
from journal.attribute_ops import RemoveXAttrOp, TimesOp
from journal.binary_codec import encode_op
from journal.errors import CorruptOpError
from journal.operation import EditOp, declared_operations
from journal.ops import OPERATIONS
from journal.segment_file import EditLogSegment, SegmentTransactions
from journal.segment_format import encode_header
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp
from tests.checkpointer.set_back_model import ModelSegment
from tests.checkpointer.set_back_support import OURS, Provenances, Witness, apply, chmod, delete, image, noted, segment
from tests.checkpointer.storage_support import put_image

LAYOUT = -63


# ---- identifying transactions ------------------------------------------------------------------------------


def test_identifying_transactions() -> None:
    assert is_identifying(delete(1))
    assert not is_identifying(chmod(1))
    # a client chooses the times that it sets
    assert not is_identifying(TimesOp(txid=1, path="/a", mtime=5, atime=5))
    assert not is_identifying(RemoveXAttrOp(txid=1, src="/a", xattrs=()))
    assert is_identifying(RemoveXAttrOp(txid=1, src="/a", xattrs=(), rpc_client_id=b"0123456789abcdef"))
    assert not any(is_identifying(op(txid=1)) for op in (StartLogSegmentOp, EndLogSegmentOp))


# operations without a clock time and a call id, which another history may contain at the same txid
SILENT = """
    SET_REPLICATION SET_PERMISSIONS SET_OWNER TIMES SET_NS_QUOTA CLEAR_NS_QUOTA SET_QUOTA SET_QUOTA_BY_STORAGETYPE
    REASSIGN_LEASE SET_ACL SET_STORAGE_POLICY ALLOW_SNAPSHOT DISALLOW_SNAPSHOT START_LOG_SEGMENT END_LOG_SEGMENT
    SET_GENSTAMP_V1 SET_GENSTAMP_V2 ALLOCATE_BLOCK_ID CANCEL_DELEGATION_TOKEN
"""


def test_every_operation_is_classified_as_identifying_or_not() -> None:
    stamped = {op.name.removeprefix("OP_") for op in _TIME_STAMPED}
    called = {
        op.name.removeprefix("OP_") for op in OPERATIONS.values() if any(f.name == "rpc_client_id" for f in op.fields)
    }
    assert stamped | called | set(SILENT.split()) == {op.name.removeprefix("OP_") for op in OPERATIONS.values()}
    assert not set(SILENT.split()) & (stamped | called)


def test_runs_of_segments() -> None:
    first, second = segment(1, chmod(2), delete(3), delete(4)), segment(6, chmod(7))
    one, two = noted(first, second).runs()
    assert (one.first, one.last, one.opening_end, one.identifying, one.starts, one.ends) == (1, 5, 3, True, True, True)
    assert (two.first, two.last, two.opening_end, two.identifying, two.starts, two.ends) == (6, 8, 8, False, True, True)


@given(cuts=st.lists(st.integers(0, 9), max_size=4), telling=st.lists(st.booleans(), min_size=8, max_size=8))
def test_segment_read_in_parts_is_one_run(cuts: list[int], telling: list[bool]) -> None:
    whole = segment(1, *(delete(2 + n) if tells else chmod(2 + n) for n, tells in enumerate(telling)))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    reached = 0
    for cut in [*sorted(cuts), whole.last]:
        for op in recorder.record_all(whole.read(reached + 1)):
            # the last transaction may be recorded without being applied
            if op.txid > cut:
                break
            reached = op.txid
        recorder.mark_applied(reached)
    assert recorder.runs() == noted(whole).runs()


def test_runs_from_files_equal_those_from_streams(tmp_path: Path) -> None:
    segments = [segment(1, chmod(2), delete(3), chmod(4)), segment(6, chmod(7)), segment(9, delete(10))]
    files = []
    for each in segments:
        path = tmp_path / segment_name(each.first, each.last)
        path.write_bytes(encode_header(LAYOUT) + b"".join(encode_op(op, LAYOUT) for op in each.ops))
        files.append(EditLogSegment(each.first, each.last, path))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    last = [op.txid for op in SegmentTransactions(files, 1).observed(recorder.record_opening)][-1]
    recorder.mark_applied(last)
    assert recorder.runs() == noted(*segments).runs() == runs_of_segments(files)


def test_segment_that_begins_inside_the_last_run_begins_another_run() -> None:
    """A NameNode that was set back may write other segments, which contain the next transactions."""
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    before, after = segment(1, delete(2), delete(3), in_progress=True), segment(2, delete(3), delete(4))
    for _ in recorder.record_all(before.read(1)):
        pass
    recorder.mark_applied(3)
    recorder.check_resumed(after.read)
    for _ in recorder.record_all(after.read(4)):
        pass
    recorder.mark_applied(5)
    assert [(each.first, each.last, each.starts) for each in recorder.runs()] == [(1, 3, True), (4, 5, False)]


def test_run_of_an_open_segment_has_no_end(tmp_path: Path) -> None:
    whole = segment(1, delete(2), chmod(3))
    path = tmp_path / "edits_inprogress_0000000000000000001"
    path.write_bytes(encode_header(LAYOUT) + b"".join(encode_op(op, LAYOUT) for op in whole.ops[:2]))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    for _ in SegmentTransactions([EditLogSegment(1, 2, path)], 1).observed(recorder.record_opening):
        pass
    recorder.mark_applied(2)
    (run,) = recorder.runs()
    assert not run.ends
    assert prove((run,), Witness((whole,), 4), based=False).finding is PastFinding.HOLDS


# ---- comparisons -------------------------------------------------------------------------------------------


STRETCHES = noted(*OURS).runs()


@pytest.mark.parametrize(
    ("present", "last", "finding", "message"),
    [
        (OURS, 9, PastFinding.HOLDS, ""),
        ((*OURS, segment(10, delete(11))), 12, PastFinding.HOLDS, ""),
        # the same bounds, but another time
        ((OURS[0], segment(5, chmod(6), delete(7, at=9), delete(8))), 9, PastFinding.LOST, "are now different"),
        # another transaction before the identifying transaction
        ((OURS[0], segment(5, chmod(6, 0o600), delete(7), delete(8))), 9, PastFinding.LOST, "are now different"),
        ((OURS[0], segment(5, chmod(6), delete(7))), 8, PastFinding.LOST, "now ends at 8"),
        ((OURS[0], segment(5, chmod(6), delete(7), delete(8), delete(9))), 10, PastFinding.LOST, "in the middle of"),
        ((segment(1, delete(2), chmod(3), delete(4), chmod(5), chmod(6)),), 7, PastFinding.LOST, "in the middle of"),
        ((OURS[0], segment(5, in_progress=True)), 5, PastFinding.LOST, "the edits end at 5"),
        ((OURS[0], segment(5, in_progress=True)), None, PastFinding.UNKNOWN, "no active NameNode"),
        # transactions that cannot be read yet
        ((OURS[0],), 9, PastFinding.UNKNOWN, "cannot be read"),
        ((OURS[0],), 4, PastFinding.LOST, "the edits end at 4"),
        ((), None, PastFinding.UNKNOWN, "no active NameNode"),
        # all edits up to the image were purged
        ((segment(20, delete(21)),), 22, PastFinding.SILENT, "were purged, and the NameNode lacks the image"),
    ],
)
def test_comparison_verdicts(
    present: Sequence[ModelSegment], last: int | None, finding: PastFinding, message: str
) -> None:
    verdict = prove(STRETCHES, Witness(present, last, {}), based=False)
    assert (verdict.finding, message in verdict.reason) == (finding, True)


def test_images_decide_where_edits_do_not_identify_the_past() -> None:
    quiet = (segment(1, chmod(2)), segment(4, chmod(5)))
    runs = noted(*quiet).runs()
    images = [ImageId(3, "aa"), ImageId(0, "00")]

    def finding(present: Sequence[ModelSegment], theirs: dict[int, str] | None, based: bool = True) -> PastFinding:
        return prove(runs, Witness(present, 6, theirs), based=based, images=lambda: images).finding

    assert finding(quiet, {0: "00"}) is PastFinding.HOLDS
    assert finding(quiet, {3: "aa"}) is PastFinding.HOLDS
    assert finding(quiet, {0: "11", 3: "bb"}) is PastFinding.SILENT
    assert finding(quiet, {}, based=False) is PastFinding.SILENT
    assert finding(quiet, None) is PastFinding.UNKNOWN
    # transactions after the image must be present
    assert finding(quiet[1:], {3: "aa"}) is PastFinding.HOLDS
    assert finding(quiet[1:], {0: "00"}) is PastFinding.SILENT


def test_image_before_a_gap_proves_nothing() -> None:
    runs = noted(OURS[1], base=4).runs()
    images = [ImageId(2, "aa")]
    verdict = prove(runs, Witness(OURS, 9, {2: "aa"}), based=True, images=lambda: images)
    assert verdict.finding is PastFinding.SILENT


def test_image_of_non_identifying_edits_is_compared_after_a_restart() -> None:
    """Later edits cannot prove that the loaded image belongs to the NameNode's past."""
    quiet = segment(1, chmod(2))
    claim = Provenance(noted(quiet).runs(), ImageId(0, "00"))
    recorder, asked = TxnRecorder(), list[int]()
    witness = Witness([quiet, segment(4, delete(5))], 6, {0: "another"})
    witness.asked = asked
    watch = PastWatch(recorder, Provenances("aa", claim), lambda: [ImageId(3, "aa")], lambda last: witness)
    watch.loaded(ImageId(3, "aa"))
    for _ in recorder.record_all(witness.present[1].read(4)):
        pass
    recorder.mark_applied(6)
    assert watch.check(deep=True).finding is PastFinding.SILENT
    assert asked == [3, 0]


def test_older_image_proves_a_newer_one_whose_edits_were_purged() -> None:
    """This happens after a restart of this node in an idle cluster that retains no edits before its oldest image."""
    telling, quiet = segment(1, delete(2)), segment(4)
    new, kept = ImageId(5, "bb"), ImageId(3, "aa")
    claims = Provenances(new.md5, Provenance(noted(telling, quiet).runs(), None))
    for images, finding in (
        ({3: "aa"}, PastFinding.HOLDS),
        ({3: "another"}, PastFinding.SILENT),
        ({}, PastFinding.SILENT),
    ):
        watch = PastWatch(TxnRecorder(), claims, lambda: [new, kept], partial(_reported, Witness([quiet], 5, images)))
        assert watch.confirm(new).finding is finding


def _reported(witness: Witness, last: int) -> Witness:
    return witness


def test_process_that_was_not_restarted_has_the_same_past() -> None:
    """After a failover, the other NameNode may lack the image that allowed the edits to be purged."""
    recorder = noted(*OURS)
    recorder.begin(ImageId(0, "00"))
    apply(recorder, OURS)
    witness = Witness(OURS, 9, {0: "00"}, life=7)
    watch = PastWatch(
        recorder, Provenances("aa", Provenance((), None)), lambda: [ImageId(0, "00")], lambda last: witness
    )
    assert watch.check(deep=True).holds
    witness.present, witness.images, witness.last = [segment(10, delete(11))], {}, 12
    assert watch.check(deep=True).holds
    witness.life = 8
    assert watch.check(deep=True).finding is PastFinding.SILENT


class Broken(ModelSegment):
    def read(self, from_txid: int) -> Iterator[EditOp]:
        raise OSError("the disk is gone")


def test_lost_past_remains_lost_until_the_node_starts_over() -> None:
    """The segments that the NameNode writes next may have the same bounds as the lost segments."""
    witness = Witness(OURS, 9, {0: "aa"})
    watch = PastWatch(
        noted(*OURS), Provenances("aa", Provenance((), None)), lambda: [ImageId(0, "aa")], lambda last: witness
    )
    assert watch.check(deep=False).holds
    witness.present, witness.last = [], 3
    assert watch.check(deep=False).finding is PastFinding.LOST
    witness.present, witness.last = [segment(1, delete(2), chmod(3)), segment(5, delete(6), chmod(7), delete(8))], 9
    for _ in range(3):
        assert watch.check(deep=False).finding is PastFinding.LOST
    witness.present = [Broken(1, OURS[0].ops)]
    assert watch.check(deep=False).finding is PastFinding.LOST
    witness.present = OURS
    assert watch.check(deep=False).holds


def test_image_replaces_many_segments_as_proof_in_an_idle_cluster() -> None:
    quiet = [segment(first) for first in range(1, 401, 2)]
    recorder, asked = noted(*quiet), list[int]()
    recorder.begin(ImageId(0, "00"))
    apply(recorder, quiet)
    witness = Witness(quiet, 400, {0: "00", 300: "aa"})
    witness.asked = asked
    watch = PastWatch(
        recorder, Provenances("aa", Provenance((), None)), lambda: [ImageId(300, "aa")], lambda last: witness
    )
    assert watch.check(deep=True).holds
    assert recorder.base == ImageId(300, "aa")
    assert [each.first for each in recorder.runs()] == list(range(301, 401, 2))


def test_first_transaction_of_an_open_segment_may_be_unreadable() -> None:
    """JournalNodes do not show START_LOG_SEGMENT before the next transaction."""
    first, opened = segment(1, delete(2)), segment(4, in_progress=True)
    ours = noted(first, opened).runs()
    assert [(each.first, each.last, each.ends) for each in ours] == [(1, 3, True), (4, 4, False)]
    assert prove(ours, Witness([first], 4), based=False).holds
    assert prove(ours[1:], Witness([first], 4), based=False, alive=lambda: True).holds
    # the segment ends elsewhere, the segment is missing, or the NameNode has not reached that txid
    for present, newest, finding in (
        ([segment(1, delete(2), delete(3))], 5, PastFinding.LOST),
        ([], 4, PastFinding.UNKNOWN),
        ([first], 3, PastFinding.LOST),
    ):
        assert prove(ours, Witness(present, newest), based=False).finding is finding
    # our open segment has one more transaction, which must be read for a comparison
    more = noted(first, segment(4, chmod(5), in_progress=True)).runs()
    assert prove(more, Witness([first], 5), based=False).finding is PastFinding.UNKNOWN


class Damaged(ModelSegment):
    def read(self, from_txid: int) -> Iterator[EditOp]:
        raise CorruptOpError("the checksum differs", txid=from_txid)


@pytest.mark.parametrize("in_progress", [False, True])
def test_image_or_process_proves_the_past_if_a_segment_is_damaged(in_progress: bool) -> None:
    """An open segment may be readable later."""
    witness = Witness((OURS[0], Damaged(5, OURS[1].ops, in_progress)), 9, {9: "aa"})
    verdict = prove(STRETCHES, witness, based=False)
    assert verdict.finding is PastFinding.UNKNOWN
    assert "the checksum differs" in verdict.reason
    assert prove(STRETCHES, witness, based=False, alive=lambda: True).holds is not in_progress
    assert prove(STRETCHES, witness, based=False, images=lambda: [ImageId(9, "aa")]).holds is not in_progress


def test_unreadable_segment_gives_an_unknown_verdict() -> None:
    verdict = prove(STRETCHES, Witness((OURS[0], Broken(5, OURS[1].ops, False)), 9), based=False)
    assert verdict.finding is PastFinding.UNKNOWN
    assert "the disk is gone" in verdict.reason


@given(seed=st.integers(0, 1 << 30), at=st.integers(1, 9))
def test_any_different_transaction_is_detected(seed: int, at: int) -> None:
    """The comparison includes each transaction up to an identifying transaction, and each bound."""
    changed = [replace(each, ops=list(each.ops)) for each in OURS]
    place = next(each for each in changed if each.first <= at <= each.last)
    place.ops[at - place.first] = delete(at, at=2000 + seed)
    opening = next(run for run in STRETCHES if run.first <= at <= run.last)
    verdict = prove(STRETCHES, Witness(changed, 9, {}), based=False)
    assert verdict.holds is (at > opening.opening_end)


# ---- stored provenances ------------------------------------------------------------------------------------


def test_provenances_survive_a_restart(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    md5 = "0123456789abcdef" * 2
    for folder in folders:
        image(folder, 9, md5)
    claim = Provenance(STRETCHES, ImageId(4, "cc" * 16), STRETCHES[:1], ("http://nn:9870", 1_700_000_000_123))
    ProvenanceStore(lambda: folders).add(md5, claim)
    (folders[0] / PROVENANCE).write_text("{")
    again = ProvenanceStore(lambda: folders)
    assert again.of(md5) == claim
    assert again.of("ff" * 16) is None
    # entries of missing images are dropped too
    other = "ff" * 16
    for folder in folders:
        (folder / image_name(9)).unlink()
        image(folder, 12, other)
    again.add(other, Provenance(STRETCHES[1:], None))
    assert read_provenances(folders) == {other: Provenance(STRETCHES[1:], None)}
    again.forget()
    assert again.of(other) is None


@pytest.mark.parametrize("life", [[], ["nn"], ["nn", "soon"], ["nn", math.inf], 1, {}, {"nn": 1}])
def test_damaged_provenance_is_ignored(tmp_path: Path, life: object) -> None:
    claim = {"stretches": [], "base": None, "life": life}
    (tmp_path / PROVENANCE).write_text(json.dumps({"format": 1, "images": {"11" * 16: claim}}))
    assert read_provenances([tmp_path]) == {}


def test_provenance_without_a_format_has_format_1(tmp_path: Path) -> None:
    claim = Provenance(STRETCHES, None)
    (tmp_path / PROVENANCE).write_text(json.dumps({"images": {"11" * 16: claim.to_json()}}))
    assert read_provenances([tmp_path]) == {"11" * 16: claim}


def test_unreadable_image_keeps_the_provenance_of_another(tmp_path: Path) -> None:
    known = Provenance(noted(*OURS).runs(), ImageId(0, "00"))
    digest = image(tmp_path, 5, "11" * 16).with_name("fsimage_0000000000000000005.md5")
    book = ProvenanceStore(lambda: [tmp_path])
    book.add("11" * 16, known)
    digest.write_bytes(b"damaged")
    book.add("22" * 16, known)
    assert (
        ProvenanceStore(lambda: [tmp_path]).of("11" * 16) == ProvenanceStore(lambda: [tmp_path]).of("22" * 16) == known
    )


def test_held_images_have_a_digest_and_are_no_rollback_images(tmp_path: Path) -> None:
    for txid in (3, 9):
        image(tmp_path, txid, f"{txid:032x}")
    image(tmp_path, 12, "ee" * 16, rollback=True)
    md5_path(put_image(tmp_path, 20)).unlink()
    assert held_images([tmp_path]) == [ImageId(9, f"{9:032x}"), ImageId(3, f"{3:032x}")]


def test_operations_with_a_clock_time_are_identifying() -> None:
    reported = {each.name for each in declared_operations().values() if is_identifying(_any(each))}
    assert {"OP_ADD", "OP_MKDIR", "OP_ROLLING_UPGRADE_START"} <= reported
    assert not {"OP_SET_PERMISSIONS", "OP_SET_OWNER", "OP_TIMES", "OP_START_LOG_SEGMENT", "OP_SET_QUOTA"} & reported


def _any(cls: type[EditOp]) -> EditOp:
    op = cls.__new__(cls)
    for item in cls.fields:
        setattr(op, item.name, item.default if item.has_default else None)
    return op


def test_runs_compare_by_value() -> None:
    assert TxnRun(1, 2, 2, "aa", True, True, True) == TxnRun(1, 2, 2, "aa", True, True, True)


def test_waits_between_new_starts_grow() -> None:
    now = [0.0]
    limiter = StartOverLimiter(lambda: now[0])
    limiter.check(5, "lost")
    for wait in (60, 120, 240):
        limiter.started_over(5)
        now[0] += wait - 1
        with pytest.raises(StorageError, match="again in 1 s"):
            limiter.check(5, "lost")
        # another image starts a new wait
        limiter.check(6, "lost")
        now[0] += 1
        limiter.check(5, "lost")
    limiter.reset()
    limiter.started_over(5)
    now[0] += 60
    limiter.check(5, "lost")


@pytest.mark.parametrize("damaged_to", [None, 9])
def test_hint_for_an_image_that_is_not_offered_because_of_a_damaged_segment(damaged_to: int | None) -> None:
    with pytest.raises(TransferError) as refused:
        refuse(PastVerdict(PastFinding.UNKNOWN, "cannot be compared", damaged_to=damaged_to), 9, "http://nn")
    assert (refused.value.hint == DAMAGE_HINT) is (damaged_to is not None)
