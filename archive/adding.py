"""Adds the files of a storage directory to an archive: new segments, and a base image if needed.

Each segment is compared with the archived bytes of its transactions. If the bytes are equal, the segment is already
archived. If the bytes differ, the NameNode was set back. In this case, the segments are added to another branch, and
existing objects are not changed.

The segment in progress is archived in parts. A finalized segment supersedes the parts within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from archive.archive import Archive
from archive.branch_choice import BranchChoice, SegmentDigests
from archive.catalogue import IMAGES, Branch, Catalogue, EditsRecord, ImageRecord, Record
from archive.errors import ArchiveError, CrossingWritersError, OtherHistoryError
from archive.moments import covering_base, newest_moment, reach, removed_edits, superseded_parts, view_of
from archive.scratch import scratch_folder
from archive.storing import position_after, store_image, store_segment
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.names import VERSION, image_name, parse_image
from hadoop_common.regular_file import read_regular
from hadoop_common.storage_info import MAX_VERSION_BYTES, parse_version, refuse_foreign
from image_format.md5_file import md5_path
from journal.segment_file import EditLogSegment, list_segments, map_file
from journal.segment_format import HEADER_SIZE

_LAST = (1 << 63) - 1
_TRIES = 3
REPLAY_RATE = 500_000
"""Assumed replay rate of a restore, in transactions per second."""


@dataclass(frozen=True, slots=True)
class AddOptions:
    """Rules for storing base images and reading segments.

    Attributes:
        restore_target: maximum replay time of a restore, in seconds.
        replay_rate: transactions per second that a restore replays.
        in_progress: whether the segment in progress is also archived.
        forks: whether files of another history begin a branch; otherwise, they are refused.
    """

    restore_target: float = 600.0
    replay_rate: float = REPLAY_RATE
    in_progress: bool = False
    forks: bool = True


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a storage directory.

    Attributes:
        version: text of VERSION.
        segments: segments in the order of their first transactions; a segment in progress comes last.
        images: all images that have digest files.
    """

    version: str
    segments: tuple[EditLogSegment, ...]
    images: tuple[Path, ...]

    @property
    def exist(self) -> bool:
        """Whether all these files still exist under their names."""
        return all(path.exists() for path in (*self.images, *(each.path for each in self.segments)))


@dataclass(frozen=True, slots=True)
class Added:
    """The result of an addition.

    Attributes:
        branch: the history to which the storage directory belongs.
        forked: whether that history was new.
        last_txid: last transaction of the branch.
        restorable: newest transaction of the branch that can be restored; -1 if the branch has no image.
    """

    branch: str
    forked: bool
    edits: tuple[EditsRecord, ...]
    images: tuple[ImageRecord, ...]
    last_txid: int
    restorable: int


def find_files(directory: Path, edits: Sequence[Path] = (), *, in_progress: bool = False) -> FoundFiles:
    """List `directory/current`.

    Args:
        edits: further directories that contain `current`, such as shared edits; if several of them contain a segment,
            the first copy is read.

    Raises:
        ForeignDirectoryError: `directory` belongs to a node other than a NameNode.
        ArchiveError: a directory cannot be read.
    """
    refuse_foreign(directory)
    current = directory / "current"
    try:
        version = read_regular(current / VERSION, MAX_VERSION_BYTES).decode()
        images = sorted(path for path in current.iterdir() if parse_image(path.name) and md5_path(path).is_file())
        segments = find_segments([directory / "current", *(each / "current" for each in edits)], in_progress)
    except (OSError, UnicodeError) as fault:
        name = str(getattr(fault, "filename", ""))
        if (unreadable := next((each for each in edits if name == str(each / "current")), None)) is not None:
            problem = f"{unreadable} is not a directory of edits that can be read: {error_text(fault)}"
            hint = "Specify a directory that contains `current` with segments, such as dfs.namenode.shared.edits.dir."
        else:
            problem = f"{directory} is not a storage directory that can be read: {error_text(fault)}"
            hint = "Specify a NameNode's or checkpointer's storage directory, which has current/VERSION."
        raise ArchiveError(problem, hint=hint_for(fault, hint)) from fault
    return FoundFiles(version, segments, tuple(images))


def find_segments(folders: Sequence[Path], in_progress: bool) -> tuple[EditLogSegment, ...]:
    """List the segments in `current` folders; if several folders contain a segment, list only the first copy.

    Segments in progress that begin before the end of the finalized segments are skipped; a failover may leave them.

    Raises:
        OSError: a folder cannot be read.
    """
    found = {(each.first, each.last): each for folder in reversed(folders) for each in list_segments(folder)}.values()
    finalized = sorted((each for each in found if each.last is not None), key=lambda each: (each.first, each.last))
    reached = max((each.last for each in finalized if each.last is not None), default=-1)
    later = [each for each in found if in_progress and each.last is None and each.first > reached]
    return (*finalized, *sorted(later, key=lambda each: each.first)[:1])


