"""Shared edits in a directory that both sides have mounted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from checkpointer.roles.standby.edit_source import EditsView
from checkpointer.roles.standby.journal_view import list_journal, present_segments, view_journal
from checkpointer.storage.lookup import read_storage_info
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment

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
        except StorageError as error:
            _LOG.warning("whose edits the shared directory holds is not known: %s", error)
            return
        if (theirs.namespace_id, theirs.cluster_id) != (namespace.namespace_id, namespace.cluster_id):
            raise StorageError(
                f"{self._folder} holds edits of another namespace, {theirs.colon_string()}; our images are of "
                f"{namespace.colon_string()}",
                hint="Check dfs.namenode.shared.edits.dir. To begin with these edits, move the contents of this node's "
                "dfs.namenode.name.dir away first: they may be all that is left of the other namespace. Leave an empty "
                "folder `current` there.",
            )

    def close(self) -> None:
        """Nothing is held between two looks."""

    def version(self) -> StorageInfo:
        return read_storage_info(self._root)

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        return view_journal(self._folder, from_txid, in_progress=in_progress)

    def look(self, from_txid: int) -> None:
        """Nothing: `finalized_txid` lists the folder itself."""

    def finalized_txid(self) -> int:
        return max((segment.last for segment in self.files() if segment.last is not None), default=-1)

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]:
        return present_segments(self._folder, first, last)

    def files(self) -> list[EditLogSegment]:
        return list_journal(self._folder)

    def journal_nodes(self) -> None:
        """There are none."""
