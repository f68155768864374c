"""Stores edits and base images as objects of an archive; this module does not change the catalogue."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from archive.archive import Archive, ObjectWriter
from archive.catalogue import EDITS, IMAGES, EditsRecord, ImageRecord
from archive.frames import FRAME_SIZE, cut_ranges
from archive.path_filter import PathFilterBuilder
from hadoop_common.names import image_name, inprogress_name, segment_name
from image_format.errors import DigestMismatchError
from image_format.md5_file import read_md5_file
from journal.binary_codec import decode_op
from journal.errors import CorruptOpError
from journal.op_columns import op_columns
from journal.op_times import op_time
from journal.primitives import Buffer
from journal.segment_file import EditLogSegment, cursor_over, map_file
from journal.segment_format import HEADER_SIZE, SegmentCursor
from journal.whole_frames import Frames, whole_frames

_LOG = logging.getLogger(__name__)
_STEP = 1 << 20
"""Number of bytes of edits that are read at a time."""


class EditsPart(NamedTuple):
    """Consecutive transactions of a segment: bytes `start` to `end` of its file, and a summary of their content.

    `first_time` and `last_time` are in ms since the epoch, or 0 if unknown.
    """

    first: int
    last: int
    start: int
    end: int
    first_time: int
    last_time: int
    layout_version: int
    path_filter: bytes


def position_after(segment: EditLogSegment, content: Buffer, txid: int) -> tuple[int, int]:
    """Return the position after transaction `txid` of a segment, and the transaction that begins there."""
    cursor = cursor_over(segment, content, txid + 1)
    last = txid if segment.last is None else min(txid, segment.last)
    position, expected = HEADER_SIZE, segment.first
    frames = None
    while frames is None or len(frames.starts):
        chunk = bytes(content[position : position + _STEP])
        frames = whole_frames(chunk, expected, last)
        position, expected = position + frames.end, frames.next_txid
    # the next operation is larger than a chunk, or incomplete
    cursor.advance(position, expected)
    cursor.skip()
    return cursor.position, cursor.expected or segment.first


def read_part(
    segment: EditLogSegment,
    content: Buffer,
    start: int = HEADER_SIZE,
    first: int | None = None,
    reached: Callable[[int], None] = lambda position: None,
) -> EditsPart | None:
    """Read a segment from byte `start`, where transaction `first` begins, to its end; return None if the segment ends
    at `start`.

    Args:
        reached: called with each position up to which complete operations have been read.

    Raises:
        JournalError: the segment is damaged.
    """
    first = segment.first if first is None else first
    cursor = cursor_over(segment, content)
    cursor.advance(start, first)
    first_time = last_time = 0
    paths = PathFilterBuilder()
    decoded: set[int] = set()

    def note(times: list[int]) -> None:
        nonlocal first_time, last_time
        known = [each for each in times if each]
        first_time = first_time or next(iter(known), 0)
        last_time = max([last_time, *known])

    while True:
        chunk = bytes(content[cursor.position : cursor.position + _STEP])
        frames = whole_frames(chunk, cursor.expected or first, segment.last)
        if not len(frames.starts):
            # the next operation is larger than a chunk, or the segment ends here
            if (op := next(cursor, None)) is None:
                break
            note([op_time(op) or 0])
            paths.add(op)
            continue
        try:
            columns = op_columns(chunk, frames, cursor.layout_version)
            paths.add_columns(chunk, columns)
        except (CorruptOpError, ValueError):
            break
        _warn_of_undecodable(cursor, chunk, frames, decoded)
        note(columns.times.tolist())
        cursor.advance(cursor.position + frames.end, frames.next_txid)
        reached(cursor.position)
    # if the next operation is damaged, this raises an error with its position
    for op in cursor:
        note([op_time(op) or 0])
        paths.add(op)
    last = (cursor.expected or first) - 1
    if last < first:
        return None
    return EditsPart(first, last, start, cursor.position, first_time, last_time, cursor.layout_version, paths.build())


def _warn_of_undecodable(cursor: SegmentCursor, chunk: bytes, frames: Frames, decoded: set[int]) -> None:
    """Log operations that no restore can replay; decode the first operation of each opcode that is not in `decoded`."""
    opcodes, numbers = np.unique(np.frombuffer(chunk, np.uint8)[frames.starts], return_index=True)
    for opcode, number in zip(opcodes.tolist(), numbers.tolist(), strict=True):
        if opcode in decoded:
            continue
        decoded.add(opcode)
        position = cursor.position + int(frames.starts[number])
        try:
            decode_op(cursor.buffer, position, cursor.layout_version, file=cursor.file)
        except CorruptOpError as fault:
            fault.locate(txid=frames.next_txid - len(frames.starts) + number)
            _LOG.warning("archived an operation that a restore cannot replay: %s; next: %s", fault.message, fault.hint)


class _Packer:
    """Compressor of a part of a segment, preceded by the segment's header, in the thread of `worker`.

    Compression and digests do not need the interpreter lock, which the thread that reads the part holds most of the
    time.
    """

    def __init__(self, worker: ThreadPoolExecutor, out: ObjectWriter, content: Buffer, start: int) -> None:
        self._worker = worker
        self._out = out
        self._content = content
        # distance in bytes between the position of a frame in the object and in the file
        self._shift = start - HEADER_SIZE
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._position = 0
        self._frames: list[Future[None]] = []

    def reach(self, position: int) -> None:
        """Compress the complete frames before this position of the file."""
        while position - self._shift - self._position >= FRAME_SIZE:
            self._submit(self._position + FRAME_SIZE)

    def finish(self, end: int) -> tuple[str, int]:
        """Compress the rest before byte `end` of the file; return the MD5 in hex and the size of the content."""
        self.reach(end)
        if (size := end - self._shift) > self._position:
            self._submit(size)
        for frame in self._frames:
            frame.result()
        return self._md5.hexdigest(), size

    def _submit(self, end: int) -> None:
        self._frames.append(self._worker.submit(self._pack, self._position, end))
        self._position = end

    def _pack(self, start: int, end: int) -> None:
        head = bytes(self._content[start : min(end, HEADER_SIZE)])
        piece = head + bytes(self._content[max(start, HEADER_SIZE) + self._shift : end + self._shift])
        self._md5.update(piece)
        self._out.add(piece)


def store_segment(
    archive: Archive, segment: EditLogSegment, content: Buffer, start: int, first: int, branch: str
) -> EditsRecord | None:
    """Store a segment from byte `start`, where transaction `first` begins; return None if the segment ends at
    `start`.

    Raises:
        JournalError: the segment is damaged; nothing was stored.
    """
    about = None
    with archive.writing(EDITS, _stem(first, segment.last)) as out, ThreadPoolExecutor(1) as worker:
        packer = _Packer(worker, out, content, start)
        if part := read_part(segment, content, start, first, packer.reach):
            about = _finish(out, packer, part, branch, finalized=not segment.in_progress)
    return None if about is None else EditsRecord(**asdict(out.stored), **about)


def store_part(archive: Archive, content: Buffer, part: EditsPart, branch: str) -> EditsRecord:
    """Store a part of an open segment."""
    with archive.writing(EDITS, _stem(part.first, None)) as out, ThreadPoolExecutor(1) as worker:
        about = _finish(out, _Packer(worker, out, content, part.start), part, branch, finalized=False)
    return EditsRecord(**asdict(out.stored), **about)


def _stem(first: int, last: int | None) -> str:
    return inprogress_name(first) if last is None else segment_name(first, last)


def _finish(out: ObjectWriter, packer: _Packer, part: EditsPart, branch: str, *, finalized: bool) -> dict[str, Any]:
    """Write the rest of a part and the footer; return the fields of the part's record."""
    md5, size = packer.finish(part.end)
    about: dict[str, Any] = {
        "first": part.first,
        "last": part.last,
        "branch": branch,
        "finalized": finalized,
        "md5": md5,
        "size": size,
        "first_time": part.first_time,
        "last_time": part.last_time,
        "layout_version": part.layout_version,
        "added": _now(),
    }
    out.finish(about, part.path_filter)
    return about


