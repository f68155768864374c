"""The past of a node, compared with a witness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.errors import TransferError
from checkpointer.set_back.proof import DAMAGE_HINT, PastFinding, PastVerdict, prove, refuse
from checkpointer.set_back.watch import PastWatch
from engine.txn_runs import ImageId, Provenance, TxnRecorder
from journal.binary_codec import encode_op
from journal.errors import CorruptOpError
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, SegmentTransactions
from journal.segment_format import encode_header
from tests.checkpointer.set_back_model import ModelSegment
from tests.checkpointer.set_back_support import (
    OURS,
    STRETCHES,
    Provenances,
    Witness,
    apply,
    chmod,
    delete,
    noted,
    segment,
)

LAYOUT = -63


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
    """Edits are missing after a restart of this node in an idle cluster that keeps no edits before its oldest image."""
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


@pytest.mark.parametrize("damaged_to", [None, 9])
def test_hint_for_an_image_that_is_not_offered_because_of_a_damaged_segment(damaged_to: int | None) -> None:
    with pytest.raises(TransferError) as refused:
        refuse(PastVerdict(PastFinding.UNKNOWN, "cannot be compared", damaged_to=damaged_to), 9, "http://nn")
    assert (refused.value.hint == DAMAGE_HINT) is (damaged_to is not None)
