"""Retention rules of an archive, which choose the moments to keep and the objects for them, without I/O.

    all for 7d, daily for 90d, monthly for 5y

`all` keeps every transaction of the given time. `hourly`, `daily`, `weekly`, `monthly` and `yearly` keep one moment of
each period: a base image of the period, which needs no edits, or the period's last transaction if it has no image.
The newest moment of each branch is always kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from archive.catalogue import Catalogue, ImageRecord, Record
from archive.moments import BranchView, chain, moments, newest_moment, reach, view_of
from site_config.archive_settings import Rule


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """Objects to remove, and objects to keep."""

    remove: tuple[Record, ...]
    keep: tuple[Record, ...]

    @property
    def freed(self) -> int:
        return sum(each.stored for each in self.remove)


def plan_prune(
    catalogue: Catalogue, rules: Iterable[Rule], now: int, unusable: Collection[str] = frozenset()
) -> PrunePlan:
    """Choose the objects that the rules do not keep.

    Args:
        now: time in ms since the epoch, from which ages are calculated.
        unusable: names of missing or damaged objects, which remain listed, but are not needed for any moment.
    """
    # the use of a record is unknown if its branch is missing
    needed = {each.name for each in catalogue.records if each.branch not in catalogue.branches}
    needed.update(unusable)
    chosen = tuple(rules)
    for branch in catalogue.branches:
        view = view_of(catalogue, branch).without(unusable)
        needed |= _not_restorable_yet(view)
        for base, newest in _last_by_base(view, _kept_moments(view, chosen, now)).items():
            needed.add(base.name)
            needed.update(piece.record.name for piece in chain(view.pieces, base.txid + 1, newest)[0])
    records = catalogue.records
    return PrunePlan(
        tuple(each for each in records if each.name not in needed),
        tuple(each for each in records if each.name in needed),
    )


def _last_by_base(view: BranchView, kept: Iterable[int]) -> dict[ImageRecord, int]:
    """Return, for each image, the last kept moment restored from it, which needs all objects of earlier moments."""
    bases = sorted(view.images, key=lambda each: (each.txid, each.added))
    reached = [reach(view.pieces, each.txid) for each in bases]
    found: dict[ImageRecord, int] = {}
    for txid in kept:
        # choose the image as `plan_restore` does; a moment after a gap has no image, so it needs no objects
        for number in range(bisect_right(bases, txid, key=lambda each: each.txid) - 1, -1, -1):
            if txid <= reached[number]:
                found[bases[number]] = max(found.get(bases[number], 0), txid)
                break
    return found


def _not_restorable_yet(view: BranchView) -> set[str]:
    """Return the edits after the newest moment of a branch, which a later image or segment can make restorable."""
    newest = newest_moment(view)
    return {each.record.name for each in view.pieces if each.last > newest}


def _kept_moments(view: BranchView, rules: Iterable[Rule], now: int) -> Iterator[int]:
    """Yield the transactions of the kept moments; the first and last transactions represent each object."""
    yield from (each.stop - 1 for each in moments(view)[-1:])
    dated = _dated_moments(view)
    for rule in rules:
        oldest = now - rule.age
        if not rule.period:
            yield from (txid for at, txid, _ in dated if at >= oldest)
            continue
        periods: dict[str, tuple[bool, int]] = {}
        for at, txid, is_image in dated:
            if at >= oldest:
                period = datetime.fromtimestamp(at / 1000, UTC).strftime(rule.period)
                periods[period] = max(periods.get(period, (False, 0)), (is_image, txid))
        yield from (txid for _, txid in periods.values())


def _dated_moments(view: BranchView) -> list[tuple[int, int, bool]]:
    """Return (time, txid, whether it is an image) for images and for the first and last transactions of edits.

    Edits without a time receive the time of the preceding edits. An image receives the time of the last edits that it
    contains, or else the first time in the branch.
    """
    dated: list[tuple[int, int, bool]] = []
    times: list[tuple[int, int]] = []
    at = 0
    first = min((each.record.first_time for each in view.pieces if each.record.first_time), default=0)
    for piece in sorted(view.pieces, key=lambda each: each.last):
        at = piece.record.last_time or at or piece.record.added
        times.append((piece.last, at))
        dated += [(at, piece.record.first, False), (at, piece.last, False)]
    for image in view.images:
        before = [time for last, time in times if last <= image.txid]
        dated.append((before[-1] if before else first or image.added, image.txid, True))
    return sorted(dated)
