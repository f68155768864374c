"""An in-memory model of a secondary whose NameNode is set back at random; see `set_back_model`.

The secondary uses the product's `SecondaryPast` and `prove` in the steps of its role. The NameNode may be set back
between two steps. The model has no files, sockets or images.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from checkpointer.roles.secondary.set_back import SecondaryPast
from checkpointer.set_back.proof import PastFinding
from engine.txn_runs import ImageId, TxnRun, run_of_segment
from tests.checkpointer.set_back_model import ModelNamenode, ModelProvenances, ModelSegment, ModelWitness, extend


class FinalizedWitness(ModelWitness):
    """A secondary's view of a NameNode without HA: the open segment is not visible."""

    def segments(self, from_txid: int) -> Sequence[ModelSegment]:
        return [each for each in super().segments(from_txid) if not each.in_progress]


class ModelSecondary:
    """A secondary: its images, and the steps of its role.

    Attributes:
        hasty: probability that the NameNode is set back between two steps.
        findings: reason for each start-over.
        taken: number of its images that the NameNode accepted.
    """

    def __init__(self, namenode: ModelNamenode) -> None:
        self._namenode = namenode
        self.hasty = 0.05
        self.claims = ModelProvenances()
        self.images: dict[int, str] = {}
        self.findings: list[PastFinding] = []
        self.taken = 0
        self.restart()

    def restart(self) -> None:
        """Begin another process, which has only the images and provenances."""
        self._past = SecondaryPast(
            self.claims, lambda: [ImageId(txid, self.images[txid]) for txid in sorted(self.images, reverse=True)]
        )

    def _witness(self) -> FinalizedWitness:
        return FinalizedWitness(self._namenode, hasty=self.hasty)

    def _interrupted(self) -> None:
        """Set the NameNode back between two steps, with the probability `hasty`."""
        if self._namenode.random.random() < self.hasty:
            self._namenode.set_back()
            self._namenode.write(self._namenode.random.randint(0, 10))

    def _set_aside(self, finding: PastFinding) -> None:
        self.findings.append(finding)
        self.images = {}
        self._past.forget()

    # ---- steps ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Make an image of everything up to a roll; make no image if the NameNode was set back in between."""
        namenode = self._namenode
        if self.images and max(self.images) > namenode.newest:
            self._set_aside(PastFinding.LOST)
        namenode.roll()
        base_txid, ended = max(namenode.images), namenode.newest - 1
        if self.images and max(self.images) > ended - 1:
            self._set_aside(PastFinding.LOST)
        self._interrupted()
        witness = self._witness()
        life = witness.active_life()
        self._leave_lost_past(witness)
        self._interrupted()
        base = self._base(base_txid, witness, life)
        made = None if base is None else self._merged(base, ended)
        if made is None or base is None:
            return
        image, runs = made
        self.images[image.txid] = image.md5
        self._past.made(image, base, runs, life)
        self._past.compare(image, witness)
        if namenode.random.random() < 0.5:
            self.images = {txid: self.images[txid] for txid in sorted(self.images)[-2:]}

    def _leave_lost_past(self, witness: FinalizedWitness) -> None:
        if not self.images:
            return
        newest = ImageId(max(self.images), self.images[max(self.images)])
        if witness.image_md5(newest.txid) == newest.md5:
            return
        verdict = self._past.compare(newest, witness)
        if verdict.lost:
            self._set_aside(verdict.finding)

    def _base(self, txid: int, witness: FinalizedWitness, life: tuple[str, int] | None) -> ImageId | None:
        theirs = self._namenode.images.get(txid)
        if theirs is None:
            return None
        image = ImageId(txid, theirs)
        if self.images.get(txid) != theirs:
            self.images[txid] = theirs
            self._interrupted()
            self._past.fetched(image, life, witness)
        return image

    def _merged(self, base: ImageId, ended: int) -> tuple[ImageId, list[TxnRun]] | None:
        state, txid, runs = base.md5, base.txid, []
        while txid < ended:
            self._interrupted()
            segment = next((each for each in self._namenode.segments if each.first == txid + 1), None)
            if segment is None or segment.in_progress or segment.last > ended:
                return None
            for op in segment.ops:
                state = extend(state, op)
            runs.append(run_of_segment(segment))
            txid = segment.last
        return ImageId(txid, state), runs

    def upload(self) -> None:
        """Offer the newest image if it belongs to the NameNode's current past."""
        if not self.images:
            return
        image = ImageId(max(self.images), self.images[max(self.images)])
        if self._namenode.images.get(image.txid) == image.md5:
            return
        # A set-back during the transfer first stops the NameNode, so that the transfer ends.
        hasty, self.hasty = self.hasty, 0.0
        verdict = self._past.compare(image, self._witness())
        self.hasty = hasty
        if verdict.holds:
            self.taken += self._namenode.take(image)
        elif verdict.lost:
            self._set_aside(verdict.finding)


def run_history(seed: int, steps: int = 60) -> tuple[ModelNamenode, ModelSecondary]:
    """Run a random history; raise LostPastOfferedError if the NameNode receives an image of another past."""
    chance = random.Random(seed)
    namenode = ModelNamenode(chance, telling=chance.choice((0.0, 0.05, 0.5, 1.0)))
    namenode.start()
    secondary = ModelSecondary(namenode)
    for _ in range(steps):
        step = chance.choices(
            ("write", "start", "save", "copy", "set back", "checkpoint", "upload", "restart"),
            (15, 3, 5, 3, 5, 20, 20, 3),
        )[0]
        if step == "write":
            namenode.write(chance.randint(1, 6))
        elif step == "set back":
            namenode.set_back()
        elif step in ("start", "save", "copy"):
            getattr(namenode, step)()
        else:
            getattr(secondary, step)()
    return namenode, secondary


def run_idle_history(seed: int, *, extra: Sequence[int], restarts: bool, steps: int = 60) -> ModelSecondary:
    """Run a history without a set-back and without changes after the first transactions.

    Args:
        extra: number of transactions that the NameNode retains before its oldest image.
        restarts: whether the NameNode is sometimes restarted.
    """
    chance = random.Random(seed)
    namenode = ModelNamenode(chance, telling=1.0, silent=0.0, extra=extra)
    namenode.start()
    namenode.write(3)
    secondary = ModelSecondary(namenode)
    secondary.hasty = 0.0
    secondary.checkpoint()
    for _ in range(steps):
        step = chance.choices(("start", "save", "checkpoint", "upload", "restart"), (2 * restarts, 10, 15, 15, 3))[0]
        if step in ("start", "save"):
            getattr(namenode, step)()
        else:
            getattr(secondary, step)()
    return secondary