def add_directory(
    archive: Archive, directory: Path, options: AddOptions = AddOptions(), edits: Sequence[Path] = ()
) -> Added:
    """Add the files in `directory/current` that the archive lacks; see `find_files` and `add_files`.

    If a running NameNode purges or finalizes listed files before they are read, the files are listed again.
    """
    for left in reversed(range(_TRIES)):
        found = find_files(directory, edits, in_progress=options.in_progress)
        try:
            return add_files(archive, found, options)
        except (HdfsError, OSError):
            if not left or found.exist:
                raise
    raise AssertionError("unreachable")


def add_files(
    archive: Archive,
    found: FoundFiles,
    options: AddOptions = AddOptions(),
    digests: SegmentDigests | None = None,
    image_branch: str = "",
    expected: str = "",
) -> Added:
    """Add the found files that the archive lacks.

    Args:
        digests: digests of files that were compared before.
        image_branch: the only branch to which images are added; "" for any.
        expected: see `BranchChoice.choose`.

    Raises:
        ArchiveError: the archive belongs to another namespace or cannot be written.
        CrossingWritersError: another writer adds a different history or begins the archive at the same time.
        OtherHistoryError: the files would begin a branch, but the options do not allow new branches; nothing was added.
        HdfsError: a file is damaged; objects that were published before the error remain.
    """
    archive.require_one_cluster()
    archive.adopt(parse_version(found.version.encode(), VERSION))
    with ExitStack() as resources:
        # created on demand, because few additions fetch an object
        scratch = cache(lambda: resources.enter_context(scratch_folder()))
        for left in reversed(range(_TRIES)):
            addition = _Addition(archive, options, found.version, scratch, digests or SegmentDigests())
            try:
                return addition.run(found, image_branch, expected)
            except CrossingWritersError:
                # compare everything again, now including the objects that the other writer has published
                if not left:
                    raise
    raise AssertionError("unreachable")


