"""The readable part of a segment in progress; each call continues where the previous call stopped."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from journal.errors import CorruptOpError, TransactionGapError
from journal.primitives import Buffer
from journal.resync import op_follows
from journal.segment_format import HEADER_SIZE, decode_header
from journal.segment_frames import check_frame, iter_frames


class OpenExtent(NamedTuple):
    """Complete operations up to txid `last` and byte `end`; without operations, `last` is one below the first txid."""

    last: int
    end: int


def extend_extent(extent: OpenExtent, content: Buffer, *, file: str) -> OpenExtent:
    """Return the extent that also includes the operations of `content`, after checking their checksums and txids.

    `content` is the file from byte `extent.end` on. The extent excludes padding and a partial operation at the end,
    which the writer is still writing or left behind in a crash.

    Raises:
        CorruptOpError: complete operations follow a damaged operation.
        TransactionGapError: a txid does not follow its predecessor.
    """
    last, end = extent
    position = 0
    try:
        for frame in iter_frames(content, 0, len(content), file=file):
            check_frame(content, frame, file=file)
            if frame.txid != last + 1:
                raise TransactionGapError(last + 1, frame.txid, file=file, offset=end + frame.start)
            last, position = frame.txid, frame.end
    except CorruptOpError as error:
        if op_follows(content, position, last + 1):
            problem = f"{error.problem}, with intact operations after it"
            raise CorruptOpError(problem, file=file, offset=end + position, txid=last + 1) from error
    return OpenExtent(last, end + position)


def scan_open_file(path: Path, first_txid: int, known: OpenExtent | None = None) -> OpenExtent | None:
    """Return the extent of the segment in progress `path`; None while the header is incomplete.

    The bytes are read, not mapped: a NameNode truncates the file when it finalizes the segment.

    Args:
        known: the result of an earlier call for the same file.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        CorruptOpError, TransactionGapError: see `extend_extent`.
        OSError: the file cannot be read.
    """
    with path.open("rb") as source:
        if known is not None:
            source.seek(known.end)
            return extend_extent(known, source.read(), file=path.name)
        content = source.read()
    if len(content) < HEADER_SIZE:
        return None
    decode_header(content, file=path.name)
    return extend_extent(OpenExtent(first_txid - 1, HEADER_SIZE), content[HEADER_SIZE:], file=path.name)
