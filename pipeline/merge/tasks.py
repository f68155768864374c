"""The tasks of a checkpoint: decode edits, answer requests of replay, and write merged parts of the image."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from engine.namespace.paths import encode_name
from engine.section_delta import Chunk, DirectoryDelta, InodeDelta, merged_directories, merged_inodes
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.errors import ImageStorageError
from image_format.history_check import check_history
from journal.errors import JournalError
from journal.operation import EditOp
from journal.segment_file import map_file
from pipeline.errors import SourceFileError
from pipeline.host_image import HostImage
from pipeline.merge.closure import ImageAnswer, ImageRequest, PathLookup
from pipeline.merge.fetched_image import ImageFacts
from pipeline.merge.resolver import resolve
from pipeline.merge.touched import Rename, RenameLog, TouchedPath, inode_ids, renames, touched_paths
from pipeline.source_files import SourceFile
from pipeline.sources.edit_plan import PlacedRange
from pipeline.sources.edit_ranges import WantedEdits, read_range

_OPS_IN_BLOCK = 4096
_QUERIES = ("chains", "deleters", "holders", "on_the_way_to", "open_file_ids")


class OpBlock(NamedTuple):
    """A run of operations.

    Attributes:
        ops: the pickled list of operations, which only the driver unpickles.
        paths, inode_ids, renames: what the operations touch, see `pipeline.merge.touched`.
    """

    ops: bytes
    paths: list[TouchedPath]
    inode_ids: set[int]
    renames: list[Rename]


class InodeRange(NamedTuple):
    """The slots `first` .. `behind` - 1 and their changes."""

    first: int
    behind: int
    delta: InodeDelta


class PartFile(NamedTuple):
    """A merged part of a section in the work folder."""

    path: str
    size: int


# ---- edits -------------------------------------------------------------------------------------------------------


def decode(max_op_size: int, run: Iterable[PlacedRange]) -> Iterator[OpBlock]:
    """Yield the operations of consecutive ranges in order; after those before a damaged operation, raise its error.

    Raises:
        JournalError: an operation is damaged, too large, or out of sequence.
        SourceFileError: a file cannot be read.
    """
    for placed in run:
        path = placed.source.in_task()
        try:
            with map_file(path) as content:
                wanted = WantedEdits(low=placed.from_txid, max_op_size=max_op_size)
                yield from _blocks(row.op for row in read_range(content, placed.piece, wanted))
        except OSError as error:
            hint = "Check that the executors can see and read the file."
            raise SourceFileError(f"cannot read {path}: {error}", hint=hint) from error


def _blocks(ops: Iterator[EditOp]) -> Iterator[OpBlock]:
    fault: JournalError | None = None
    while fault is None:
        block: list[EditOp] = []
        try:
            for op in islice(ops, _OPS_IN_BLOCK):
                block.append(op)
        except JournalError as error:
            fault = error
        if block:
            yield OpBlock(pickle.dumps(block, 5), touched_paths(block), inode_ids(block), list(renames(block)))
        elif fault is None:
            return
    raise fault


def split_by_bucket(
    blocks: Iterable[OpBlock], renamed: Iterable[Rename], buckets: int
) -> Iterator[tuple[int, ImageRequest]]:
    """Yield requests for everything that a partition's edits touch, by bucket; names of one directory
    share a bucket.
    """
    log = RenameLog(renamed)
    walks: dict[PathLookup, int] = {}
    ids: set[int] = set()
    for block in blocks:
        ids |= block.inode_ids
        for touched in block.paths:
            for path in log.origins(touched.path, touched.txid):
                walk = PathLookup(ROOT_INODE_ID, encode_name(path), touched.below)
                walks.setdefault(walk, crc32(walk.path.rpartition(b"/")[0]) % buckets)
    wanted = [ImageRequest() for _ in range(buckets)]
    for walk, bucket in walks.items():
        wanted[bucket].walks.append(walk)
    for inode_id in ids:
        wanted[inode_id % buckets].inode_ids.append(inode_id)
    for bucket, asked in enumerate(wanted):
        if asked.walks or asked.inode_ids:
            yield bucket, asked


# ---- the image ---------------------------------------------------------------------------------------------------


def _host_image(source: SourceFile) -> HostImage:
    from pyspark import SparkFiles

    return HostImage.open(source.in_task(), Path(SparkFiles.getRootDirectory()))


def describe(source: SourceFile, directory_ranges: int) -> Iterator[ImageFacts]:
    """Return facts about the whole image; build the host's index if it is missing.

    Raises:
        ImageFormatError: the image is damaged.
        InconsistentHistoryError: snapshots refer to missing inodes.
    """
    host = _host_image(source)
    index, arrays = host.index, host.arrays
    check_history(index)
    offsets = np.sort(arrays.directory_offsets)
    size = index.directory_buffer.size
    edges = [size * number // directory_ranges for number in range(directory_ranges)]
    cuts = offsets[np.minimum(np.searchsorted(offsets, edges), offsets.size - 1)].tolist() if offsets.size else [0]
    yield ImageFacts(
        header=index.header.SerializeToString(),
        slot_count=host.count,
        largest_id=arrays.ids.item(arrays.ids.size - 1) if arrays.ids.size else 0,
        type_quota_ids=np.array(arrays.type_quota_ids),
        inode_bytes=index.inode_buffer.size,
        cuts=sorted({0, *cuts}),
    )


def answer(source: SourceFile, asked: Iterable[ImageRequest]) -> Iterator[ImageAnswer]:
    """Answer requests with their closure.

    Raises:
        ImageFormatError: the image is damaged.
    """
    together = ImageRequest()
    for wanted in asked:
        together.walks += wanted.walks
        together.inode_ids += wanted.inode_ids
        together.slots += wanted.slots
        together.below += wanted.below
    yield resolve(_host_image(source), together)


def ask(source: SourceFile, question: str, arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Answer a question that needs the whole image."""
    assert question in _QUERIES
    index = _host_image(source).index
    if question == "open_file_ids":
        yield index.open_file_ids()
        return
    found = getattr(index.history, question)(*arguments)
    yield np.flatnonzero(found) if question == "on_the_way_to" else found


