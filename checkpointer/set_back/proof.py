"""Proof that applied transactions belong to the NameNode's present past, by comparison with the transactions of a
witness.

docs/lost-past.md explains the theory. In short, one writer writes a segment without interruption. Therefore, if two
segments have the same first transactions, and one of these transactions is identifying, the segments are equal in all
transactions that both contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NoReturn, Protocol

from checkpointer.errors import TransferError
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED
from checkpointer.storage.usable_images import content_fault
from engine.txn_runs import ImageId, RunOpening, TxnRun, run_of_segment
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.errors import is_damage
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment


class PastFinding(Enum):
    """Result of a comparison.

    HOLDS: our state belongs to the present past. LOST: our state does not belong to it. SILENT: the remaining evidence
    cannot decide, now or later. UNKNOWN: a comparison is impossible now.
    """

    HOLDS = "holds"
    LOST = "lost"
    SILENT = "silent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PastVerdict:
    """A finding and its reason.

    Attributes:
        image: our image that the NameNode also has; None if no image was compared.
        hasty: whether LOST or SILENT may be temporary. A NameNode counts a transaction only when all its journals have
            stored the transaction, but we may read it earlier from one journal. A segment may only seem damaged.
        damaged_to: last transaction of the damaged segment that causes UNKNOWN; None if no segment is damaged. Only an
            image or the NameNode's process can then prove the past.
    """

    finding: PastFinding
    reason: str = ""
    image: ImageId | None = None
    hasty: bool = False
    damaged_to: int | None = None

    @property
    def damaged(self) -> bool:
        """Whether a damaged segment makes the comparison impossible."""
        return self.damaged_to is not None

    @property
    def holds(self) -> bool:
        return self.finding is PastFinding.HOLDS

    @property
    def lost(self) -> bool:
        """Whether the node must start over, because its state is lost or can never be proven."""
        return self.finding in (PastFinding.LOST, PastFinding.SILENT)

    @property
    def folder(self) -> str:
        """Folder in each storage directory for a state that this verdict sets aside."""
        return NOT_COMPARED if self.finding is PastFinding.SILENT else LOST_PAST

    def cause(self, namenode: str) -> str:
        """Return a sentence about the reason why a node of `namenode` starts over."""
        if self.finding is PastFinding.SILENT:
            return f"this node's state cannot be compared with {namenode} any longer: {self.reason}"
        return f"{namenode} was set back: {self.reason}"


class Witness(Protocol):
    """A source of facts about the NameNode's present past: the journal and the NameNode."""

    def segments(self, from_txid: int) -> Sequence[ReadableSegment]:
        """Return the segments that end at `from_txid` or later, by first txid, including the open segment if it can be
        read.

        Raises:
            HdfsError, OSError: the segments cannot be read now.
        """

    def newest(self) -> int | None:
        """Return the NameNode's newest transaction, or None if unknown now."""

    def image_md5(self, txid: int) -> str | None:
        """Return the hexadecimal MD5 of the NameNode's image at `txid`, "" if the image is missing, or None if unknown
        now.
        """

    def lives(self) -> Mapping[str, int]:
        """Return the start times of the NameNodes' processes by address; omit NameNodes that do not report a start
        time.
        """

    def active_life(self) -> tuple[str, int] | None:
        """Return the active NameNode's address and the start time of its process; None if they are unknown."""


DAMAGE_HINT: Final = (
    'Restore the segment from an intact copy: docs/runbook.md, "Gap in the edits". After `namenode -recover`, see '
    '"Restore, rollback or a second NameNode with the same ids" there.'
)
_HOLDS = PastVerdict(PastFinding.HOLDS)
_PURGED = PastVerdict(PastFinding.SILENT, "the edits from which it was made were purged")


