"""Continuous check that a node's state belongs to its NameNode's present past.

The watch covers the transactions that the node applied and the transactions in its images. The state is proven
(compared with the NameNode's edits and found equal), unknown (no NameNode or journal answered), or lost. After an image
is loaded, the state is unknown, and each applied edit is unknown until a comparison. A comparison of segment bounds
only confirms a proven state that has not changed otherwise. Before an image is made or offered, the watch compares
contents.

If this node did not make an image, the watch stores a provenance when the image is fetched, loaded or found at the
NameNode. The provenance consists of the NameNode's process and the edits that end with the image. It proves the image
after the NameNode has purged it, but does not prove the edits that were applied to the image.

A lost state remains lost until a complete comparison succeeds or the node starts over; equal bounds are not sufficient.
A damaged segment cannot be compared. Until the active NameNode has an image after the segment, our state remains,
because it may be the only copy of these transactions. This image is certain to be correct, and our state can never be
proven.

A hasty verdict takes effect only if later checks confirm it for ten seconds, because a transaction may be readable
before the NameNode counts it. docs/lost-past.md explains the theory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from checkpointer.set_back.proof import PastFinding, PastVerdict, Witness, prove, runs_ending_at
from checkpointer.set_back.provenance import ProvenanceStore
from engine.txn_runs import ImageId, Provenance, TxnRecorder, TxnRun
from hadoop_common.errors import HdfsError

# with more runs than this without an identifying transaction, compare an image instead
_MAX_RUNS = 64
# A NameNode counts a transaction when its slowest edits directory has stored the transaction.
_CONFIRMED_SECONDS = 10.0


class PastWatch:
    """Watch that stores the provenance of each image, and compares it with the NameNode's present edits and images.

    Only the thread that works on the namespace may call `check`, `fetched`, `loaded` and `saved`; any thread may call
    `confirm`.

    Args:
        recorder: records the transactions that the node applies to the namespace.
        provenances: provenances of this node's images.
        held: returns this node's images, newest first.
        witness: returns a witness of the past; its argument is the newest transaction to compare.
        newest_image: returns the txid of the active NameNode's newest image, or None if unknown now.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        recorder: TxnRecorder,
        provenances: ProvenanceStore,
        held: Callable[[], Sequence[ImageId]],
        witness: Callable[[int], Witness],
        newest_image: Callable[[], int | None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder = recorder
        self._provenances = provenances
        self._held = held
        self._witness_of = witness
        self._newest_image = newest_image
        self._clock = clock
        # scope of the last successful comparison
        self._proven: tuple[object, ...] | None = None
        # time of the first of consecutive hasty verdicts
        self._doubted_at: float | None = None
        # verdict on the lost state, until this node starts over or a complete comparison succeeds
        self._lost: PastVerdict | None = None
        # start times of the NameNodes' processes at the last complete comparison
        self._lives: Mapping[str, int] = {}
        # the active NameNode's process if it ran throughout that comparison
        self._life: tuple[str, int] | None = None
        # whether the edits after the loaded image are missing
        self._gap = False

    def loaded(self, image: ImageId) -> None:
        """Continue from the provenance of a loaded image."""
        provenance = self._provenances.of(image.md5)
        if provenance is None or not provenance.runs:
            # store it now, because the NameNode may purge the image later
            provenance = self.fetched(image) or provenance
        self._recorder.begin(image, provenance)
        self._proven = self._lost = self._life = None
        self._lives = {}
        self._gap = False

    def fetched(self, image: ImageId) -> Provenance | None:
        """Store and return the provenance of an image that this node did not make; return None if the active NameNode
        lacks it.
        """
        witness = self._witness_of(image.txid)
        life = witness.active_life()
        if life is None or witness.image_md5(image.txid) != image.md5:
            return None
        ending: tuple[TxnRun, ...] = ()
        # without these runs, the image can be proven only while the NameNode has it, or until the NameNode's process
        # ends
        with suppress(HdfsError, OSError):
            ending = runs_ending_at(image.txid, witness, {}, most=_MAX_RUNS)
        if witness.active_life() != life:
            return None
        provenance = Provenance(ending, None if ending else image, life=life)
        self._provenances.add(image.md5, provenance)
        return provenance

    def saved(self, image: ImageId) -> None:
        """Store the provenance of an image that was just saved and proven."""
        self._provenances.add(image.md5, replace(self._recorder.provenance(), life=self._life, made=True))

    def forget(self) -> None:
        """Forget the images that were set aside, and their provenances."""
        self._provenances.forget()
        self._proven = self._lost = self._life = None
        self._doubted_at, self._gap = None, False
        self._lives = {}

    def doubt(self, *, gap: bool = False, kept: bool = False) -> None:
        """Require that the next check compare everything.

        Args:
            gap: whether the next edits are missing. In that case, the watch no longer accepts the process stored with
                an image as proof.
            kept: whether edits from this node's disk are applied. They may be older than the last comparison, so the
                NameNode's process does not prove them.
        """
        self._proven = None
        self._gap |= gap
        if kept:
            self._lives, self._life = {}, None

    def check(self, *, deep: bool) -> PastVerdict:
        """Compare the parts of the namespace's past that have not been compared yet.

        Args:
            deep: whether to also compare the contents on which the last comparison relied.
        """
        recorder = self._recorder
        runs = recorder.unproven()
        full = deep or self._subject() != self._proven
        if full and len(runs) > _MAX_RUNS:
            self._shorten(runs)
            runs = recorder.unproven()
        # The bounds of segments are known without reading the open segment.
        witness = self._witness(runs if full else ())
        # Query this before the comparison, because a process that is still running afterwards ran throughout the
        # comparison.
        lives = witness.lives() if deep else {}
        verdict = prove(
            runs,
            witness,
            based=recorder.base_unproven,
            images=lambda: self._images(recorder.base),
            deep=full,
            same_process=lambda image: not self._gap and self._is_of_process(image, witness),
            alive=lambda: _process_of(witness, self._lives) is not None,
        )
        if verdict.holds and deep:
            self._lives, self._life = lives, _process_of(witness, lives)
        if verdict.damaged_to is not None:
            verdict = self._after_damage(verdict, verdict.damaged_to)
        if not verdict.hasty:
            self._doubted_at = None
        elif not self._is_confirmed():
            # Equal bounds must not end the doubt.
            self._proven = None
            return replace(verdict, finding=PastFinding.UNKNOWN, hasty=False)
        if verdict.holds and full:
            recorder.mark_proven(verdict.image)
            self._proven = self._subject()
            if verdict.image is not None and self._provenances.of(verdict.image.md5) is None:
                # no NameNode answered when the image was loaded
                self.fetched(verdict.image)
        elif verdict.lost:
            # Equal bounds are no longer sufficient.
            self._proven = None
        elif self._lost is not None:
            return self._lost
        self._lost = verdict if verdict.lost else None
        return verdict

    def _is_confirmed(self) -> bool:
        """Return whether the first of consecutive hasty verdicts is old enough; note the time of the first verdict."""
        now = self._clock()
        if self._doubted_at is None:
            self._doubted_at = now
            return False
        return now - self._doubted_at >= _CONFIRMED_SECONDS

    def _after_damage(self, verdict: PastVerdict, last: int) -> PastVerdict:
        """Return SILENT if the active NameNode has an image after the damaged segment, which ends at `last`."""
        newest = self._newest_image()
        if newest is None or newest < last:
            return verdict
        reason = f"{verdict.reason}; the NameNode has an image at txid {newest}, after this segment"
        return replace(verdict, finding=PastFinding.SILENT, reason=reason, hasty=True)

    def _subject(self) -> tuple[object, ...]:
        """Return the scope of a comparison; a growing run counts as unchanged."""
        runs = self._recorder.unproven()
        openings = ((each.first, each.digest, each.ends) for each in runs)
        return (self._recorder.base, self._recorder.base_unproven, *openings)

    def confirm(self, image: ImageId) -> PastVerdict:
        """Compare the provenance of our image with the NameNode's past, immediately before the image is offered."""
        provenance = self._provenances.of(image.md5) or Provenance((), image)
        witness = self._witness(provenance.runs)
        return prove(
            provenance.runs,
            witness,
            based=provenance.base is not None,
            images=lambda: self._images(provenance.base) if provenance.runs else [image],
            # An image without runs may have been stored after the last comparison.
            alive=lambda: (
                self._is_of_process(image, witness)
                or (bool(provenance.runs) and _process_of(witness, self._lives) is not None)
            ),
        )

    def is_superseded(self, image: ImageId, newest: int) -> bool:
        """Return whether the NameNode's image at `newest` replaces our image, because the NameNode may have been
        restarted since this node made our image.

        For an image of another program, the stored process proves only that the past of this process contains the
        image. It does not prove that the process has no other image: a recovered NameNode may also have an older one.
        """
        witness, provenance = self._witness(()), self._provenances.of(image.md5)
        is_made = provenance is not None and provenance.made
        if newest < image.txid or (is_made and self._is_of_process(image, witness)):
            return False
        return newest > image.txid or witness.image_md5(newest) not in ("", image.md5)

    def _is_of_process(self, image: ImageId, witness: Witness) -> bool:
        """Return whether the process stored with an image is the active NameNode's, whose past then contains the
        image.
        """
        provenance = self._provenances.of(image.md5)
        return provenance is not None and provenance.life is not None and witness.active_life() == provenance.life

    def _shorten(self, runs: Sequence[TxnRun]) -> None:
        """Start from our newest image if the NameNode also has it, because an idle cluster has hundreds of earlier
        runs.
        """
        newest = next(iter(self._held()), None)
        if newest is None or newest.txid <= runs[0].last:
            return
        if self._witness(()).image_md5(newest.txid) == newest.md5:
            self._recorder.rebase(newest)

    def _witness(self, runs: Sequence[TxnRun]) -> Witness:
        return self._witness_of(max((each.last for each in runs), default=-1))

    def _images(self, base: ImageId | None) -> list[ImageId]:
        """Return our images after `base`, newest first, then `base` itself, even if it was removed; without a base,
        return all images.
        """
        if base is None:
            return list(self._held())
        return [*(image for image in self._held() if image.txid > base.txid), base]


def _process_of(witness: Witness, lives: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the active NameNode's process if it is one of `lives`, so that its past is unchanged; otherwise, return
    None.
    """
    life = witness.active_life()
    return life if life is not None and life in lives.items() else None
