"""Decides which objects a moment needs; all functions depend only on the catalogue."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from archive.catalogue import EDITS, MAIN, Catalogue, EditsRecord, ImageRecord
from archive.errors import NoSuchMomentError

# the catalogue stores only the names of removed objects
_REMOVED_EDITS = re.compile(rf"{EDITS}/edits_(\d+)-(\d+)-")


@dataclass(frozen=True, slots=True)
class Piece:
    """An object with edits, used up to transaction `last`."""

    record: EditsRecord
    last: int


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The sources of the state after transaction `txid`: the image `base`, and `pieces` with the later transactions.

    `view` is the branch for which the plan was made.
    """

    txid: int
    view: BranchView
    base: ImageRecord
    pieces: tuple[Piece, ...]

    @property
    def transactions(self) -> int:
        return self.txid - self.base.txid


@dataclass(frozen=True, slots=True)
class BranchView:
    """The content of a branch: its records, and the records of its ancestors up to the forks."""

    branch: str
    images: tuple[ImageRecord, ...]
    pieces: tuple[Piece, ...]

    def without(self, names: Collection[str]) -> BranchView:
        """Return the view without these objects."""
        images = tuple(each for each in self.images if each.name not in names)
        return BranchView(self.branch, images, tuple(each for each in self.pieces if each.record.name not in names))

    @property
    def last_txid(self) -> int:
        """The last transaction; 0 for an empty branch."""
        return max([0, *(each.txid for each in self.images), *(each.last for each in self.pieces)])


def histories(catalogue: Catalogue) -> list[str]:
    """Return the names of the branches with transactions that no other branch contains, sorted; `main` if the archive
    is empty.

    A single branch is the NameNode's present history. Only an operator can choose between several branches, because
    clocks differ between hosts, and a NameNode can return to an older history.
    """
    parts = {}
    for name in sorted({each.branch for each in catalogue.records} & catalogue.branches.keys()):
        view = view_of(catalogue, name)
        parts[name] = {*view.images, *view.pieces}
    return [name for name, own in parts.items() if not any(own < other for other in parts.values())] or [MAIN]


def only_history(catalogue: Catalogue) -> str:
    """Return the only branch of `histories`.

    Raises:
        NoSuchMomentError: the archive has several histories.
    """
    first, *others = histories(catalogue)
    if others:
        raise NoSuchMomentError(
            "the archive has several histories, because the NameNode was set back or purged edits before they were "
            f"archived: {', '.join([first, *others])}",
            hint="Specify one of them with --branch; `checkpointer archive list` shows their contents.",
        )
    return first


def view_of(catalogue: Catalogue, branch: str) -> BranchView:
    """Return the content of a branch.

    Raises:
        NoSuchMomentError: the archive has no such branch.
    """
    if branch not in catalogue.branches:
        names = ", ".join(sorted(catalogue.branches))
        raise NoSuchMomentError(f"the archive has no branch {branch!r}", hint=f"Its branches are {names}.")
    limits: dict[str, int | None] = {}
    name, limit = branch, None
    while name in catalogue.branches and name not in limits:
        limits[name] = limit
        step = catalogue.branches[name]
        limit = step.fork if limit is None else min(limit, step.fork)
        name = step.parent
    images = [each for each in catalogue.images if each.branch in limits and _within(each.txid, limits[each.branch])]
    pieces = [
        Piece(each, each.last if (limit := limits[each.branch]) is None else min(each.last, limit))
        for each in catalogue.edits
        if each.branch in limits and _within(each.first, limits[each.branch])
    ]
    return BranchView(branch, tuple(images), tuple(pieces))


def plan_restore(view: BranchView, txid: int) -> RestorePlan:
    """Choose the newest base image that edits without a gap connect to `txid`.

    Raises:
        NoSuchMomentError: no such image exists; the error names the missing transactions, or the nearest moments.
    """
    bases = sorted(
        (each for each in view.images if each.txid <= txid), key=lambda each: (each.txid, each.added), reverse=True
    )
    missing = None
    for base in bases:
        pieces, gap = chain(view.pieces, base.txid + 1, txid)
        if gap is None:
            return RestorePlan(txid, view, base, tuple(pieces))
        missing = missing or gap
    what = f"transaction {missing} is missing" if missing else "its oldest image is newer"
    raise NoSuchMomentError(
        f"the archive cannot restore transaction {txid} of branch {view.branch}: {what}",
        hint=f"It can restore {_ranges_text(moments(view))}." if view.images else "The archive has no image yet.",
    )


