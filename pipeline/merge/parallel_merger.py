"""Merges the two large sections in tasks and joins the parts on the driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from engine.section_delta import COPY_CHUNK, Chunk, DirectoryDelta, InodeDelta
from hadoop_common.errors import HdfsError
from image_format.errors import ImageStorageError
from image_format.index import ImageIndex
from pipeline.job_results import complete
from pipeline.merge import tasks
from pipeline.merge.job import CheckpointJob
from pipeline.merge.tasks import DirectoryPart, InodePart, Part, PartFile

PART_BYTES = 32 << 20
_FOLDER = "checkpoint-parts"
_AGAIN = "Repeat the checkpoint; nothing was written."


class ParallelMerger:
    """`SectionMerger` that runs in tasks.

    Args:
        index: index of the image.
        parts: number of slot ranges in which INODE is merged, and of byte ranges of INODE_DIR.
        folder: folder in which executors write parts; if None, executors send the bytes to the driver.
    """

    concurrent = False

    def __init__(self, job: CheckpointJob, index: ImageIndex, parts: int, folder: Path | None) -> None:
        self._job = job
        self._index = index
        self._parts = parts
        self._folder = folder

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        edges = _edges(self._index.slot_count, self._parts)
        ranges = [(first, behind) for first, behind in pairwise(edges) if first < behind]
        return self._merged([InodePart(*each, delta.between(*each)) for each in ranges])

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        offsets = np.sort(self._index.arrays.directory_offsets)
        edges = _edges(self._index.directory_buffer.size, self._parts)[:-1]
        cuts = offsets[np.minimum(np.searchsorted(offsets, edges), offsets.size - 1)].tolist() if offsets.size else []
        starts = sorted({0, *cuts})
        return self._merged([DirectoryPart(*each, delta) for each in zip(starts, [*starts[1:], None], strict=True)])

    def _merged(self, parts: Sequence[Part]) -> Iterator[Chunk]:
        if self._folder is None:
            yield from self._job.stream(tasks.send_part, parts)
            return
        files = self._job.collect(partial(tasks.write_part, str(self._folder)), parts)
        for part in complete(files, len(parts), _AGAIN):
            yield from _content(part)


def _edges(size: int, parts: int) -> list[int]:
    return [size * number // parts for number in range(parts + 1)]


def _content(part: PartFile) -> Iterator[bytes]:
    """Yield the bytes of a part, then remove its file.

    Raises:
        ImageStorageError: the file is missing, or its size differs from the size that the task wrote.
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
    """Create a folder for parts next to a `current` folder, whose lock the caller holds; remove the folder at the end.

    First remove a folder that a killed checkpoint left.

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
