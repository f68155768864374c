"""Names and order of a JSON journal's files, and their grouping into segments; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.durable import TEMPORARY_SUFFIX
from hadoop_common.names import parse_segment, segment_name
from journal.errors import SegmentError

MANIFEST = "journal.json"
_EDITS = "edits"
_SUFFIX = ".json"
_FOREIGN = "Move the file to another directory; the files of this JSON journal are named edits_FIRST-LAST.json."


@dataclass(frozen=True, slots=True)
class JsonFile:
    """The file of a flushed buffer: transactions `first` to `last`, one per line.

    Attributes:
        opens: whether it begins with START_LOG_SEGMENT.
        closes: whether it ends with END_LOG_SEGMENT.
    """

    first: int
    last: int
    path: Path
    opens: bool
    closes: bool


@dataclass(frozen=True, slots=True)
class FileRun:
    """The files of one segment, at least one file, in order and without gaps."""

    files: tuple[JsonFile, ...]
    in_progress: bool

    @property
    def first(self) -> int:
        return self.files[0].first

    @property
    def last(self) -> int:
        return self.files[-1].last


def json_file_name(first: int, last: int) -> str:
    """Return `edits_%019d-%019d.json`."""
    return segment_name(first, last) + _SUFFIX


def is_temporary(name: str) -> bool:
    """Return whether this is the name of a temporary file, which a killed process may leave behind."""
    final = name.removesuffix(TEMPORARY_SUFFIX)
    return final != name and (final == MANIFEST or (final.startswith(_EDITS) and final.endswith(_SUFFIX)))


def parse_json_file(path: Path) -> tuple[int, int] | None:
    """Return the first and last txid in the name of a transaction file; None for a file outside the journal.

    Raises:
        SegmentError: the file contains edits or JSON, but its name is not a name of a journal file.
    """
    name = path.name
    if name == MANIFEST or is_temporary(name) or not (name.startswith(_EDITS) or name.endswith(_SUFFIX)):
        return None
    found = parse_segment(name.removesuffix(_SUFFIX))
    if not name.endswith(_SUFFIX) or found is None or found.last is None:
        raise SegmentError("the file does not belong to a JSON journal", file=str(path), hint=_FOREIGN)
    if found.last < found.first:
        problem = f"the last txid in the name ({found.last}) is lower than the first txid ({found.first})"
        raise SegmentError(problem, file=str(path), hint=_FOREIGN)
    return found.first, found.last


def group_files(files: Iterable[JsonFile], ends: Set[int]) -> list[FileRun]:
    """Group `files`, in any order, into segments.

    A segment begins with START_LOG_SEGMENT. A segment also begins after an END_LOG_SEGMENT, a txid in `ends`, or a gap.
    The last segment is in progress unless it ends with END_LOG_SEGMENT or a txid in `ends`.

    Raises:
        SegmentError: a transaction is in two files.
    """
    runs: list[list[JsonFile]] = []
    before: JsonFile | None = None
    for each in sorted(files, key=lambda item: (item.first, item.last)):
        if before is not None and each.first <= before.last:
            raise _overlap(before, each)
        if before is None or each.opens or each.first > before.last + 1 or _is_end(before, ends):
            runs.append([])
        runs[-1].append(each)
        before = each
    return [FileRun(tuple(run), run is runs[-1] and not _is_end(run[-1], ends)) for run in runs]


def _is_end(file: JsonFile, ends: Set[int]) -> bool:
    return file.closes or file.last in ends


def _overlap(before: JsonFile, each: JsonFile) -> SegmentError:
    problem = f"txids {each.first} to {min(before.last, each.last)} are also in {before.path.name}"
    hint = "Compare the two files, and move away the file that you do not need."
    return SegmentError(problem, file=str(each.path), txid=each.first, hint=hint)
