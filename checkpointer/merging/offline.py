"""The offline merge of one storage directory: a plan based on its files, and the merge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkpointer.merging.engines import MergeTask, choose_engine
from checkpointer.storage.inspector import CURRENT, StoredImage, inspect, newest_image
from checkpointer.storage.lost_pasts import UnfinishedStartOver
from engine.in_progress_segments import InProgressSegment, check_overlaps, read_in_progress_segments
from engine.merge import MergeResult, Observer
from engine.settings import MergeSettings
from hadoop_common.errors import StorageError
from hadoop_common.names import VERSION
from hadoop_common.seen_txid import check_covered
from image_format.reader import ImageFile
from image_tools.convert import plan_conversion
from journal.segment_file import EditLogSegment, list_segments, select_segments
from site_config.engine_settings import EngineSettings


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The input of a merge of one directory.

    Attributes:
        image: newest image.
        segments: contiguous segments after the image.
        in_progress: segments in progress that the merge does not read.
        version_layout: layout version in VERSION.
        opened: segments in progress among `segments`, read up to their last readable transaction.
        images: all images.
        irregular: entries that have the name of an image but are not regular files.
        start_over: unfinished start-over of a daemon, which does not use these files.
    """

    folder: Path
    image: Path
    image_txid: int
    segments: tuple[EditLogSegment, ...]
    in_progress: tuple[Path, ...]
    version_layout: int
    opened: tuple[InProgressSegment, ...] = ()
    images: tuple[StoredImage, ...] = ()
    irregular: tuple[Path, ...] = ()
    start_over: UnfinishedStartOver | None = None

    @property
    def last_txid(self) -> int:
        last = self.segments[-1].last if self.segments else None
        return self.image_txid if last is None else last


def plan_directory(directory: Path, *, in_progress: bool = False, allow_unknown_layout: bool = False) -> MergePlan:
    """Plan the merge of a storage directory; `in_progress` includes the readable operations of segments in progress.

    `allow_unknown_layout` accepts a VERSION and an image with a layout newer than all known layouts.

    Raises:
        StorageError: the directory is not formatted, has no image, or lacks edits up to its seen_txid.
        TransactionGapError: edits are missing between the image and the newest segment.
        JournalError: a segment in progress is damaged before its end, or overlaps another segment.
    """
    if (directory / VERSION).is_file() and (whole := directory.resolve()).name == CURRENT:
        raise StorageError(
            f"{directory} is the `current` folder of a storage directory, not the directory itself",
            hint=f"Name {whole.parent} instead.",
        )
    storage = inspect(directory, allow_unknown_layout=allow_unknown_layout)
    newest = newest_image([storage])
    assert storage.version is not None
    every = list_segments(storage.current)
    finalized = [segment for segment in every if segment.last is not None]
    unfinished = [segment for segment in every if segment.last is None]
    opened = read_in_progress_segments(unfinished) if in_progress else []
    check_overlaps(opened, finalized, newest.txid)
    chosen = select_segments([*finalized, *(item.segment for item in opened)], newest.txid + 1)
    read = [item for item in opened if item.segment in chosen]
    paths_read = {item.segment.path for item in read}
    plan = MergePlan(
        folder=storage.current,
        image=newest.path,
        image_txid=newest.txid,
        segments=tuple(chosen),
        version_layout=storage.version.layout_version,
        in_progress=tuple(segment.path for segment in unfinished if segment.path not in paths_read),
        opened=tuple(read),
        images=storage.images,
        irregular=storage.irregular,
        start_over=storage.start_over,
    )
    # segments that the merge does not read may contain the transactions up to seen_txid
    unread = [] if in_progress else [segment.first for segment in unfinished]
    check_covered(storage.current, storage.seen_txid, max([plan.last_txid, *unread]))
    return plan


def check_image(plan: MergePlan, *, layout_version: int | None = None, allow_unknown_layout: bool = False) -> None:
    """Check the digest and the frame of the plan's image and the requested layout, if there is nothing to merge.

    Raises:
        ImageFormatError: the image is damaged, or the layout does not exist.
    """
    with ImageFile.open(plan.image, allow_unknown_layout=allow_unknown_layout) as image:
        plan_conversion(image, layout_version=layout_version)


def merge_directory(
    plan: MergePlan,
    settings: MergeSettings = MergeSettings(),
    *,
    engine: EngineSettings | None = None,
    observer: Observer | None = None,
) -> MergeResult:
    """Execute a plan: write `fsimage_M` and its digest next to the old image.

    VERSION does not change, even if the new image has a different layout, because only the NameNode upgrades a
    directory (`-upgrade`), depending on VERSION. If `engine` is None, the local engine performs the merge.

    Raises:
        HdfsError: see `merge`; the directory is not changed.
        EngineError: the requested engine cannot make the checkpoint.
    """
    task = MergeTask(
        image=plan.image,
        base_txid=plan.image_txid,
        segments=plan.segments,
        last_txid=plan.last_txid,
        folders=(plan.folder,),
        settings=settings,
    )
    return choose_engine(engine or EngineSettings(), task).merge(task, observer)
