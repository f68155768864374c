"""Whether the images of a secondary are of the NameNode's past as it is now; asks a witness, and does no other I/O.

An image has one of three origins, and each has its proof:

- Just made: all its segments, and its base, are found at the NameNode. Until then it is pending.
- Made here before: the segments it ends with are found there, as its claim says.
- Fetched: the NameNode still has it.

Where an idle NameNode has purged the image that a proof needs, two rules take its place. The NameNode's process is
still the one whose past the image was found to be: no event but a resumed virtual machine sets a process back. Or the
segments below the base, from the last identifying one on, are found at the NameNode, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from checkpointer.past.proof import PastFinding, PastVerdict, Witness, prove
from checkpointer.past.watch import ProvenanceRepository
from engine.txn_runs import MAX_HISTORY, ImageId, Provenance, TxnRun, run_of_segment
from hadoop_common.errors import HdfsError


@dataclass(frozen=True, slots=True)
class _Pending:
    """An image that was just made, with all its runs, and the claim of its base."""

    image: ImageId
    base: ImageId
    runs: tuple[TxnRun, ...]
    below: Provenance | None
    life: tuple[str, int] | None

    def whole(self) -> Provenance:
        """What the image was made of, with nothing left out."""
        below = () if self.below is None else self.below.history()
        return Provenance(self.runs, self.base, below, self.life)

    def settled(self, life: tuple[str, int] | None) -> Provenance:
        """What is kept of it once it was found at the NameNode, whose process was `life` all the time."""
        return Provenance.over(self.runs, self.base, self.below, life=life)


class SecondaryPast:
    """The claims of a secondary's images, and the proof of each; one thread at a time uses it.

    Args:
        held: the images that are here.
    """

    def __init__(self, claims: ProvenanceRepository, held: Callable[[], Sequence[ImageId]]) -> None:
        self._claims = claims
        self._held = held
        self._pending: _Pending | None = None

    def fetched(self, image: ImageId, life: tuple[str, int] | None, witness: Witness) -> None:
        """Note an image that came from the NameNode, whose process was `life` before."""
        known = self._claims.of(image.md5)
        if known is None or not known.runs:
            ending: tuple[TxnRun, ...] = ()
            # Without them the image counts only as long as the NameNode has it, or its process lives.
            with suppress(HdfsError, OSError):
                ending = _ending_at(image.txid, witness, self._histories(life))
            lasting = _lasting(life, witness)
            self._claims.add(image.md5, Provenance((), image, () if lasting is None else ending, lasting))

    def _histories(self, life: tuple[str, int] | None) -> dict[int, tuple[TxnRun, ...]]:
        """The runs below each image here that is of the past of the process `life`, by the image's txid."""
        claims = {image.txid: self._claims.of(image.md5) for image in self._held()}
        return {txid: claim.history() for txid, claim in claims.items() if claim is not None and claim.life == life}

    def made(self, image: ImageId, base: ImageId, runs: Sequence[TxnRun], life: tuple[str, int] | None) -> None:
        """Note an image that `runs` made of `base`.

        Args:
            life: the NameNode's process since before base and segments were fetched from it, or compared with its own.
        """
        self._pending = _Pending(image, base, tuple(runs), self._claims.of(base.md5), life)

    def is_ours(self, image: ImageId) -> bool:
        """Whether the image was made here."""
        if self._pending is not None and self._pending.image == image:
            return True
        claim = self._claims.of(image.md5)
        return claim is not None and bool(claim.runs)

    def compare(self, image: ImageId, witness: Witness) -> PastVerdict:
        """Compare what an image was made of with the NameNode's past as it is now."""
        pending = self._pending
        if pending is None or pending.image != image:
            return _prove(self._claims.of(image.md5) or Provenance((), image), witness)
        verdict = _prove(pending.whole(), witness)
        if verdict.holds:
            self._claims.add(image.md5, pending.settled(_lasting(pending.life, witness)))
            self._pending = None
        return verdict

    def forget(self) -> None:
        """The images were set aside, with what is known of them."""
        self._claims.forget()
        self._pending = None


def _lasting(life: tuple[str, int] | None, witness: Witness) -> tuple[str, int] | None:
    """Return `life` if it is the NameNode's process still, so that what was read since is of its past; else None."""
    return life if life is not None and witness.active_life() == life else None


def _ending_at(txid: int, witness: Witness, known: Mapping[int, tuple[TxnRun, ...]]) -> tuple[TxnRun, ...]:
    """Return the runs of the NameNode's edits that end at `txid`, from an identifying one on; none where none tells.

    Args:
        known: runs that need not be read, by the txid that they end at.

    Raises:
        HdfsError, OSError: the segments cannot be read.
    """
    found: list[TxnRun] = []
    for segment in reversed(witness.segments(0)):
        if segment.in_progress or segment.last != txid:
            continue
        if below := known.get(txid):
            return (*below, *reversed(found))
        found.append(run_of_segment(segment))
        if found[-1].identifying:
            return tuple(reversed(found))
        if len(found) == MAX_HISTORY:
            break
        txid = segment.first - 1
    return ()


def _prove(claim: Provenance, witness: Witness) -> PastVerdict:
    base = claim.base

    def same_life() -> bool:
        return claim.life is not None and witness.active_life() == claim.life

    verdict = prove(
        claim.runs, witness, based=base is not None, images=lambda: () if base is None else (base,), alive=same_life
    )
    if verdict.finding is PastFinding.SILENT and claim.before:
        return prove((*claim.before, *claim.runs), witness, based=False)
    return verdict
