"""Recovery after a crash, which finalizes segments that were left in progress (FileJournalManager)."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.durable import fsync_file, remove_durably, rename_durably
from hadoop_common.names import segment_name
from hadoop_common.path_status import exists
from journal.errors import CorruptHeaderError, CorruptOpError, SegmentError
from journal.segment_file import EditLogSegment, list_segments, map_file
from journal.segment_format import HEADER_SIZE, SegmentScan, scan_segment


def recover_in_progress(directory: Path) -> list[EditLogSegment]:
    """Finalize the open segments of `directory` at their last intact operation, and return the finalized segments.

    As in Hadoop, a file is renamed, but never truncated: readers stop at the last txid in its name. An empty file is
    deleted, a file without operations is renamed to `*.empty`, and a file with a bad header to `*.corrupt`. A file
    whose header was truncated by a crash counts as a file without operations; Hadoop treats it as corrupt.

    Raises:
        CorruptHeaderError: a header is bad; the file was renamed.
        UnsupportedEditsLayoutError: a layout is unknown; the file is unchanged.
        CorruptOpError: complete operations follow a damaged operation, or other software wrote an operation; the file
            is unchanged.
        SegmentError: a finalized segment of the same name exists; both files are unchanged.
        OSError: a file cannot be read or renamed.
    """
    recovered = []
    for segment in list_segments(directory):
        if segment.in_progress:
            finalized = _recover(segment)
            if finalized is not None:
                recovered.append(finalized)
    return recovered


def _recover(segment: EditLogSegment) -> EditLogSegment | None:
    path = segment.path
    size = path.stat().st_size
    if size == 0:
        remove_durably(path)
        return None
    if size < HEADER_SIZE:
        rename_durably(path, path.with_name(path.name + ".empty"))
        return None
    try:
        scan = _scan(segment)
    except CorruptHeaderError:
        rename_durably(path, path.with_name(path.name + ".corrupt"))
        raise
    if scan.last_txid is None:
        rename_durably(path, path.with_name(path.name + ".empty"))
        return None
    target = path.with_name(segment_name(segment.first, scan.last_txid))
    if exists(target):
        raise SegmentError(
            f"the segment cannot be finalized as {target.name}, which already exists",
            file=path.name,
            txid=scan.last_txid,
            hint="Compare the two files, and move away the file that you do not need.",
        )
    # Bytes that a killed process wrote can be readable, although they are not on the disk yet.
    fsync_file(path)
    rename_durably(path, target)
    return EditLogSegment(segment.first, scan.last_txid, target)


def _scan(segment: EditLogSegment) -> SegmentScan:
    name = segment.path.name
    with map_file(segment.path) as content:
        scan = scan_segment(content, file=name, first_txid=segment.first)
        if scan.corrupt:
            problem = "the segment is damaged here, with intact operations after the damage"
            txid = segment.first if scan.last_txid is None else scan.last_txid + 1
            raise CorruptOpError(problem, file=name, offset=scan.end, txid=txid)
    return scan