def prove(
    runs: Sequence[TxnRun],
    witness: Witness,
    *,
    based: bool,
    images: Callable[[], Sequence[ImageId]] = tuple,
    deep: bool = True,
    same_process: Callable[[ImageId], bool] = lambda image: False,
    alive: Callable[[], bool] = lambda: False,
) -> PastVerdict:
    """Compare the applied transactions with the transactions of `witness`.

    Args:
        runs: applied runs to compare, in order; unless `based`, an identifying run before them has already been
            compared.
        based: whether no compared run precedes `runs`, so that the image below them must also be compared.
        images: returns our images at the end of a run or between runs, newest first. If transactions cannot decide, an
            image that the NameNode also has proves all earlier transactions.
        deep: whether to compare contents; if False, compare only the bounds of segments.
        same_process: returns whether the past of the active NameNode's process is known to contain an image. `prove`
            assumes that the NameNode has this image.
        alive: returns whether the active NameNode's process was already running when the past was last proven. In this
            case, edits that have been purged since then need no comparison.
    """
    try:
        found = [_compare(run, witness, deep=deep) for run in _pair(runs, witness)]
        held = images() if deep else ()
    except (HdfsError, OSError) as fault:
        return PastVerdict(PastFinding.UNKNOWN, f"edits and images cannot be compared: {error_text(fault)}")
    for verdict in found:
        if verdict.finding is PastFinding.LOST or (verdict.finding is PastFinding.UNKNOWN and not verdict.damaged):
            return verdict
    if not deep:
        return _HOLDS
    all_hold = all(verdict.holds for verdict in found)
    if all_hold and not based and any(run.identifying for run in runs):
        return _HOLDS
    for image in held:
        if runs and image.txid < runs[0].first - 1:
            break
        if runs and image.txid > runs[-1].last:
            # This image does not show which transactions were applied. If the image was damaged, an older image was
            # loaded.
            continue
        behind = [verdict for run, verdict in zip(runs, found, strict=True) if run.last > image.txid]
        if not all(verdict.holds for verdict in behind):
            break
        digest = image.md5 if same_process(image) else witness.image_md5(image.txid)
        if digest is None:
            return PastVerdict(
                PastFinding.UNKNOWN, f"it is not known whether the NameNode has the image at txid {image.txid}"
            )
        if digest == image.md5:
            return PastVerdict(PastFinding.HOLDS, image=image)
    if alive():
        return _HOLDS
    for verdict in reversed(found):
        if verdict.damaged:
            return verdict
    reason = next(
        (each.reason for each in found if each.reason), "the later edits contain no change that proves the image"
    )
    return PastVerdict(PastFinding.SILENT, f"{reason}, and the NameNode lacks the image that precedes them")


def runs_ending_at(
    txid: int, witness: Witness, known: Mapping[int, tuple[TxnRun, ...]], *, most: int
) -> tuple[TxnRun, ...]:
    """Return the runs of the NameNode's edits up to `txid`, from the last identifying run on; the result is empty if no
    run is identifying.

    Args:
        known: runs that the function does not have to read, by the txid at which they end.
        most: maximum number of segments to read.

    Raises:
        HdfsError, OSError: the segments cannot be read.
    """
    found: list[TxnRun] = []
    for segment in reversed(witness.segments(1)) if txid > 0 else ():
        if segment.in_progress or segment.last != txid:
            continue
        if below := known.get(txid):
            return (*below, *reversed(found))
        found.append(run_of_segment(segment))
        if found[-1].identifying:
            return tuple(reversed(found))
        if len(found) == most:
            break
        txid = segment.first - 1
    return ()


