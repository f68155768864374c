"""Whether runs that were applied are of the NameNode's past as it is now; reads through a witness.

The theory is in docs/lost-past.md. In short: a segment is written by one writer in one go, so that two segments with
the same first transactions, one of them identifying, are the same as far as both reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NoReturn, Protocol

from checkpointer.errors import TransferError
from checkpointer.storage.fitness import content_fault
from engine.txn_runs import ImageId, RunOpening, TxnRun
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import told
from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment


class PastFinding(Enum):
    """What a comparison came to.

    HOLDS: what we stand on is of the present past. LOST: it is not. SILENT: nothing that is left tells, and nothing
    will. UNKNOWN: it could not be compared now.
    """

    HOLDS = "holds"
    LOST = "lost"
    SILENT = "silent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PastVerdict:
    """A finding and its reason.

    Attributes:
        image: the one of ours that was found at the NameNode, None where none was asked for.
        hasty: whether LOST may pass: a NameNode counts a transaction when all its journals have it, and one of them
            may be read before.
    """

    finding: PastFinding
    reason: str = ""
    image: ImageId | None = None
    hasty: bool = False

    @property
    def holds(self) -> bool:
        return self.finding is PastFinding.HOLDS

    @property
    def lost(self) -> bool:
        """Whether to start over: what we stand on is lost, or can never be shown not to be."""
        return self.finding in (PastFinding.LOST, PastFinding.SILENT)

    def cause(self, namenode: str) -> str:
        """Return why a node beside `namenode` starts over, as a sentence."""
        if self.finding is PastFinding.SILENT:
            return f"what this node holds cannot be compared with {namenode} any more: {self.reason}"
        return f"{namenode} was set back: {self.reason}"


class Witness(Protocol):
    """Whoever knows the NameNode's past as it is now: its journal, and itself."""

    def segments(self, from_txid: int) -> Sequence[ReadableSegment]:
        """Every segment there is that ends at `from_txid` or later, by first txid, the open one if it can be read.

        Raises:
            HdfsError, OSError: it cannot be told now.
        """

    def newest(self) -> int | None:
        """The NameNode's newest transaction; None where it cannot be told now."""

    def image_md5(self, txid: int) -> str | None:
        """MD5 of the NameNode's image at `txid` in hex, "" where it has none; None where it cannot be told now."""

    def lives(self) -> Mapping[str, int]:
        """When the process of each NameNode began, by its address, as far as they tell."""

    def active_life(self) -> tuple[str, int] | None:
        """Address of the active NameNode, and when its process began; None where that cannot be told."""


_HOLDS = PastVerdict(PastFinding.HOLDS)
_PURGED = PastVerdict(PastFinding.SILENT, "the edits that it was made of were purged")


def prove(
    runs: Sequence[TxnRun],
    witness: Witness,
    *,
    based: bool,
    images: Callable[[], Sequence[ImageId]] = tuple,
    deep: bool = True,
    alive: Callable[[], bool] = lambda: False,
) -> PastVerdict:
    """Compare what was applied with what `witness` has.

    Args:
        runs: what was not compared before, in order, behind an identifying run that was.
        based: whether there is no such run before them, so that the image under them has to be compared too.
        images: images of ours at the runs or among them, the newest first, for where transactions do not tell;
            one of them that the NameNode has shows what is before it.
        deep: False compares the bounds of segments only.
        alive: whether the active NameNode's process is one that lived when the past was found to be its own: then
            what was purged since needs not be compared.
    """
    try:
        found = [_compare(run, witness, deep=deep) for run in _with(runs, witness)]
        held = images() if deep else ()
    except (HdfsError, OSError) as fault:
        return PastVerdict(PastFinding.UNKNOWN, f"edits and images cannot be compared: {told(fault)}")
    for verdict in found:
        if verdict.finding in (PastFinding.LOST, PastFinding.UNKNOWN):
            return verdict
    if not deep:
        return _HOLDS
    whole = all(verdict.holds for verdict in found)
    if whole and not based and any(run.identifying for run in runs):
        return _HOLDS
    for image in held:
        if runs and image.txid < runs[0].first - 1:
            break
        behind = [verdict for run, verdict in zip(runs, found, strict=True) if run.last > image.txid]
        if not all(verdict.holds for verdict in behind):
            break
        digest = witness.image_md5(image.txid)
        if digest is None:
            return PastVerdict(
                PastFinding.UNKNOWN, f"whether the NameNode has the image at txid {image.txid} is not known"
            )
        if digest == image.md5:
            return PastVerdict(PastFinding.HOLDS, image=image)
    if alive():
        return _HOLDS
    reason = next((each.reason for each in found if each.reason), "the edits since hold no change that would show it")
    return PastVerdict(PastFinding.SILENT, f"{reason}, and it does not have the image below them")


def refuse(verdict: PastVerdict, txid: int, witness: str) -> NoReturn:
    """Do not offer the image at `txid`, of which `witness` does not show that it is of the present past.

    Raises:
        StorageError: it is not.
        TransferError: it cannot be told now.
    """
    problem = f"the image at txid {txid} is not offered"
    if verdict.lost and not verdict.hasty:
        raise StorageError(
            f"{problem}: {verdict.cause('the NameNode')}",
            hint="No action is needed: the next check or checkpoint starts from the NameNode's image.",
        )
    raise TransferError(
        witness,
        f"{problem}: {verdict.reason}",
        hint="It will be offered again once this can be determined; check that a NameNode is up.",
    )


