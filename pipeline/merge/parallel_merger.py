"""Merges the two large sections in tasks and joins the parts on the driver."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.section_delta import COPY_CHUNK, Chunk, DirectoryDelta, InodeDelta
from hadoop_common.errors import HdfsError
from image_format.errors import ImageStorageError
from pipeline.errors import PipelineError
from pipeline.merge import tasks
from pipeline.merge.fetched_image import ImageFacts
from pipeline.merge.job import CheckpointJob
from pipeline.merge.tasks import InodeRange, PartFile

PART_BYTES = 32 << 20
_FOLDER = "checkpoint-parts"
_AGAIN = "Repeat the checkpoint; nothing was written."


class ParallelMerger:
    """`SectionMerger` that runs in tasks.

    Args:
        inode_parts: number of slot ranges in which INODE is merged; INODE_DIR is divided at the cuts of `description`.
        folder: folder in which executors write parts; with None they send the bytes to the driver.
    """

    concurrent = False

    def __init__(self, job: CheckpointJob, description: ImageFacts, inode_parts: int, folder: Path | None) -> None:
        self._job = job
        self._description = description
        self._inode_parts = inode_parts
        self._folder = "" if folder is None else str(folder)

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        count = self._description.slot_count
        edges = [count * number // self._inode_parts for number in range(self._inode_parts + 1)]
        ranges = [
            InodeRange(first, behind, delta.between(first, behind))
            for first, behind in pairwise(edges)
            if first < behind
        ]
        return self._merged(ranges, tasks.inode_part)

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        cuts: Sequence[int] = self._description.cuts
        spans = list(zip(cuts, [*cuts[1:], None], strict=True))
        return self._merged(spans, tasks.directory_part, delta)

    def _merged(self, items: Sequence[Any], make: Callable[..., Iterator[Chunk]], *arguments: Any) -> Iterator[Chunk]:
        if not self._folder:
            yield from self._job.stream(tasks.send_part, items, make, *arguments)
            return
        parts = self._job.collect(tasks.write_part, items, self._folder, make, *arguments)
        if len(parts) != len(items):
            # PySpark mistakes the end of a connection for the end of the results.
            raise PipelineError(f"Spark returned {len(parts)} of {len(items)} merged parts", hint=_AGAIN)
        for part in parts:
            yield from _content(part)


def _content(part: PartFile) -> Iterator[bytes]:
    """Yield the bytes of a part, then remove its file.

    Raises:
        ImageStorageError: the file is missing or has another size than the task wrote.
    """
    path, size = Path(part.path), 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(COPY_CHUNK):
                size += len(chunk)
                yield chunk
        path.unlink()
    except OSError as error:
        raise _lost(part, str(error)) from error
    if size != part.size:
        raise _lost(part, f"the file has {size} bytes instead of {part.size}")


def _lost(part: PartFile, reason: str) -> HdfsError:
    hint = "Set checkpoint.engine.spark.shared-storage to false if executors do not share this disk."
    return ImageStorageError(f"cannot read the merged part {part.path}: {reason}", hint=hint)


@contextmanager
def work_folder(current: Path) -> Iterator[Path]:
    """Create a folder for parts next to a `current` folder, whose lock the caller holds; remove it at the end.

    A folder that a killed checkpoint left is removed first.

    Raises:
        ImageStorageError: the folder cannot be created.
    """
    folder = current.absolute().parent / _FOLDER
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ImageStorageError(f"cannot create {folder}: {error}", hint="Check its disk and permissions.") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
