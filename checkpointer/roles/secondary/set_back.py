"""Proof that a secondary's images belong to the NameNode's present past, and the reaction if they do not.

`SecondaryPast` proves images; it performs I/O only through a witness. `PastGuard` replaces lost images: they are not
used any longer, even after a restart, but remain in place until the NameNode's image is stored. A failed fetch or a
kill leaves them there, and the next attempt continues (`checkpointer.storage.lost_pasts`).

The proof depends on the origin of an image:

- Just made: the NameNode has all segments of the image, and the base image. Until this is proven, the image is pending.
- Made by this node earlier: the NameNode has the last segments of the image, which its provenance lists.
- Fetched: the NameNode still has the image.

If an idle NameNode has purged the image that a proof requires, one of two other proofs is sufficient. In the first
proof, the NameNode is still running in the process whose past contained the image. This is sufficient, because a
running process loses its past only if its virtual machine is resumed from an older state. In the second proof, the
NameNode has the segments before the base image, from the last identifying segment on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.proof import (
    PastFinding,
    PastVerdict,
    Witness,
    contradiction,
    prove,
    refuse,
    require_whole,
    runs_ending_at,
    set_back,
)
from checkpointer.set_back.provenance import ProvenanceStore, image_md5
from checkpointer.set_back.start_over import LostPast, unused_images_hint
from checkpointer.storage.usable_images import content_fault
from engine.txn_runs import MAX_HISTORY, ImageId, Provenance, TxnRun
from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from hadoop_common.recurring_fault import Alarm
from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.segment_frames import whole_segments

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _PendingImage:
    """An image that was just made, with all its runs and the provenance of its base image."""

    image: ImageId
    base: ImageId
    runs: tuple[TxnRun, ...]
    below: Provenance | None
    life: tuple[str, int] | None

    def complete(self) -> Provenance:
        """Return the complete provenance."""
        below = () if self.below is None else self.below.history()
        return Provenance(self.runs, self.base, below, self.life)

    def settled(self, life: tuple[str, int] | None) -> Provenance:
        """Return the provenance to store after the proof; `life` is the NameNode's process throughout the proof."""
        return replace(Provenance.over(self.runs, self.base, self.below, life=life), made=True)


@dataclass(eq=False)
class SecondaryPast:
    """The provenances of a secondary's images, and the proof of each image. Only one thread at a time may use it.

    Args:
        held: returns the stored images.
    """

    provenances: ProvenanceStore
    held: Callable[[], Sequence[ImageId]]
    _pending: _PendingImage | None = field(init=False, default=None)

    def fetched(self, image: ImageId, life: tuple[str, int] | None, witness: Witness) -> None:
        """Record an image from the NameNode, whose process was `life` before the fetch."""
        known = self.provenances.of(image.md5)
        if known is None or not known.runs:
            ending: tuple[TxnRun, ...] = ()
            # Without these runs, the image can be proven only while the NameNode has it, or until the NameNode's
            # process ends.
            with suppress(HdfsError, OSError):
                ending = runs_ending_at(image.txid, witness, self._histories(life), most=MAX_HISTORY)
            lasting = _lasting(life, witness)
            self.provenances.add(image.md5, Provenance((), image, () if lasting is None else ending, lasting))

    def _histories(self, life: tuple[str, int] | None) -> dict[int, tuple[TxnRun, ...]]:
        """Return, by txid, the runs before each stored image that belongs to the past of the process `life`."""
        provenances = {image.txid: self.provenances.of(image.md5) for image in self.held()}
        return {
            txid: provenance.history()
            for txid, provenance in provenances.items()
            if provenance is not None and provenance.life == life
        }

    def made(self, image: ImageId, base: ImageId, runs: Sequence[TxnRun], life: tuple[str, int] | None) -> None:
        """Record an image that was made from `base` and `runs`.

        Args:
            life: the NameNode's process, which was already running before the base and the segments were fetched or
                compared.
        """
        self._pending = _PendingImage(image, base, tuple(runs), self.provenances.of(base.md5), life)

    def is_ours(self, image: ImageId) -> bool:
        """Return whether this node made the image."""
        if self._pending is not None and self._pending.image == image:
            return True
        provenance = self.provenances.of(image.md5)
        return provenance is not None and bool(provenance.runs)

    def made_here(self, txid: int, path: Path) -> bool:
        """Return whether this node made the image in a file; False if its digest cannot be read."""
        try:
            return self.is_ours(ImageId(txid, image_md5(path)))
        except HdfsError:
            return False

    def compare(self, image: ImageId, witness: Witness) -> PastVerdict:
        """Compare the provenance of an image with the NameNode's present past."""
        pending = self._pending
        if pending is None or pending.image != image:
            return _prove(self.provenances.of(image.md5) or Provenance((), image), witness)
        verdict = _prove(pending.complete(), witness)
        if verdict.holds:
            self.provenances.add(image.md5, pending.settled(_lasting(pending.life, witness)))
            self._pending = None
        return verdict

    def forget(self) -> None:
        """Forget the images that were set aside, and their provenances."""
        self.provenances.forget()
        self._pending = None


