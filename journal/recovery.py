"""After a crash: finalizing the segments that were left in progress (FileJournalManager)."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.durable import fsync_file, remove_durably, rename_durably
from hadoop_common.names import segment_name
from journal.errors import CorruptHeaderError, CorruptOpError, SegmentError
from journal.segment import HEADER_SIZE, SegmentScan, scan_segment
from journal.segment_file import EditLogSegment, list_segments, map_file


def recover_in_progress(directory: Path) -> list[EditLogSegment]:
    """Finalize the in-progress segments of `directory` at their last good operation; returns them.

    A file is renamed, never cut, as Hadoop does: readers stop at the last txid of its name. An empty file
    is deleted, one with no operation becomes `*.empty`, one with a bad header `*.corrupt`. Unlike Hadoop this
    takes a cut header, which a crash while the file is created leaves, for one without operations.

    Raises:
        CorruptHeaderError: a header is bad; the file has its new name.
        UnsupportedLayoutError: a layout is unknown; the file is as it was.
        CorruptOpError: whole operations lie behind a damaged one; the file is as it was.
        SegmentError: a finalized segment of the name exists already; both files are as they were.
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
    if target.exists():
        raise SegmentError(
            f"recovery wants to finalize it as {target.name}, which exists already",
            file=path.name,
            txid=scan.last_txid,
            hint="Compare the two files, and move the one away that is not wanted.",
        )
    # what a killed process wrote may not have reached the disk, though it can be read
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
