"""Plans a read of edits: selects contiguous segments and distributes their bytes among partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.in_progress_segments import examine_in_progress_segment
from hadoop_common.names import parse_segment
from journal.errors import TransactionGapError
from journal.segment_file import EditLogSegment, map_file
from journal.segment_format import HEADER_SIZE
from pipeline.errors import SourceOptionError
from pipeline.source_files import SourceFile
from pipeline.sources.edit_ranges import EditsRange, WantedEdits, cut_range

PARTITION_BYTES = 8 << 20
"""Bytes of edits in a partition by default: about one second of decoding."""

_HINT = "Fetch the missing segments, or skip the gap with option gaps=allow."


@dataclass(frozen=True, slots=True)
class PlacedRange:
    """A range of a file, and the first transaction to read from it."""

    source: SourceFile
    piece: EditsRange
    from_txid: int = 0


def examine_files(sources: Iterable[SourceFile], *, in_progress: bool) -> list[PlacedRange]:
    """Return each segment as a range, with the txids in its name or, if it is in progress, in its content. Omit empty
    segments.

    Raises:
        JournalError: a segment in progress is damaged before its last complete operation.
        SourceOptionError: a segment is in progress, and `in_progress` is false.
        OSError: a file cannot be read.
    """
    found = [_examine(source, in_progress=in_progress) for source in sources]
    return [item for item in found if item is not None]


def _examine(source: SourceFile, *, in_progress: bool) -> PlacedRange | None:
    path = source.on_driver()
    size = path.stat().st_size
    name = parse_segment(path.name)
    if name is None or name.last is not None:
        first, last = (None, None) if name is None else (name.first, name.last)
        return PlacedRange(source, EditsRange(path.name, HEADER_SIZE, size, first, last, size))
    if not in_progress:
        raise SourceOptionError(
            f"{path.name} is in progress", hint="Read its complete operations with option in_progress=true."
        )
    last = _last_txid(path, name.first) if size else None
    if last is None:
        return None
    return PlacedRange(source, EditsRange(path.name, HEADER_SIZE, size, name.first, last, size))


def _last_txid(path: Path, first: int) -> int | None:
    with map_file(path) as content:
        found = examine_in_progress_segment(EditLogSegment(first, None, path), content)
    return None if found is None else found.segment.last


def choose_segments(
    segments: Sequence[PlacedRange], wanted: WantedEdits, *, allow_gaps: bool, start: int | None, end: int | None
) -> list[PlacedRange]:
    """Return the segments with wanted transactions, in order; of overlapping segments, prefer the longer segment.

    Args:
        start: first txid, which must exist because an option requires it; None if the option is not set.
        end: last txid; the rules of `start` apply.

    Raises:
        TransactionGapError: transactions are missing between segments, or at `start` or `end`.
    """
    ordered = sorted((item for item in segments if item.piece.meets(wanted)), key=_position)
    chosen: list[PlacedRange] = []
    expected = start
    for item in ordered:
        first, last = item.piece.first_txid, item.piece.last_txid
        if first is None or last is None:
            chosen.append(item)
            continue
        if expected is not None and last < expected:
            continue
        if expected is not None and first > expected and not allow_gaps:
            raise _gap(expected, first, item.piece.file)
        chosen.append(item if expected is None else replace(item, from_txid=expected))
        expected = last + 1
    if end is not None and expected is not None and expected <= end and not allow_gaps:
        raise _gap(expected, None, "")
    return chosen


def _position(item: PlacedRange) -> tuple[int, int]:
    return item.piece.first_txid or 0, -(item.piece.last_txid or 0)


def _gap(expected: int, found: int | None, file: str) -> TransactionGapError:
    missing = f"txid {expected} .. {found - 1}" if found is not None else f"txid {expected} and later ones"
    follows = f"; the next segment begins with {found}" if found is not None else ", no later segment exists"
    error = TransactionGapError(
        expected, found, problem=f"gap in the edit log: no segment contains {missing}{follows}", file=file
    )
    error.hint = _HINT
    return error


def share(segments: Sequence[PlacedRange], partitions: int | None) -> list[list[PlacedRange]]:
    """Divide the segments into at most `partitions` runs of about equal size, at boundaries of operations.

    Raises:
        JournalError: a segment to divide has no valid header.
        OSError: a file cannot be read.
    """
    sizes = [item.piece.end for item in segments]
    # a file of a finalized segment may be empty; the segment's reader reports this fault
    total = max(1, sum(sizes))
    count = partitions or max(1, -(-total // PARTITION_BYTES))
    edges = [total * number // count for number in range(1, count)]
    runs: list[list[PlacedRange]] = [[] for _ in range(count)]
    base = 0
    for item, size in zip(segments, sizes, strict=True):
        for piece in _pieces(item, [edge - base for edge in edges if base < edge < base + size]):
            runs[min(count - 1, (base + piece.start) * count // total)].append(replace(item, piece=piece))
        base += size
    return [run for run in runs if run]


def _pieces(item: PlacedRange, places: Sequence[int]) -> list[EditsRange]:
    if not places:
        return [item.piece]
    with map_file(item.source.on_driver()) as content:
        return cut_range(content, item.piece, places)