def chain(pieces: Iterable[Piece], first: int, last: int) -> tuple[list[Piece], int | None]:
    """Return pieces that contain `first` to `last` without a gap, and the first missing transaction or None."""
    chosen: list[Piece] = []
    ordered = deque(sorted(pieces, key=lambda each: each.record.first))
    best: Piece | None = None
    expected = first
    while expected <= last:
        while ordered and ordered[0].record.first <= expected:
            each = ordered.popleft()
            if best is None or (each.last, each.record.finalized) > (best.last, best.record.finalized):
                best = each
        if best is None or best.last < expected:
            return chosen, expected
        end = min(best.last, last)
        chosen.append(Piece(best.record, end))
        expected = end + 1
    return chosen, None


def moments(view: BranchView) -> list[range]:
    """Return the transactions that can be restored, as ranges in order."""
    ranges: list[range] = []
    for image in view.images:
        if ranges and image.txid in ranges[-1]:
            continue
        ranges.append(range(image.txid, reach(view.pieces, image.txid) + 1))
    return ranges


def newest_moment(view: BranchView) -> int:
    """Return the newest transaction that can be restored; -1 if the view has no image."""
    return max((each.stop - 1 for each in moments(view)), default=-1)


def covering_base(view: BranchView, txid: int) -> RestorePlan | None:
    """Return the plan for `txid`, or None if it cannot be restored."""
    try:
        return plan_restore(view, txid)
    except NoSuchMomentError:
        return None


def reach(pieces: Sequence[Piece], txid: int) -> int:
    """Return the last transaction that edits without a gap connect to an image at `txid`."""
    reached = txid
    for piece in sorted(pieces, key=lambda each: each.record.first):
        if piece.record.first <= reached + 1 <= piece.last:
            reached = piece.last
    return reached


def removed_edits(catalogue: Catalogue) -> set[tuple[int, int]]:
    """Return the first and the last transaction of each finalized segment that was removed."""
    found = (_REMOVED_EDITS.search(name) for name in catalogue.removed)
    return {(int(each[1]), int(each[2])) for each in found if each is not None}


def superseded_parts(edits: Sequence[EditsRecord]) -> list[str]:
    """Return the names of parts that are within a finalized segment or a longer part of their branch."""
    names = []
    for branch in {each.branch for each in edits if not each.finalized}:
        own = sorted(
            (each for each in edits if each.branch == branch),
            key=lambda each: (each.first, -each.last, not each.finalized),
        )
        reached, ends = 0, [0]
        for each in own:
            reached = max(reached, each.last)
            ends.append(reached)
        for number, each in enumerate(own):
            if not each.finalized and each.last <= ends[number]:
                names.append(each.name)
    return names


def growing_parts(view: BranchView) -> list[str]:
    """Return the names of the parts that a later part or the finalized segment will soon supersede."""
    parts = [each.record.name for each in view.pieces if not each.record.finalized]
    superseded = superseded_parts([each.record for each in view.pieces]) if parts else []
    return [name for name in parts if name not in superseded]


def missing_edits(catalogue: Catalogue, branch: str) -> list[range]:
    """Return the transactions between a branch's first and last transaction that were never archived, in order.

    Removed objects do not count as missing, because retention rules did not need them.
    """
    return lacking_edits(view_of(catalogue, branch), removed_edits(catalogue))


def lacking_edits(view: BranchView, removed: Collection[tuple[int, int]] = ()) -> list[range]:
    """Return the transactions between the first and the last transaction that no edits contain, in order.

    `removed` contains the first and last transactions of removed edits, which count as present.
    """
    have = [(each.record.first, each.last) for each in view.pieces]
    start = min([each for each, _ in have] + [each.txid + 1 for each in view.images], default=view.last_txid + 1)
    missing = []
    # removed edits that begin after the last transaction belong to a cluster that was moved to another archive
    earlier = [each for each in removed if each[0] <= view.last_txid]
    for first, last in [*sorted([*have, *earlier]), (view.last_txid + 1, 0)]:
        if first > start:
            missing.append(range(start, first))
        start = max(start, last + 1)
    return missing


def _within(txid: int, limit: int | None) -> bool:
    return limit is None or txid <= limit


def _ranges_text(ranges: Sequence[range]) -> str:
    def texts() -> Iterator[str]:
        for each in ranges:
            yield f"{each.start} to {each.stop - 1}" if len(each) > 1 else f"{each.start}"

    return ", ".join(texts())
