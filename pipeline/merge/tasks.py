"""The tasks of a checkpoint: each task merges a range of a section, in an image that all tasks of a host map."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from engine.section_delta import Chunk, DirectoryDelta, InodeDelta, merged_directories, merged_inodes
from image_format.errors import ImageStorageError
from image_format.index import ImageIndex
from pipeline.source_files import SourceFile
from pipeline.sources.fsimage import open_in_task


class Part(Protocol):
    """A range of a section, with the changes to merge."""

    def chunks(self, index: ImageIndex) -> Iterator[Chunk]:
        """Yield the bytes of the merged range.

        Raises:
            RecordError: a record of the image is damaged.
        """


class InodePart(NamedTuple):
    """The slots `first` .. `behind` - 1 of INODE and their changes."""

    first: int
    behind: int
    delta: InodeDelta

    def chunks(self, index: ImageIndex) -> Iterator[Chunk]:
        return merged_inodes(index, self.delta, self.first, self.behind)


class DirectoryPart(NamedTuple):
    """The bytes `first` .. `behind` of INODE_DIR (None: up to the end) and the changes of the whole section."""

    first: int
    behind: int | None
    delta: DirectoryDelta

    def chunks(self, index: ImageIndex) -> Iterator[Chunk]:
        return merged_directories(index, self.delta, self.first, self.behind)


class PartFile(NamedTuple):
    """A merged part of a section in the work folder."""

    path: str
    size: int


def send_part(source: SourceFile, part: Part) -> Iterator[bytes]:
    """Yield the merged part as picklable bytes."""
    return map(bytes, part.chunks(_index(source)))


def write_part(folder: str, source: SourceFile, part: Part) -> Iterator[PartFile]:
    """Write the merged part to a file in `folder`.

    Raises:
        ImageStorageError: the file cannot be written.
    """
    # A task may run twice at the same time, so each attempt writes a separate file.
    path = Path(folder) / uuid.uuid4().hex
    size = 0
    try:
        with path.open("xb") as out:
            for chunk in part.chunks(_index(source)):
                out.write(chunk)
                size += len(chunk)
    except OSError as error:
        path.unlink(missing_ok=True)
        hint = "Free space there, or set checkpoint.engine.spark.shared-storage to false if disks are not shared."
        raise ImageStorageError(f"cannot write {path}: {error}", hint=hint) from error
    yield PartFile(str(path), size)


def _index(source: SourceFile) -> ImageIndex:
    return open_in_task(source).index