# ---- parts of the new image --------------------------------------------------------------------------------------


def inode_part(source: SourceFile, wanted: InodeRange) -> Iterator[Chunk]:
    """Merge a range of INODE."""
    return merged_inodes(_host_image(source).index, wanted.delta, wanted.first, wanted.behind)


def directory_part(source: SourceFile, span: tuple[int, int | None], delta: DirectoryDelta) -> Iterator[Chunk]:
    """Merge the bytes `span` of INODE_DIR, see `merged_directories`.

    Raises:
        RecordError: an entry of the image is damaged.
    """
    return merged_directories(_host_image(source).index, delta, *span)


def send_part(source: SourceFile, item: Any, make: Callable[..., Iterator[Chunk]], *arguments: Any) -> Iterator[bytes]:
    """Yield the results of `make(source, item, *arguments)` as picklable bytes."""
    return map(bytes, make(source, item, *arguments))


def write_part(
    source: SourceFile, item: Any, folder: str, make: Callable[..., Iterator[Chunk]], *arguments: Any
) -> Iterator[PartFile]:
    """Write the results of `make(source, item, *arguments)` to a file in `folder`.

    Raises:
        ImageStorageError: the file cannot be written.
    """
    # A task may run twice at the same time; each attempt writes its own file.
    path = Path(folder) / uuid.uuid4().hex
    size = 0
    try:
        with path.open("xb") as out:
            for chunk in make(source, item, *arguments):
                out.write(chunk)
                size += len(chunk)
    except OSError as error:
        path.unlink(missing_ok=True)
        hint = "Free space there, or set checkpoint.engine.spark.shared-storage to false if disks are not shared."
        raise ImageStorageError(f"cannot write {path}: {error}", hint=hint) from error
    yield PartFile(str(path), size)
