"""Records of SNAPSHOT_DIFF: a DiffEntry, its diffs, and the created names after each directory diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from image_format.errors import BufferOrigin
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record

M = TypeVar("M", bound=Message)
Diff = pb.FileDiff | pb.DirectoryDiff


@dataclass
class DiffBlock:
    """The diffs of an inode in SNAPSHOT_DIFF.

    Attributes:
        start, end: offsets in the section.
        diffs: newest first.
        created: the created names of each diff; empty for file diffs.
    """

    start: int
    end: int
    header: pb.DiffEntry
    diffs: list[Diff]
    created: list[list[pb.CreatedListEntry]]


class _DiffReader:
    def __init__(self, data: memoryview, start: int, place: BufferOrigin) -> None:
        self._data, self._place, self.position = data, place, start

    def read(self, kind: type[M]) -> M:
        record = read_record(self._data, self.position, self._place)
        self.position = record.end
        return parse_message(kind, record, self._place)


def read_block(data: memoryview, start: int, end: int, place: BufferOrigin) -> DiffBlock:
    """Decode the DiffEntry at `start` and its diffs, up to the next entry at `end`.

    Raises:
        RecordError: a record is not the expected message.
    """
    reader = _DiffReader(data, start, place)
    block = DiffBlock(start, end, reader.read(pb.DiffEntry), [], [])
    for _ in range(block.header.numOfDiff):
        if block.header.type == pb.DiffEntry.FILEDIFF:
            block.diffs.append(reader.read(pb.FileDiff))
            block.created.append([])
        else:
            diff = reader.read(pb.DirectoryDiff)
            block.diffs.append(diff)
            block.created.append([reader.read(pb.CreatedListEntry) for _ in range(diff.createdListSize)])
    return block


def encode_block(block: DiffBlock) -> bytes:
    """Encode the block's records with correct counts."""
    block.header.numOfDiff = len(block.diffs)
    parts = [encode_delimited(block.header)]
    for diff, created in zip(block.diffs, block.created, strict=True):
        if isinstance(diff, pb.DirectoryDiff) and (created or diff.createdListSize):
            diff.createdListSize = len(created)
        parts.append(encode_delimited(diff))
        parts += map(encode_delimited, created)
    return b"".join(parts)
