"""Retention of images and edits (NNStorageRetentionManager): a plan without I/O, and its execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checkpointer.storage.inspector import StoredImage, list_images, list_segment_files
from checkpointer.storage.usable_images import usable_images
from hadoop_common.names import md5_name
from journal.segment_file import EditLogSegment


class Extent(Protocol):
    """Transactions `first` to `last` of a segment; `last` is None for a segment in progress."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Deletion:
    """Files to delete together in this order, and the reason."""

    paths: tuple[Path, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The files that may be deleted.

    Attributes:
        oldest_image_txid: txid of the oldest kept image, 0 if there are no images.
        purge_from: edits before this txid are not needed.
    """

    oldest_image_txid: int
    purge_from: int
    deletions: tuple[Deletion, ...]


def plan_retention(
    images: Sequence[StoredImage],
    segments: Sequence[EditLogSegment],
    keep: int,
    extra_edits: int,
    max_segments: int,
    *,
    rollback: bool = False,
) -> RetentionPlan:
    """Plan to keep the images at the `keep` newest txids, the edits after the oldest of these images, and some earlier
    edits.

    The end of a segment in progress is unknown, and the newest segment in progress may be open. Therefore, the plan
    deletes a segment in progress only if a later segment begins at or before `purge_from`.

    Args:
        images: images of all directories.
        segments: segments of all directories.
        keep: number of image txids to keep, at least 1.
        extra_edits: number of transactions to keep before the oldest kept image.
        max_segments: limit on the number of segments with these extra transactions.
        rollback: whether to plan for rollback images instead of ordinary images. Rollback images do not determine the
            needed edits, so this plan deletes no segments.
    """
    if keep < 1:
        raise ValueError("at least one image must be kept")
    chosen = [image for image in images if image.rollback == rollback]
    newest_first = sorted({image.txid for image in chosen}, reverse=True)
    oldest = newest_first[min(keep, len(newest_first)) - 1] if newest_first else 0
    deletions = [
        Deletion(
            (image.path, image.path.with_name(md5_name(image.path.name))),
            f"image {image.txid} is older than the oldest image to keep, {oldest}",
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
    """Return the first txid to keep: `extra_edits` before `required`, but at most `max_segments` extra segments."""
    purge_from = max(0, required - extra_edits)
    ends: dict[int, int] = {}
    for each in segments:
        if each.last is not None and each.last >= purge_from and each.first < required:
            ends[each.first] = max(each.last, ends.get(each.first, 0))
    for first in sorted(ends)[: max(0, len(ends) - max_segments)]:
        purge_from = max(purge_from, ends[first] + 1)
    # a segment that contains the image's txid would move the limit beyond this txid
    return min(purge_from, required)


def apply_plan(plan: RetentionPlan) -> list[str]:
    """Delete the plan's files; return a warning for each failure, which the next run retries."""
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
    """Plan and apply the retention of `current` folders; return warnings.

    Ignore unusable files with the name of an image. A folder that cannot be listed causes a warning; if it is an image
    folder, do not delete edits.
    """
    warnings: list[str] = []
    images: list[StoredImage] = []
    segments: list[EditLogSegment] = []
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


def _is_before(segment: EditLogSegment, purge_from: int, segments: Sequence[EditLogSegment]) -> bool:
    if segment.last is not None:
        return segment.first < purge_from and segment.last < purge_from
    return any(segment.first < other.first <= purge_from for other in segments)


def _unreadable(folder: Path, fault: OSError) -> str:
    return f"{folder} could not be listed, so its files were not purged: {fault.strerror or fault}"