def require_whole(image: Path, txid: int) -> None:
    """Check an image that nothing shows to be of the present past: a damaged file says nothing about the past.

    Raises:
        StorageError: its content does not have the digest that its `.md5` file names.
    """
    if fault := content_fault(image):
        raise StorageError(
            f"the image at txid {txid} is not offered, it is damaged: {fault}",
            hint="No action is needed: the next checkpoint makes another image. Check the disk that holds this one.",
        )


@dataclass(frozen=True, slots=True)
class _Case:
    """A run, and the segments that the witness has."""

    run: TxnRun
    present: Sequence[ReadableSegment]


def _with(runs: Sequence[TxnRun], witness: Witness) -> Sequence[_Case]:
    if not runs:
        return ()
    present = witness.segments(runs[0].first)
    return [_Case(run, present) for run in runs]


def _compare(case: _Case, witness: Witness, *, deep: bool) -> PastVerdict:
    run = case.run
    holding = [each for each in case.present if each.first <= run.first <= each.last]
    if not holding:
        return _missing(case, witness, deep=deep)
    segment = max(holding, key=lambda each: (each.last, not each.in_progress))
    if run.starts and segment.first != run.first:
        return set_back(f"a segment began at {run.first}, which is in the middle of {_range(segment)} now")
    if segment.last < run.last:
        if not segment.in_progress:
            return set_back(f"transactions to {run.last} were applied, and their segment ends at {segment.last} now")
        verdict = _beyond(run, witness)
        if not verdict.holds:
            return verdict
    if run.ends and not segment.in_progress and segment.last != run.last:
        return set_back(f"a segment ended at {run.last}, which is in the middle of {_range(segment)} now")
    return _same_opening(run, segment, witness) if deep else _HOLDS


def _missing(case: _Case, witness: Witness, *, deep: bool) -> PastVerdict:
    """No segment holds the beginning of the run."""
    run = case.run
    if any(each.first <= run.last for each in case.present if each.first > run.first):
        return set_back(f"transactions {run.first} to {run.last} are in other segments now")
    if case.present and case.present[0].first > run.first:
        return _PURGED
    if not deep and not run.ends:
        # In the open segment, which is not read only to see that.
        return _HOLDS
    verdict = _beyond(run, witness)
    if not verdict.holds or _only_begins(case, witness):
        return verdict
    return _not_there_yet(run.first)


def _only_begins(case: _Case, witness: Witness) -> bool:
    """Whether the run is nothing but START_LOG_SEGMENT behind a finalized segment.

    What comes after a finalized segment is that, whatever becomes of the next one. JournalNodes do not show it before
    they know that it is committed, which the transaction after it tells them.
    """
    run = case.run
    if not run.starts or run.ends or not 1 < run.first == run.last:
        return False
    ends = {each.last for each in case.present if not each.in_progress}
    return run.first - 1 in ends or any(
        each.last == run.first - 1 and not each.in_progress for each in witness.segments(run.first - 1)
    )


def _beyond(run: TxnRun, witness: Witness) -> PastVerdict:
    """Transactions of ours are not there; whether the NameNode has them all the same."""
    newest = witness.newest()
    if newest is None:
        return PastVerdict(
            PastFinding.UNKNOWN, f"transactions to {run.last} were applied, and no active NameNode says it has them"
        )
    if newest < run.last:
        reason = f"transactions to {run.last} were applied, but the edits end at {newest}"
        return PastVerdict(PastFinding.LOST, reason, hasty=not run.ends)
    return _HOLDS


def _not_there_yet(txid: int) -> PastVerdict:
    return PastVerdict(PastFinding.UNKNOWN, f"transaction {txid} cannot be read, although the NameNode is further")


def _same_opening(run: TxnRun, segment: ReadableSegment, witness: Witness) -> PastVerdict:
    opening = RunOpening()
    try:
        for op in segment.read(run.first):
            if op.txid > run.opening_end:
                break
            opening.take(op)
    except (HdfsError, OSError) as fault:
        return PastVerdict(PastFinding.UNKNOWN, f"{segment.name} cannot be compared: {told(fault)}")
    if opening.opening_end < run.opening_end:
        verdict = _beyond(run, witness)
        return verdict if not verdict.holds else _not_there_yet(run.opening_end)
    if opening.digest != run.digest:
        return set_back(f"the transactions from {run.first} on are different now, in {_range(segment)}")
    return _HOLDS


def set_back(reason: str) -> PastVerdict:
    """The NameNode was set back, as `reason` shows."""
    return PastVerdict(PastFinding.LOST, reason)


def _range(segment: ReadableSegment) -> str:
    return f"the segment {segment.first}-{'in progress' if segment.in_progress else segment.last}"


def contradiction(image_txid: int, local: Iterable[EditLogSegment], logs: Iterable[RemoteEditLog]) -> str:
    """What of ours cannot be of the past that the NameNode's `logs` tell, "" where nothing is found.

    A finalized segment of ours may be the beginning of the NameNode's. What it has no edits of any more says nothing.
    """
    theirs = [log for log in logs if not log.in_progress]
    for log in theirs:
        if log.first <= image_txid < log.last:
            return f"our image at txid {image_txid} is in the middle of its segment {log.first}-{log.last}"
    by_first = {log.first: log for log in theirs}
    bounds = sorted(by_first)
    for segment in local:
        if segment.last is None or not bounds or segment.last < bounds[0] or segment.first > by_first[bounds[-1]].last:
            continue
        same = by_first.get(segment.first)
        if same is None or same.last < segment.last:
            return f"our segment {segment.first}-{segment.last} is not one of its segments"
    return ""
