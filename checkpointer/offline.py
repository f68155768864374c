"""The offline merge of one storage directory: what to merge, decided from its files, and the merge itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkpointer.merge import MergeResult, Observer, merge
from checkpointer.storage.inspector import check_covered, inspect, newest_image
from image_format.reader import ImageFile
from journal.segment_file import EditLogSegment, list_segments, read_transactions, select_segments

__all__ = ["MergePlan", "check_image", "merge_directory", "plan_directory"]


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge of one directory would read and make.

    Attributes:
        image: newest image; segments: finalized ones after it, contiguous; in_progress: left alone.
    """

    folder: Path
    image: Path
    image_txid: int
    segments: tuple[EditLogSegment, ...]
    in_progress: tuple[Path, ...]

    @property
    def last_txid(self) -> int:
        last = self.segments[-1].last if self.segments else None
        return self.image_txid if last is None else last


def plan_directory(directory: Path) -> MergePlan:
    """Look at a storage directory.

    Raises:
        StorageError: it is not formatted, has no image, or seen_txid names edits that are not there.
        TransactionGapError: edits are missing between the image and the newest segment.
    """
    storage = inspect(directory)
    newest = newest_image([storage])
    every = list_segments(storage.current)
    finalized = [segment for segment in every if segment.last is not None]
    in_progress = [segment for segment in every if segment.last is None]
    chosen = select_segments(finalized, newest.txid + 1)
    plan = MergePlan(
        folder=storage.current,
        image=newest.path,
        image_txid=newest.txid,
        segments=tuple(chosen),
        in_progress=tuple(segment.path for segment in in_progress),
    )
    check_covered(storage, max([plan.last_txid, *(segment.first for segment in in_progress)]))
    return plan


def check_image(plan: MergePlan) -> None:
    """Check digest and frame of the plan's image, which nothing else reads where there is nothing to merge.

    Raises:
        ImageFormatError: it is damaged.
    """
    ImageFile.open(plan.image).close()


def merge_directory(plan: MergePlan, *, codec: str | None = None, observer: Observer | None = None) -> MergeResult:
    """Carry out a plan: `fsimage_M` and its digest appear beside the old image.

    Raises:
        HdfsError: as `merge`; the directory is as before.
    """
    return merge(
        plan.image,
        read_transactions(plan.segments, plan.image_txid + 1),
        [plan.folder],
        expected=plan.last_txid - plan.image_txid,
        codec=codec,
        observer=observer,
    )
