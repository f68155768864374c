"""Adding the files of a storage directory to an archive: new segments, and a base image where one is needed.

Each segment is compared with what the archive has at its transactions. Equal bytes are already archived. If the bytes
differ, the NameNode was set back: the segments go to a branch, and nothing that was archived is touched.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from archive.archive import Archive
from archive.catalogue import EDITS, IMAGES, Branch, EditsRecord, ImageRecord, branch_after
from archive.errors import ArchiveError
from archive.frames import cut_ranges
from archive.history import BranchView, Piece, covering_base, newest_branch, newest_moment, view_of
from archive.path_filter import build_filter, keys_of
from archive.restoring import fetch_segment
from engine.txn_runs import is_identifying
from hadoop_common.file_faults import error_text
from hadoop_common.names import VERSION, image_name, inprogress_name, parse_image, segment_name
from hadoop_common.storage_info import parse_version
from image_format.errors import DigestMismatchError
from image_format.md5_file import md5_path, read_md5_file
from image_format.reader import ImageFile
from journal.op_times import op_paths, op_time, spreads
from journal.operation import EditOp
from journal.segment import HEADER_SIZE, SegmentCursor
from journal.segment_file import EditLogSegment, list_segments, map_file, read_ops

REPLAY_RATE = 500_000
"""Transactions per second that a restore replays, unless measured."""


@dataclass(frozen=True, slots=True)
class AddOptions:
    """When a base image is stored, and what is read.

    Attributes:
        restore_target: seconds that a restore may take for replay.
        replay_rate: transactions per second that a restore replays.
        in_progress: whether the segment in progress is archived too.
    """

    restore_target: float = 600.0
    replay_rate: float = REPLAY_RATE
    in_progress: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """The result of an addition.

    Attributes:
        branch: the history that the storage directory belongs to.
        forked: whether that history was new.
        last_txid: last transaction of the branch.
        restorable: newest transaction of the branch that can be restored; -1 without an image.
    """

    branch: str
    forked: bool
    edits: tuple[EditsRecord, ...]
    images: tuple[ImageRecord, ...]
    last_txid: int
    restorable: int


def add_directory(
    archive: Archive, directory: Path, options: AddOptions = AddOptions(), edits: Sequence[Path] = ()
) -> Added:
    """Add what `directory/current` has and the archive lacks.

    Args:
        edits: further directories with `current`, such as shared edits; of equal segments, the first one is read.

    Raises:
        ArchiveError: the archive belongs to another namespace or cannot be written.
        HdfsError: a file is damaged; what was published before stays.
    """
    current = directory / "current"
    try:
        version = (current / VERSION).read_bytes()
        found = [each for folder in (directory, *edits) for each in list_segments(folder / "current")]
        wanted = [each for each in found if options.in_progress or not each.in_progress]
        segments = list({(each.first, each.last): each for each in reversed(wanted)}.values())
        segments.sort(key=lambda each: (each.first, each.last is None, each.last or 0))
        images = sorted(path for path in current.iterdir() if parse_image(path.name) and md5_path(path).is_file())
    except OSError as fault:
        raise ArchiveError(
            f"{directory} is not a storage directory that can be read: {error_text(fault)}",
            hint="Name a NameNode's or checkpointer's storage directory, which has current/VERSION.",
        ) from fault
    archive.adopt(parse_version(version, str(current / VERSION)))
    with TemporaryDirectory(prefix="checkpointer-archive-") as scratch:
        return _Addition(archive, options, version.decode(), Path(scratch)).run(segments, images)


class _Facts(NamedTuple):
    """What a segment holds; `size` ends with the last transaction."""

    first: int
    last: int
    size: int
    first_time: int
    last_time: int
    layout_version: int
    path_filter: bytes


class _Addition:
    """One run of `add_directory`."""

    def __init__(self, archive: Archive, options: AddOptions, version: str, scratch: Path) -> None:
        self._archive = archive
        self._options = options
        self._version = version
        self._scratch = scratch
        self._catalogue = archive.writable_catalogue()

    def run(self, segments: Sequence[EditLogSegment], images: Sequence[Path]) -> Added:
        branch, forked = self._choose_branch(segments, images)
        edits = self._add_segments(segments, branch, forked)
        added = [record for path in images if (record := self._add_image(path, branch.name, segments)) is not None]
        view = view_of(self._catalogue, branch.name)
        return Added(branch.name, forked, tuple(edits), tuple(added), view.last_txid, newest_moment(view))

    # ---- branches ----------------------------------------------------------------------------------------------

    def _choose_branch(self, segments: Sequence[EditLogSegment], images: Sequence[Path]) -> tuple[Branch, bool]:
        """Return the branch that the files provably belong to; a new one if they belong to none."""
        newest = newest_branch(self._catalogue)
        if not self._catalogue.records or not segments:
            return self._catalogue.branches[newest], False
        furthest: tuple[int, str, EditLogSegment] | None = None
        for name in sorted(self._catalogue.branches, key=lambda each: each != newest):
            view = view_of(self._catalogue, name)
            proven, differs = self._compared(view, segments)
            proven = max(proven, _equal_image(view, images))
            if differs is None and proven:
                return self._catalogue.branches[name], False
            if furthest is None or proven > furthest[0]:
                furthest = (proven, name, differs or segments[0])
        assert furthest is not None
        proven, parent, segment = furthest
        with map_file(segment.path) as content:
            md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return branch_after(parent, proven, md5), True

    def _compared(self, view: BranchView, segments: Sequence[EditLogSegment]) -> tuple[int, EditLogSegment | None]:
        """Return the last transaction that is proven to be the same in both, and the segment that differs after it.

        Only an identifying transaction proves that both are one history up to it.
        """
        proven = 0
        for segment in segments:
            for piece in view.pieces:
                if segment.first <= piece.last and piece.record.first <= (segment.last or piece.last):
                    found, differs = self._overlap(piece, segment)
                    proven = max(proven, found)
                    if differs:
                        return proven, segment
        return proven, None

    def _overlap(self, piece: Piece, segment: EditLogSegment) -> tuple[int, bool]:
        """Compare an archived part with a segment; return the last proven transaction, and whether they differ."""
        record = piece.record
        if record.first == segment.first and piece.last == record.last:
            with map_file(segment.path) as content:
                if len(content) >= record.size:
                    head = hashlib.md5(content[: record.size], usedforsecurity=False).hexdigest()
                    if head == record.md5:
                        return (record.last if record.last_time else 0), False
        archived = fetch_segment(self._archive, record, self._scratch, piece.last)
        begin, proven, same = max(record.first, segment.first), 0, 0
        for ours, theirs in zip_longest(read_ops(archived, from_txid=begin), read_ops(segment, from_txid=begin)):
            if ours is None or theirs is None:
                # one of them ends earlier, for instance because it was in progress
                break
            if ours != theirs:
                return (same if proven else 0), True
            same = ours.txid
            proven = same if is_identifying(ours) else proven
        return proven, False

    # ---- segments ----------------------------------------------------------------------------------------------

    def _add_segments(self, segments: Sequence[EditLogSegment], branch: Branch, forked: bool) -> list[EditsRecord]:
        known = (
            {}
            if forked
            else {(each.record.first, each.last): each for each in view_of(self._catalogue, branch.name).pieces}
        )
        reached = dict(sorted(known))
        added: list[EditsRecord] = []
        superseded: list[str] = []
        for segment in segments:
            if segment.last is not None and (segment.first, segment.last) in known:
                continue
            if segment.last is not None and forked and segment.last <= branch.fork:
                continue
            record = self._store_segment(segment, branch.name, reached.get(segment.first, 0))
            if record is None:
                continue
            added.append(record)
            reached[record.first] = record.last
            superseded += [
                each.name
                for each in self._catalogue.edits
                if each.first == record.first and each.last < record.last and each.branch == record.branch
            ]
        if added or forked:
            remove = () if self._archive.immutable else tuple(superseded)
            self._catalogue = self._archive.publish(self._catalogue, added, remove, (branch,) if forked else ())
            for name in remove:
                self._archive.store.remove(name)
        return added

    def _store_segment(self, segment: EditLogSegment, branch: str, reached: int) -> EditsRecord | None:
        """Store a segment; None if it has nothing after `reached`."""
        with map_file(segment.path) as content:
            facts = _read_facts(segment, content)
            if facts is None or facts.last <= reached:
                return None
            name = segment_name(facts.first, facts.last) if not segment.in_progress else inprogress_name(facts.first)
            md5 = hashlib.md5(usedforsecurity=False)
            with self._archive.writing(EDITS, name) as out:
                for part in cut_ranges(facts.size, ()):
                    piece = bytes(content[part.start : part.stop])
                    md5.update(piece)
                    out.add(piece)
                about: dict[str, Any] = {
                    "first": facts.first,
                    "last": facts.last,
                    "branch": branch,
                    "finalized": not segment.in_progress,
                    "md5": md5.hexdigest(),
                    "size": facts.size,
                    "first_time": facts.first_time,
                    "last_time": facts.last_time,
                    "layout_version": facts.layout_version,
                    "added": _now(),
                }
                out.finish(about, facts.path_filter)
        return EditsRecord(**asdict(out.stored), **about)

    # ---- images ------------------------------------------------------------------------------------------------

    def _add_image(self, path: Path, branch: str, segments: Sequence[EditLogSegment]) -> ImageRecord | None:
        """Store an image if a restore needs it."""
        name = parse_image(path.name)
        assert name is not None
        if name.rollback or not self._is_wanted(name.txid, branch, segments):
            return None
        record = self._store_image(path, name.txid, branch)
        self._catalogue = self._archive.publish(self._catalogue, [record])
        return record

    def _is_wanted(self, txid: int, branch: str, segments: Sequence[EditLogSegment]) -> bool:
        """Return whether the archive cannot restore `txid` in time, or VERSION has changed since its base image."""
        view = view_of(self._catalogue, branch)
        if not any(each.first <= txid + 1 and txid <= (each.last or txid) for each in segments):
            # without a segment next to it, the history that the image belongs to is unknown
            return not view.images and not view.pieces
        plan = covering_base(view, txid)
        if plan is None:
            return True
        below = [each for each in view.images if each.txid == plan.base.txid]
        same = any(_version_values(each.version) == _version_values(self._version) for each in below)
        return not same or plan.transactions / self._options.replay_rate > self._options.restore_target

    def _store_image(self, path: Path, txid: int, branch: str) -> ImageRecord:
        expected = read_md5_file(path).hex()
        md5 = hashlib.md5(usedforsecurity=False)
        with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image, map_file(path) as content:
            edges = [edge for each in image.sections for edge in (each.offset, each.end)]
            with self._archive.writing(IMAGES, image_name(txid)) as out:
                for part in cut_ranges(len(content), edges):
                    piece = bytes(content[part.start : part.stop])
                    md5.update(piece)
                    out.add(piece)
                if md5.hexdigest() != expected:
                    raise DigestMismatchError(
                        f"its MD5 is {md5.hexdigest()}, and the digest file says {expected}",
                        file=str(path),
                        hint="`checkpointer image verify` shows the damage; nothing was archived.",
                    )
                about: dict[str, Any] = {
                    "txid": txid,
                    "branch": branch,
                    "md5": expected,
                    "size": len(content),
                    "version": self._version,
                    "added": _now(),
                }
                out.finish(about)
        return ImageRecord(**asdict(out.stored), **about)


def _read_facts(segment: EditLogSegment, content: object) -> _Facts | None:
    """Read a segment whole; None if it holds no transaction."""
    cursor = SegmentCursor(
        content,  # type: ignore[arg-type]
        file=str(segment.path),
        first_txid=segment.first,
        last_txid=segment.last,
        in_progress=segment.in_progress,
    )
    first_time = last_time = last = 0
    keys: set[str] = set()
    for op in cursor:
        last = op.txid
        if (at := op_time(op)) is not None:
            first_time = first_time or at
            last_time = max(last_time, at)
        wide = spreads(op)
        for path in op_paths(op):
            keys.update(keys_of(path, spreads=wide))
    if not last or cursor.position <= HEADER_SIZE:
        return None
    return _Facts(
        segment.first, last, cursor.position, first_time, last_time, cursor.layout_version, build_filter(keys)
    )


def _equal_image(view: BranchView, images: Sequence[Path]) -> int:
    """Return the transaction of the newest image that is in the view too; 0 if there is none."""
    known = {(each.txid, each.md5) for each in view.images}
    found = 0
    for path in images:
        name = parse_image(path.name)
        if name is not None and not name.rollback and (name.txid, read_md5_file(path).hex()) in known:
            found = max(found, name.txid)
    return found


def _version_values(text: str) -> frozenset[str]:
    """The lines of a VERSION file without its date."""
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def later_ops(archive: Archive, view: BranchView, txid: int, folder: Path) -> Iterator[EditOp]:
    """The operations of a branch after `txid`, as far as they follow without a gap."""
    expected = txid + 1
    for piece in sorted(view.pieces, key=lambda each: (each.record.first, -each.last)):
        if piece.last < expected or piece.record.first > expected:
            continue
        segment = fetch_segment(archive, piece.record, folder, piece.last)
        for op in read_ops(segment, from_txid=expected):
            expected = op.txid + 1
            yield op
        segment.path.unlink(missing_ok=True)


def _now() -> int:
    return time.time_ns() // 1_000_000