def refuse(verdict: PastVerdict, txid: int, witness: str) -> NoReturn:
    """Refuse to offer the image at `txid`, because `witness` does not prove that it belongs to the present past.

    Raises:
        StorageError: the image does not belong to the present past.
        TransferError: the check is impossible now.
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
        hint=DAMAGE_HINT
        if verdict.damaged
        else "The daemon offers the image once the check is possible again. Check that a NameNode is up.",
    )


def require_whole(image: Path, txid: int) -> None:
    """Check an unproven image for damage, because a damaged file proves nothing about the past.

    Raises:
        StorageError: the content does not match the digest in the image's `.md5` file.
    """
    if fault := content_fault(image):
        raise StorageError(
            f"the image at txid {txid} is damaged and is not offered: {fault}",
            hint="No action is needed: the next checkpoint makes another image. Check the disk with the damaged image.",
        )


@dataclass(frozen=True, slots=True)
class _RunInWitness:
    """A run together with the segments of the witness."""

    run: TxnRun
    present: Sequence[ReadableSegment]


def _pair(runs: Sequence[TxnRun], witness: Witness) -> Sequence[_RunInWitness]:
    if not runs:
        return ()
    present = witness.segments(runs[0].first)
    return [_RunInWitness(run, present) for run in runs]


def _compare(case: _RunInWitness, witness: Witness, *, deep: bool) -> PastVerdict:
    run = case.run
    holding = [each for each in case.present if each.first <= run.first <= each.last]
    if not holding:
        return _missing(case, witness, deep=deep)
    segment = max(holding, key=lambda each: (each.last, not each.in_progress))
    if run.starts and segment.first != run.first:
        return set_back(f"a segment began at {run.first}, which is now in the middle of {_range(segment)}")
    if segment.last < run.last:
        if not segment.in_progress:
            return set_back(f"transactions up to {run.last} were applied, but their segment now ends at {segment.last}")
        verdict = _beyond(run, witness)
        if not verdict.holds:
            return verdict
    if run.ends and not segment.in_progress and segment.last != run.last:
        return set_back(f"a segment ended at {run.last}, which is now in the middle of {_range(segment)}")
    return _same_opening(run, segment, witness) if deep else _HOLDS


def _missing(case: _RunInWitness, witness: Witness, *, deep: bool) -> PastVerdict:
    """Compare a run whose first transaction is not in any segment of the witness."""
    run = case.run
    if any(each.first <= run.last for each in case.present if each.first > run.first):
        return set_back(f"transactions {run.first} to {run.last} are now in other segments")
    if case.present and case.present[0].first > run.first:
        return _PURGED
    if not deep and not run.ends:
        # The run belongs to the open segment, which a comparison of bounds does not read.
        return _HOLDS
    verdict = _beyond(run, witness)
    if not verdict.holds or _only_begins(case, witness):
        return verdict
    return _not_there_yet(run.first)


def _only_begins(case: _RunInWitness, witness: Witness) -> bool:
    """Return whether the run consists only of START_LOG_SEGMENT after a finalized segment.

    START_LOG_SEGMENT follows every finalized segment. JournalNodes return it only after the next transaction, which
    marks it as committed.
    """
    run = case.run
    if not run.starts or run.ends or not 1 < run.first == run.last:
        return False
    ends = {each.last for each in case.present if not each.in_progress}
    return run.first - 1 in ends or any(
        each.last == run.first - 1 and not each.in_progress for each in witness.segments(run.first - 1)
    )


def _beyond(run: TxnRun, witness: Witness) -> PastVerdict:
    """Determine whether the NameNode has a run's transactions that are missing from the witness's segments."""
    newest = witness.newest()
    if newest is None:
        return PastVerdict(
            PastFinding.UNKNOWN,
            f"transactions up to {run.last} were applied, but no active NameNode confirms that it has them",
        )
    if newest < run.last:
        reason = f"transactions up to {run.last} were applied, but the edits end at {newest}"
        return PastVerdict(PastFinding.LOST, reason, hasty=not run.ends)
    return _HOLDS


def _not_there_yet(txid: int) -> PastVerdict:
    return PastVerdict(PastFinding.UNKNOWN, f"transaction {txid} cannot be read, although the NameNode has written it")


def _same_opening(run: TxnRun, segment: ReadableSegment, witness: Witness) -> PastVerdict:
    opening = RunOpening()
    try:
        for op in segment.read(run.first):
            if op.txid > run.opening_end:
                break
            opening.take(op)
    except (HdfsError, OSError) as fault:
        reason = f"{segment.name} cannot be compared: {error_text(fault)}"
        damaged_to = segment.last if is_damage(fault) and not segment.in_progress else None
        return PastVerdict(PastFinding.UNKNOWN, reason, damaged_to=damaged_to)
    if opening.opening_end < run.opening_end:
        verdict = _beyond(run, witness)
        return verdict if not verdict.holds else _not_there_yet(run.opening_end)
    if opening.digest != run.digest:
        return set_back(f"the transactions from {run.first} on are now different, in {_range(segment)}")
    return _HOLDS


def set_back(reason: str) -> PastVerdict:
    """Return the verdict that the NameNode was set back, which `reason` proves."""
    return PastVerdict(PastFinding.LOST, reason)


def _range(segment: ReadableSegment) -> str:
    return f"the segment {segment.first}-{'in progress' if segment.in_progress else segment.last}"


def contradiction(image_txid: int, local: Iterable[EditLogSegment], logs: Iterable[RemoteEditLog]) -> str:
    """Describe our first image or segment that cannot belong to the past of the NameNode's `logs`; "" if there is none.

    Our finalized segment may be the beginning of the NameNode's segment. Segments that the NameNode has purged prove
    nothing.
    """
    theirs = [log for log in logs if not log.in_progress]
    for log in theirs:
        if log.first <= image_txid < log.last:
            return f"our image at txid {image_txid} falls inside the NameNode's segment {log.first}-{log.last}"
    by_first = {log.first: log for log in theirs}
    bounds = sorted(by_first)
    for segment in local:
        if segment.last is None or not bounds or segment.last < bounds[0] or segment.first > by_first[bounds[-1]].last:
            continue
        same = by_first.get(segment.first)
        if same is None or same.last < segment.last:
            return f"our segment {segment.first}-{segment.last} is not one of the NameNode's segments"
    return ""
