"""Shared edits in a mounted directory: finalized segments, and the durable part of the open segment."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpointer.roles.standby.edit_source import EditsView
from checkpointer.storage.inspector import read_storage_info
from engine.in_progress_segments import examine_in_progress_segment
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.storage_info import ForeignDirectoryError, StorageInfo
from journal.errors import JournalError, TransactionGapError
from journal.journal import ReadableSegment
from journal.ops import EditOp
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments, read_ops, select_segments
from journal.segment_format import SegmentCursor


@dataclass(frozen=True, slots=True)
class FinalizedFile:
    """A finalized segment in the directory (`ReadableSegment`)."""

    first: int
    last: int
    segment: EditLogSegment

    @property
    def in_progress(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return str(self.segment.path)

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Yield operations `from_txid` to `last`; raise the same errors as `read_ops`."""
        return read_ops(self.segment, from_txid=from_txid)

    def transactions(self, from_txid: int) -> SegmentTransactions:
        """Return operations `from_txid` to `last` for the replay of a complete segment."""
        return SegmentTransactions([self.segment], from_txid)


@dataclass(frozen=True, slots=True)
class OpenTail:
    """The valid part of a segment in progress (`ReadableSegment`), already read as bytes; `last` is its last complete
    operation.
    """

    segment: EditLogSegment
    content: bytes
    last: int

    @property
    def first(self) -> int:
        return self.segment.first

    @property
    def in_progress(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return str(self.segment.path)

    def read(self, from_txid: int) -> Iterator[EditOp]:
        return SegmentCursor(
            self.content, file=self.segment.path.name, first_txid=self.first, last_txid=self.last, from_txid=from_txid
        )


def list_journal(folder: Path) -> list[EditLogSegment]:
    """Return the segments in the `current` folder of a shared edits directory.

    Raises:
        StorageError: the folder cannot be read.
    """
    try:
        return list_segments(folder)
    except OSError as fault:
        raise StorageError(
            f"{folder} cannot be read: {fault.strerror or fault}",
            hint="Check that dfs.namenode.shared.edits.dir is mounted on this host and readable.",
        ) from fault


def view_journal(folder: Path, from_txid: int, *, in_progress: bool) -> EditsView:
    """Return the edits that can be replayed from `from_txid` on. After a gap, list the folder again, because a listing
    may miss a file that is being renamed.

    Raises:
        TransactionGapError: transactions are missing.
        StorageError: the directory cannot be read.
    """
    try:
        return _view(list_journal(folder), from_txid, in_progress=in_progress)
    except TransactionGapError:
        return _view(list_journal(folder), from_txid, in_progress=in_progress)


def _view(segments: Sequence[EditLogSegment], from_txid: int, *, in_progress: bool) -> EditsView:
    chosen = select_segments(segments, from_txid)
    finalized = _finalized(segments)
    tail, fault = _opened(segments, finalized) if in_progress else (None, "")
    reached = max(finalized, from_txid - 1)
    if tail is not None and tail.first > reached + 1:
        raise TransactionGapError(reached + 1, tail.first, file=tail.name)
    last = max(finalized, from_txid - 1 if tail is None else tail.last)
    files = tuple(FinalizedFile(each.first, each.last, each) for each in chosen if each.last is not None)
    return EditsView(files, tail, last, fault)


def _open_tail(segment: EditLogSegment) -> tuple[OpenTail | None, str]:
    """Read the open segment instead of mapping it into memory, because the active NameNode truncates the file when it
    finalizes the segment.
    """
    try:
        content = segment.path.read_bytes()
        found = examine_in_progress_segment(segment, content) if content else None
    except FileNotFoundError:
        # The active NameNode has just finalized the segment; the next listing contains its new name.
        return None, ""
    except (OSError, JournalError) as fault:
        return None, error_text(fault)
    if found is None or found.segment.last is None:
        return None, ""
    return OpenTail(segment, content, found.segment.last), ""


def present_segments(folder: Path, first: int, last: int) -> list[ReadableSegment]:
    """Return present segments as described in `EditSource.present`."""
    segments = list_journal(folder)
    found: list[ReadableSegment] = [
        FinalizedFile(each.first, each.last, each) for each in segments if each.last is not None and each.last >= first
    ]
    if (finalized := _finalized(segments)) < last:
        found += filter(None, [_opened(segments, finalized)[0]])
    return found


def _finalized(segments: Sequence[EditLogSegment]) -> int:
    return max((segment.last for segment in segments if segment.last is not None), default=-1)


def _opened(segments: Sequence[EditLogSegment], finalized: int) -> tuple[OpenTail | None, str]:
    """Return the open segment; skip older open segments, which failovers left before the end of the finalized
    segments.
    """
    later = [segment for segment in segments if segment.in_progress and segment.first > finalized]
    return _open_tail(min(later, key=lambda each: each.first)) if later else (None, "")


_LOG = logging.getLogger(__name__)


class FolderEdits:
    """The edits in the storage directory `root` (`EditSource`)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / "current"

    @property
    def location(self) -> str:
        return str(self._folder)

    def open(self, namespace: StorageInfo) -> None:
        try:
            theirs = self.version()
        except ForeignDirectoryError:
            raise
        except StorageError as error:
            _LOG.warning("the namespace of the shared directory is unknown: %s", error)
            return
        if (theirs.namespace_id, theirs.cluster_id) != (namespace.namespace_id, namespace.cluster_id):
            raise StorageError(
                f"{self._folder} contains edits of another namespace, {theirs.colon_string()}; our images belong to "
                f"{namespace.colon_string()}",
                hint="Check dfs.namenode.shared.edits.dir. To use these edits: if the old namespace may still be "
                "needed, first run `checkpointer checkpoint --conf DIR --save-aside`. Then stop the daemon, and move "
                "the contents of this node's dfs.namenode.name.dir away; they may be the last copy of the other "
                "namespace. Leave an empty folder `current` there, and start the daemon.",
            )

    def close(self) -> None:
        """Do nothing, because no file remains open between two calls."""

    def version(self) -> StorageInfo:
        return read_storage_info(self._root)

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        return view_journal(self._folder, from_txid, in_progress=in_progress)

    def update_finalized(self, from_txid: int) -> None:
        """Do nothing, because `finalized_txid` lists the folder."""

    def finalized_txid(self) -> int:
        return max((segment.last for segment in self.files() if segment.last is not None), default=-1)

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]:
        return present_segments(self._folder, first, last)

    def files(self) -> list[EditLogSegment]:
        return list_journal(self._folder)

    def journal_nodes(self) -> None:
        """Return None, because there are no JournalNodes."""
