"""Which old images and edits may go (NNStorageRetentionManager): a plan without I/O, and its execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checkpointer.storage.fitness import usable_images
from checkpointer.storage.inspector import SegmentFile, StoredImage, list_images, list_segment_files
from hadoop_common.names import md5_name


class Extent(Protocol):
    """Transactions `first` to `last` of a segment; `last` is None while it is in progress."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Deletion:
    """Files that go together, in this order, and why."""

    paths: tuple[Path, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What may be deleted.

    Attributes:
        oldest_image_txid: of the oldest image that stays, 0 without images.
        purge_from: edits before this txid are not needed.
    """

    oldest_image_txid: int
    purge_from: int
    deletions: tuple[Deletion, ...]


def plan_retention(
    images: Sequence[StoredImage],
    segments: Sequence[SegmentFile],
    keep: int,
    extra_edits: int,
    max_segments: int,
    *,
    rollback: bool = False,
) -> RetentionPlan:
    """Keep the `keep` newest image txids, the edits after the oldest of them, and some edits before it.

    Args:
        images: of all directories; those of the other type than `rollback` says are left alone.
        segments: of all directories.
        keep: image txids to keep, at least 1.
        extra_edits: transactions to keep before the oldest kept image.
        max_segments: limit on the segments that hold such extra transactions.
        rollback: retain rollback images; they say nothing about edits, so no segment goes.

    An in-progress segment goes only where a later segment starts at or before `purge_from`: its own end is not
    known, and the newest one may be open.
    """
    if keep < 1:
        raise ValueError("at least one image must be kept")
    chosen = [image for image in images if image.rollback == rollback]
    newest_first = sorted({image.txid for image in chosen}, reverse=True)
    oldest = newest_first[min(keep, len(newest_first)) - 1] if newest_first else 0
    deletions = [
        Deletion(
            (image.path, image.path.with_name(md5_name(image.path.name))),
            f"image {image.txid} is older than the oldest one to keep, {oldest}",
        )
        for image in chosen
        if image.txid < oldest
    ]
    if rollback:
        return RetentionPlan(oldest, 0, tuple(deletions))
    purge_from = edits_needed_from(segments, oldest + 1, extra_edits, max_segments)
    deletions += [
        Deletion((each.path,), f"all of its transactions are before txid {purge_from}")
        for each in segments
        if _is_before(each, purge_from, segments)
    ]
    return RetentionPlan(oldest, purge_from, tuple(deletions))


def edits_needed_from(segments: Sequence[Extent], required: int, extra_edits: int, max_segments: int) -> int:
    """First txid to keep: `extra_edits` before `required`, later where that takes more than `max_segments`."""
    purge_from = max(0, required - extra_edits)
    ends: dict[int, int] = {}
    for each in segments:
        if each.last is not None and each.last >= purge_from and each.first < required:
            ends[each.first] = max(each.last, ends.get(each.first, 0))
    for first in sorted(ends)[: max(0, len(ends) - max_segments)]:
        purge_from = max(purge_from, ends[first] + 1)
    # a segment across the image's txid would carry the limit beyond it
    return min(purge_from, required)


def apply_plan(plan: RetentionPlan) -> list[str]:
    """Delete what the plan names; what cannot be deleted is returned as warnings and tried again next time."""
    warnings = []
    for deletion in plan.deletions:
        try:
            for path in deletion.paths:
                path.unlink(missing_ok=True)
        except OSError as fault:
            warnings.append(f"{path} could not be deleted ({deletion.reason}): {fault.strerror or fault}")
    return warnings


def enforce_retention(
    image_folders: Sequence[Path],
    edits_folders: Sequence[Path],
    *,
    keep: int,
    extra_edits: int,
    max_segments: int,
    rollback: bool = False,
) -> list[str]:
    """Plan and apply for `current` folders; returns warnings.

    What is named like an image and cannot be used counts for nothing and stays. A folder that cannot be listed is a
    warning too. Edits are left alone where that was an image folder.
    """
    warnings: list[str] = []
    images: list[StoredImage] = []
    segments: list[SegmentFile] = []
    for folder in image_folders:
        try:
            images += usable_images(list_images(folder))
        except OSError as fault:
            warnings.append(_unreadable(folder, fault))
    for folder in () if warnings else edits_folders:
        try:
            segments += list_segment_files(folder)
        except OSError as fault:
            warnings.append(_unreadable(folder, fault))
    plan = plan_retention(images, segments, keep, extra_edits, max_segments, rollback=rollback)
    return warnings + apply_plan(plan)


def _is_before(segment: SegmentFile, purge_from: int, segments: Sequence[SegmentFile]) -> bool:
    if segment.last is not None:
        return segment.first < purge_from and segment.last < purge_from
    return any(segment.first < other.first <= purge_from for other in segments)


def _unreadable(folder: Path, fault: OSError) -> str:
    return f"{folder} could not be listed, so nothing in it was purged: {fault.strerror or fault}"