class _Addition:
    """One run of `add_files`."""

    def __init__(
        self, archive: Archive, options: AddOptions, version: str, scratch: Callable[[], Path], digests: SegmentDigests
    ) -> None:
        self._archive = archive
        self._options = options
        self._version = version
        self._scratch = scratch
        self._digests = digests
        self._catalogue = archive.writable_catalogue()
        # names of the objects that this run has published
        self._own: list[str] = []
        # last transactions of open segments before they were compared
        self._compared: dict[int, int] = {}

    def run(self, found: FoundFiles, image_branch: str, expected: str) -> Added:
        segments = found.segments
        self._compared = {each.first: _end_of(each) for each in segments if each.in_progress}
        choice = BranchChoice(self._archive, self._catalogue, self._scratch, self._digests)
        branch, forked = choice.choose(segments, found.images, expected)
        self._digests.keep(segments)
        if forked and not self._options.forks:
            raise OtherHistoryError(segments[0].first)
        allowed = found.images if image_branch in ("", branch.name) else ()
        images: list[ImageRecord] = []
        edits: list[EditsRecord] = []
        try:
            if not self._catalogue.records:
                # list the first image together with its edits, because an image alone does not show to which history
                # later files belong
                images += islice(self._store_images(allowed, branch.name, segments), 1)
            for record in self._store_segments(segments, branch, forked):
                edits.append(record)
        except (HdfsError, OSError):
            stored: list[Record] = [*images, *edits]
            self._remove([each.name for each in stored])
            raise
        if images or edits or forked:
            before = self._catalogue
            self._publish([*images, *edits], (branch,) if forked else ())
            self._verify(before, branch.name, segments)
        if not self._archive.immutable and (superseded := superseded_parts(self._catalogue.edits)):
            self._catalogue = self._archive.publish(self._catalogue, remove=superseded)
            self._remove(superseded)
        for image in self._store_images(allowed, branch.name, segments):
            self._publish([image])
            images.append(image)
        view = view_of(self._catalogue, branch.name)
        return Added(branch.name, forked, tuple(edits), tuple(images), view.last_txid, newest_moment(view))

    def _publish(self, records: Sequence[Record], branches: Sequence[Branch] = ()) -> None:
        self._catalogue = self._archive.publish(self._catalogue, records, branches=branches)
        self._own += [each.name for each in records]

    def _remove(self, names: Sequence[str]) -> None:
        """Remove objects that are not listed."""
        if not self._archive.immutable:
            for name in names:
                self._archive.store.remove(name)

    # ---- segments ----------------------------------------------------------------------------------------------

    def _store_segments(
        self, segments: Sequence[EditLogSegment], branch: Branch, forked: bool
    ) -> Iterator[EditsRecord]:
        """Store the edits that the archive lacks."""
        view = None if forked else view_of(self._catalogue, branch.name)
        pieces = () if view is None else view.pieces
        # retention rules removed these edits, and a newer image replaces them
        newest = max((each.txid for each in view.images), default=-1) if view is not None else -1
        pruned = {each for each in removed_edits(self._catalogue) if each[1] <= newest}
        known: dict[int, int] = {}
        for each in pieces:
            if each.record.finalized:
                known[each.record.first] = max(each.last, known.get(each.record.first, 0))
        for segment in segments:
            if segment.last is not None and segment.last <= known.get(segment.first, 0):
                continue
            if (segment.first, segment.last) in pruned:
                continue
            if segment.last is not None and forked and segment.last <= branch.fork:
                continue
            # the earlier transactions of the open segment are already archived
            reached = 0 if segment.last is not None else reach(pieces, segment.first - 1)
            if self._compared.get(segment.first, reached) < reached:
                # the comparison did not include these archived transactions; the next addition compares them
                continue
            record = self._store_segment(segment, branch.name, reached)
            if record is not None:
                yield record

    def _verify(self, before: Catalogue, branch: str, segments: Sequence[EditLogSegment]) -> None:
        """Withdraw all additions if another writer has published a different past since `before`.

        Only one writer may begin an empty archive, because the past of another writer's files is unknown until that
        writer has published edits. That writer may archive another namespace, and its identity may have replaced ours.
        """
        known = before.names.union(self._own)
        try:
            if before.records:
                choice = BranchChoice(self._archive, self._catalogue, self._scratch, self._digests)
                crossed = choice.other_past(branch, known, segments) is not None
            else:
                self._archive.adopt(parse_version(self._version.encode(), VERSION))
                crossed = not known.issuperset(self._catalogue.names)
        except Exception:
            self._take_back()
            raise
        if crossed:
            self._take_back()
            raise CrossingWritersError(branch)

    def _take_back(self) -> None:
        self._archive.publish(self._catalogue, remove=self._own)
        self._remove(self._own)
        self._own = []

    def _store_segment(self, segment: EditLogSegment, branch: str, reached: int) -> EditsRecord | None:
        """Store a segment, or its part after `reached`; return None if no transaction follows `reached`."""
        with map_file(segment.path) as content:
            position, first = HEADER_SIZE, segment.first
            if reached >= first:
                position, first = position_after(segment, content, reached)
            return store_segment(self._archive, segment, content, position, first, branch)

    # ---- images ------------------------------------------------------------------------------------------------

    def _store_images(
        self, paths: Sequence[Path], branch: str, segments: Sequence[EditLogSegment]
    ) -> Iterator[ImageRecord]:
        """Store the images that a restore needs, one at a time."""
        for path in paths:
            name = parse_image(path.name)
            assert name is not None
            if not name.rollback and self._is_wanted(name.txid, branch, segments):
                yield store_image(self._archive, path, name.txid, branch, self._version)

    def _is_wanted(self, txid: int, branch: str, segments: Sequence[EditLogSegment]) -> bool:
        """Return whether the archive needs an image: it cannot restore `txid` fast enough, or VERSION has changed since
        the base image.
        """
        view = view_of(self._catalogue, branch)
        removed = any(each.startswith(f"{IMAGES}/{image_name(txid)}-") for each in self._catalogue.removed)
        if removed and any(each.txid > txid for each in view.images):
            # retention rules removed this image
            return False
        archived = max((each.last for each in view.pieces), default=-1)
        if not any(each.first <= txid + 1 and txid <= (each.last or archived) for each in segments):
            # if there is no segment next to the image, the history of the image is unknown
            return not self._catalogue.records
        plan = covering_base(view, txid)
        if plan is None:
            return True
        below = [each for each in view.images if each.txid == plan.base.txid]
        same = any(_version_values(each.version) == _version_values(self._version) for each in below)
        return not same or plan.transactions / self._options.replay_rate > self._options.restore_target


def _end_of(segment: EditLogSegment) -> int:
    """Return the last transaction in a segment in progress, or `first` - 1 if the segment is empty."""
    with map_file(segment.path) as content:
        if len(content) < HEADER_SIZE:
            return segment.first - 1
        return position_after(segment, content, _LAST)[1] - 1


def _version_values(text: str) -> frozenset[str]:
    """Return the lines of a VERSION file without its date."""
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