def store_image(archive: Archive, path: Path, txid: int, branch: str, version: str) -> ImageRecord:
    """Store an image after checking its digest.

    Raises:
        DigestMismatchError: the image does not match its digest; nothing was stored.
    """
    # imported here, because this import takes as long as adding a day's edits
    from image_format.reader import ImageFile

    expected = read_md5_file(path).hex()
    md5 = hashlib.md5(usedforsecurity=False)
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image, map_file(path) as content:
        edges = [edge for each in image.sections for edge in (each.offset, each.end)]
        with archive.writing(IMAGES, image_name(txid)) as out:
            for part in cut_ranges(len(content), edges):
                piece = bytes(content[part.start : part.stop])
                md5.update(piece)
                out.add(piece)
            if md5.hexdigest() != expected:
                raise DigestMismatchError(
                    f"its MD5 is {md5.hexdigest()}, but the digest file contains {expected}",
                    file=str(path),
                    hint="`checkpointer image verify` shows the damage; nothing was archived.",
                )
            about: dict[str, Any] = {
                "txid": txid,
                "branch": branch,
                "md5": expected,
                "size": len(content),
                "version": version,
                "added": _now(),
            }
            out.finish(about)
    return ImageRecord(**asdict(out.stored), **about)


def _now() -> int:
    return time.time_ns() // 1_000_000
