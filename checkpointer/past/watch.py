"""Whether what a node holds is of its NameNode's present past: what it applied, and what its images were made of.

What is held is shown (compared with the NameNode's edits and found the same), unknown (nobody could be asked) or
lost. It begins as unknown with each image that is loaded, and each edit that is applied makes it unknown again, as
far as that edit. A comparison of the bounds of segments keeps it shown only while nothing else changed; before an
image is made or offered the contents are compared.

Lost stays lost: bounds that look right afterwards are no answer, only a whole comparison or a new beginning is. A
loss that may pass (`hasty`: a transaction may be read before the NameNode counts it) counts when the next check finds
the same. The theory is in docs/lost-past.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from checkpointer.past.proof import PastFinding, PastVerdict, Witness, prove
from engine.txn_runs import ImageId, Provenance, TxnRecorder, TxnRun

# Runs without an identifying transaction, from which on an image is asked for instead.
_MANY = 64


class ProvenanceRepository(Protocol):
    """What images of ours were made of, by their MD5 (`ProvenanceStore`)."""

    def of(self, md5: str) -> Provenance | None: ...

    def add(self, md5: str, claim: Provenance) -> None: ...

    def forget(self) -> None: ...


class PastWatch:
    """Keeps for each image what it was made of, and compares that with what the NameNode has now.

    `check`, `loaded` and `saved` are for the thread that works on the namespace; `confirm` is for any.

    Args:
        recorder: notes what is applied to the namespace.
        claims: of the images that are here.
        held: the images that are here, the newest first.
        witness: of the past; its argument is the newest transaction that it is asked about.
    """

    def __init__(
        self,
        recorder: TxnRecorder,
        claims: ProvenanceRepository,
        held: Callable[[], Sequence[ImageId]],
        witness: Callable[[int], Witness],
    ) -> None:
        self._recorder = recorder
        self._claims = claims
        self._held = held
        self._witness_of = witness
        # What the last comparison that went well was about.
        self._shown: tuple[object, ...] | None = None
        self._doubted = False
        # What was found lost, until this node starts over or all is found after all.
        self._lost: PastVerdict | None = None
        # When each NameNode's process began, that lived at the last comparison of everything.
        self._lives: Mapping[str, int] = {}

    def loaded(self, image: ImageId) -> None:
        """An image was loaded: go on from what is known of it."""
        self._recorder.begin(image, self._claims.of(image.md5))
        self._shown = self._lost = None
        self._lives = {}

    def saved(self, image: ImageId) -> None:
        """An image was saved of what was just shown to be of the NameNode's past."""
        self._claims.add(image.md5, self._recorder.provenance())

    def forget(self) -> None:
        """The images were set aside, and what is known of them."""
        self._claims.forget()
        self._shown = self._lost = None
        self._doubted = False
        self._lives = {}

    def doubt(self) -> None:
        """Have the next check compare everything."""
        self._shown = None

    def check(self, *, deep: bool) -> PastVerdict:
        """Compare what the namespace holds and was not compared before.

        Args:
            deep: compare the contents again, too, on which the last comparison relied.
        """
        recorder = self._recorder
        runs = recorder.unproven()
        full = deep or self._about() != self._shown
        if full and len(runs) > _MANY:
            self._shorten(runs)
            runs = recorder.unproven()
        # Bounds are seen without the open segment.
        witness = self._witness(runs if full else ())
        # Before the comparison: a process that lives on afterwards lived while it was made.
        lives = witness.lives() if deep else {}
        verdict = prove(
            runs,
            witness,
            based=recorder.base_unproven,
            images=lambda: self._images(recorder.base),
            deep=full,
            alive=lambda: self._is_alive(witness),
        )
        if verdict.holds and deep:
            self._lives = lives
        if verdict.hasty and not self._doubted:
            self._doubted = True
            return PastVerdict(PastFinding.UNKNOWN, verdict.reason)
        self._doubted = verdict.hasty
        if verdict.holds and full:
            recorder.mark_proven(verdict.image)
            self._shown = self._about()
        elif verdict.lost:
            # From now on bounds alone are no answer.
            self._shown = None
        elif self._lost is not None:
            return self._lost
        self._lost = verdict if verdict.lost else None
        return verdict

    def _about(self) -> tuple[object, ...]:
        """What a comparison is about; of a run that grows only its end is new."""
        runs = self._recorder.unproven()
        openings = ((each.first, each.digest, each.ends) for each in runs)
        return (self._recorder.base, self._recorder.base_unproven, *openings)

    def confirm(self, image: ImageId) -> PastVerdict:
        """Compare what an image of ours was made of, right before it is offered to a NameNode."""
        claim = self._claims.of(image.md5) or Provenance((), image)
        witness = self._witness(claim.runs)
        return prove(
            claim.runs,
            witness,
            based=claim.base is not None,
            images=lambda: self._images(claim.base) if claim.runs else [image],
            # What was made before this process began was not compared in it.
            alive=lambda: bool(claim.runs) and self._is_alive(witness),
        )

    def _is_alive(self, witness: Witness) -> bool:
        """Whether the active NameNode is a process that lived at the last comparison: its past is still the same."""
        life = witness.active_life()
        return life is not None and self._lives.get(life[0]) == life[1]

    def _shorten(self, runs: Sequence[TxnRun]) -> None:
        """An image of ours that the NameNode has shows what is before it, in an idle cluster hundreds of segments."""
        newest = next(iter(self._held()), None)
        if newest is None or newest.txid <= runs[0].last:
            return
        if self._witness(()).image_md5(newest.txid) == newest.md5:
            self._recorder.rebase(newest)

    def _witness(self, runs: Sequence[TxnRun]) -> Witness:
        return self._witness_of(max((each.last for each in runs), default=-1))

    def _images(self, base: ImageId | None) -> list[ImageId]:
        """Images of ours, the newest first: from `base` on, which counts where it is not here any more, or all."""
        if base is None:
            return list(self._held())
        return [*(image for image in self._held() if image.txid > base.txid), base]
