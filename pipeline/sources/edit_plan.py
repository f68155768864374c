"""The segments that a read needs, in order and without a gap, and how their bytes are shared among partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.open_segments import examine_open_segment
from hadoop_common.names import parse_segment
from journal.errors import TransactionGapError
from journal.segment import HEADER_SIZE
from journal.segment_file import EditLogSegment, map_file
from pipeline.errors import SourceOptionError
from pipeline.source_files import SourceFile
from pipeline.sources.edit_ranges import EditsRange, WantedEdits, cut_range

PARTITION_BYTES = 8 << 20
"""Bytes of edits in a partition where the reader is not told how many to make: a second or so of decoding."""

_HINT = "Fetch the missing segments, or read what there is with option gaps=allow."


@dataclass(frozen=True, slots=True)
class PlacedRange:
    """A range, the file it lies in, and the first transaction that is taken from it."""

    source: SourceFile
    piece: EditsRange
    from_txid: int = 0


def examine_files(sources: Iterable[SourceFile], *, in_progress: bool) -> list[PlacedRange]:
    """Each segment as one range, as its name or, of one in progress, its content tells; those without a transaction
    are left out.

    Raises:
        JournalError: a segment in progress is damaged before its last whole operation.
        SourceOptionError: a segment is in progress, and these are not asked for.
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
            f"{path.name} is in progress", hint="Read it up to its last whole operation with option in_progress=true."
        )
    last = _last_txid(path, name.first) if size else None
    if last is None:
        return None
    return PlacedRange(source, EditsRange(path.name, HEADER_SIZE, size, name.first, last, size))


def _last_txid(path: Path, first: int) -> int | None:
    with map_file(path) as content:
        found = examine_open_segment(EditLogSegment(first, None, path), content)
    return None if found is None else found.segment.last


def choose_segments(
    segments: Sequence[PlacedRange], wanted: WantedEdits, *, allow_gaps: bool, start: int | None, end: int | None
) -> list[PlacedRange]:
    """Those that hold wanted transactions, in order; of transactions that two hold, the longer segment's are taken.

    Args:
        start: txid that an option asks for and that has to be there, None where there is no such option.
        end: the same for the last one.

    Raises:
        TransactionGapError: transactions are missing between two segments, or at `start` or `end`.
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
    follows = f", the next segment begins with {found}" if found is not None else ", no later segment exists"
    error = TransactionGapError(
        expected, found, problem=f"gap in the edit log: no segment holds {missing}{follows}", file=file
    )
    error.hint = _HINT
    return error


def share(segments: Sequence[PlacedRange], partitions: int | None) -> list[list[PlacedRange]]:
    """The segments' bytes cut into at most `partitions` runs of the same size, each of whole operations.

    Raises:
        JournalError: a segment that is to be cut has no header.
        OSError: a file cannot be read.
    """
    sizes = [item.piece.end for item in segments]
    total = sum(sizes)
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