@dataclass(eq=False)
class PastGuard:
    """Guard that replaces a secondary's files of a lost past with the NameNode's image. Only one thread at a time may
    use it.

    Args:
        namenode: name of the NameNode for messages.
        on_start_over: called when the files are no longer used.

    Attributes:
        lost: record of the last time that this node started over; None if it has never started over.
        alarm: while our images are not used, the alarm with its hint; otherwise "".
    """

    namenode: str
    storage: SecondaryStorage
    past: SecondaryPast
    on_start_over: Callable[[], None]
    lost: LostPast | None = field(init=False, default=None)
    alarm: str = field(init=False, default="")
    # why this node must start over, and the folder for its files, until the NameNode's image is stored
    _begun: tuple[str, str] | None = field(init=False, default=None)

    def ahead_of(self, txid: int) -> int | None:
        """Return the txid of our newest undamaged image after `txid`, or None if there is none."""
        ahead = (held.txid for held in self.storage.held_images() if held.txid > txid)
        return next(filter(self.storage.is_whole, ahead), None)

    def copy_made_here(self, txid: int) -> Path | None:
        """Return an intact copy of the image at `txid` if this node made it."""
        made = (path for path in self._copies(txid) if self.past.made_here(txid, path))
        # last, because this reads the whole image
        return next((path for path in made if not content_fault(path)), None)

    def proved_copy(self, txid: int, witness: Witness) -> Path | None:
        """Return an intact copy of the image at `txid` if the image belongs to the NameNode's past."""
        for path in self._copies(txid):
            if not content_fault(path) and self.past.compare(ImageId(txid, image_md5(path)), witness).holds:
                return path
        return None

    def _copies(self, txid: int) -> Iterator[Path]:
        paths = (folder / image_name(txid) for folder in self.storage.image_folders())
        return (path for path in paths if path.is_file())

    def resume(self) -> None:
        """Continue a start-over that a kill or a restart has interrupted, if there is one."""
        begun = self.storage.unfinished_start_over()
        if begun is not None:
            self._begin(begun.cause, begun.parent)

    def start_over(self, verdict: PastVerdict) -> None:
        """Stop using images and edits, as `verdict` requires; `replace` sets them aside."""
        self._begin(verdict.cause(self.namenode), verdict.folder)

    def _begin(self, cause: str, folder: str) -> None:
        where = ", ".join(map(str, self.storage.image_folders())) or "the checkpoint directories"
        self.alarm = Alarm(f"{cause}; the images in {where} are not used", unused_images_hint(folder))
        if not self.storage.is_lost:
            _LOG.warning("%s", self.alarm)
        self._begun = cause, folder
        self.storage.begin_start_over(folder, cause)
        self.on_start_over()

    def replace(self, txid: int, fetch: Callable[[], T]) -> T:
        """Replace our images with the NameNode's image at `txid`, which `fetch` stores; return the result of `fetch`.

        Our images and edits remain until the fetch has succeeded. If they cannot be linked into the folder for the lost
        past before, nothing is fetched.

        Raises:
            StorageError: no directory is left for images or for edits.
        """
        assert self._begun is not None, "this node does not start over"
        cause, folder = self._begun
        self.storage.link_aside(folder, cause)
        fetched = fetch()
        self.lost = LostPast.of(cause, self.storage.finish_start_over(keep_txid=txid))
        self._begun, self.alarm = None, ""
        _LOG.warning("%s; %s", self.lost.reason, self.lost.sentence())
        self.past.forget()
        return fetched

    def leave_lost_past(self, witness: Witness, logs: Sequence[RemoteEditLog], *, if_not_compared: bool = True) -> None:
        """If the NameNode was set back, start over, so that the node neither serves its state nor treats it as current.

        Args:
            if_not_compared: whether to also leave a state that can never be compared again.
        """
        if self.storage.is_lost:
            return
        for newest in (*self.storage.held_images(), None):
            verdict = self._lost_by(newest, witness, logs)
            if verdict is None or (verdict.finding is PastFinding.SILENT and not if_not_compared):
                return
            # A damaged file proves nothing, but the previous image may prove the loss.
            if newest is None or self.storage.is_whole(newest.txid):
                self.start_over(verdict)
                return

    def confirm(self, image: Path, txid: int, witness: Witness) -> None:
        """Check immediately before an upload that an image belongs to the NameNode's present past.

        Raises:
            StorageError: the image does not belong to that past and is no longer used, or is damaged.
            TransferError: the check cannot be completed now.
        """
        verdict = self.past.compare(ImageId(txid, image_md5(image)), witness)
        if verdict.holds:
            return
        if verdict.lost:
            require_whole(image, txid)
            self.start_over(verdict)
        refuse(verdict, txid, self.namenode)

    def _lost_by(self, newest: ImageId | None, witness: Witness, logs: Sequence[RemoteEditLog]) -> PastVerdict | None:
        """Return the proof that our newest image does not belong to the NameNode's past, or None if there is none."""
        txid, local = -1 if newest is None else newest.txid, self.storage.segments()
        problem = contradiction(txid, local, logs)
        if problem:
            # an invalid segment file proves nothing
            problem = contradiction(txid, whole_segments(local), logs)
        if problem:
            return set_back(problem)
        if newest is None or witness.image_md5(newest.txid) == newest.md5:
            return None
        verdict = self.past.compare(newest, witness)
        return verdict if verdict.lost else None


def _lasting(life: tuple[str, int] | None, witness: Witness) -> tuple[str, int] | None:
    """Return `life` if it is still the NameNode's process, so that everything read since belongs to its past; otherwise
    None.
    """
    return life if life is not None and witness.active_life() == life else None


def _prove(provenance: Provenance, witness: Witness) -> PastVerdict:
    base = provenance.base

    def same_life() -> bool:
        return provenance.life is not None and witness.active_life() == provenance.life

    verdict = prove(
        provenance.runs,
        witness,
        based=base is not None,
        images=lambda: () if base is None else (base,),
        alive=same_life,
    )
    if verdict.finding is PastFinding.SILENT and provenance.before:
        return prove((*provenance.before, *provenance.runs), witness, based=False)
    return verdict
