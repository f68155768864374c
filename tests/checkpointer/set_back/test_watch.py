"""The past of a node, watched while its images and edits change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from checkpointer.set_back.proof import PastFinding
from checkpointer.set_back.watch import PastWatch
from engine.txn_runs import ImageId, Provenance, TxnRecorder
from journal.errors import CorruptOpError
from journal.operation import EditOp
from tests.checkpointer.purge_support import processes
from tests.checkpointer.service_support import Clock
from tests.checkpointer.set_back_model import ModelSegment
from tests.checkpointer.set_back_support import OURS, Provenances, Witness, apply, chmod, delete, noted, segment

__all__ = ["processes"]


class Restarting(Witness):
    """A witness whose NameNode is restarted, and thereby set back, while its segments are listed."""

    def segments(self, from_txid: int) -> Sequence[ModelSegment]:
        self.life += 1
        return super().segments(from_txid)


@pytest.mark.parametrize(("kind", "known"), [(Witness, True), (Restarting, False)])
def test_edits_before_a_fetched_image_get_the_process_that_has_it(kind: type[Witness], known: bool) -> None:
    image = ImageId(9, "aa")
    store = Provenances("", Provenance((), None))
    witness = kind(OURS, 9, {9: "aa"}, life=7)
    watch = PastWatch(TxnRecorder(), store, lambda: [image], lambda last: witness)
    watch.fetched(image)
    ending = Provenance(noted(OURS[1], base=4).runs(), None, life=("nn", 7))
    assert store.of("aa") == (ending if known else None)
    # another NameNode's image of this txid
    watch.fetched(ImageId(9, "bb"))
    assert store.of("bb") is None


@pytest.mark.parametrize(("kind", "stored"), [(Witness, ("nn", 7)), (Restarting, None)])
def test_saved_image_gets_the_process_that_was_compared(kind: type[Witness], stored: tuple[str, int] | None) -> None:
    """The process is known before the image is saved, so `saved` sends no request."""
    store = Provenances("", Provenance((), None))
    witness = kind(OURS, 9, {0: "aa"}, life=7)
    watch = PastWatch(noted(*OURS), store, lambda: [ImageId(0, "aa")], lambda last: witness)
    assert watch.check(deep=True).holds
    # the NameNode is restarted after the comparison, or does not answer
    witness.life = 0
    watch.saved(ImageId(9, "bb"))
    assert store.known["bb"].life == stored
    assert store.known["bb"].made


QUIET = (segment(1, chmod(2)), segment(4, chmod(5)))


IMAGE = ImageId(3, "aa")


def watch_over(store: Provenances, witness: Witness, *applied: ModelSegment) -> PastWatch:
    """Return the watch of a daemon that has loaded IMAGE and applied segments."""
    recorder = TxnRecorder()
    watch = PastWatch(recorder, store, lambda: [IMAGE], lambda last: witness)
    watch.loaded(IMAGE)
    apply(recorder, applied)
    return watch


def test_process_of_an_image_proves_no_later_edits() -> None:
    """The disk of a backup node contains segments of a lost past with txids that the NameNode has purged."""
    store = Provenances("", Provenance((), None))
    present = [segment(4, delete(5, at=9000)), segment(7, delete(8, at=9001))]
    witness = Witness(present, 9, {3: "aa"}, life=2)
    # the daemon is killed before it compares anything
    watch_over(store, witness)
    assert store.known["aa"].life == ("nn", 2)
    lost = segment(4, delete(5, at=1000))
    witness.present, witness.images = present[1:], {}
    watch = watch_over(store, witness, lost, present[1])
    assert watch.check(deep=True).finding is PastFinding.SILENT
    # the image itself is still proved, which does not prove the edits that follow it
    assert watch.confirm(IMAGE).holds
    assert watch.check(deep=True).finding is PastFinding.SILENT


@pytest.mark.parametrize(("life", "gap", "holds"), [(2, False, True), (3, False, False), (2, True, False)])
def test_non_identifying_edits_hold_after_an_image_of_the_process(life: int, gap: bool, holds: bool) -> None:
    store = Provenances("aa", Provenance(noted(QUIET[0]).runs(), ImageId(0, "00"), life=("nn", 2)))
    watch = watch_over(store, Witness(QUIET[1:], 6, {}, life=life), QUIET[1])
    if gap:
        watch.doubt(gap=True)
    assert watch.check(deep=True).finding is (PastFinding.HOLDS if holds else PastFinding.SILENT)


def test_image_gets_its_provenance_once_a_namenode_answers() -> None:
    store = Provenances("", Provenance((), None))
    witness = Witness(QUIET, 6, None, life=0)
    watch = watch_over(store, witness)
    assert watch.check(deep=True).finding is PastFinding.UNKNOWN
    assert store.of("aa") is None
    witness.images, witness.life = {3: "aa"}, 2
    assert watch.check(deep=True).holds
    # none of the segments up to the image is identifying, so the image itself is the proof
    assert store.of("aa") == Provenance((), IMAGE, life=("nn", 2))


class Damaged(ModelSegment):
    """A segment that was damaged after it was applied."""

    def read(self, from_txid: int) -> Iterator[EditOp]:
        raise CorruptOpError("damaged", file=self.name, offset=0)


def test_damage_is_confirmed_although_the_bounds_remain_equal() -> None:
    """Only the check before an image reads the segments; the tails in between compare bounds."""
    clock, image = Clock(), ImageId(0, "aa")
    applied = [segment(1, delete(2)), segment(4, delete(5))]
    witness = Witness(applied, 6, {0: "aa"}, life=1)
    store = Provenances("aa", Provenance((), None))
    watch = PastWatch(noted(*applied), store, lambda: [image], lambda last: witness, lambda: 6, clock=clock)
    assert watch.check(deep=True).holds
    # the NameNode is restarted, and has purged the image from which we started
    witness.present, witness.images, witness.life = (
        [Damaged(each.first, each.ops, False) for each in applied],
        {6: "bb"},
        2,
    )
    assert watch.check(deep=False).holds
    assert watch.check(deep=True).finding is PastFinding.UNKNOWN
    assert watch.check(deep=False).finding is PastFinding.UNKNOWN
    clock.now += 10
    assert watch.check(deep=False).finding is PastFinding.SILENT
