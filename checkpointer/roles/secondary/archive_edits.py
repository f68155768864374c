"""Edits before the NameNode's image, which only an archive needs.

If the NameNode saves an image itself, a checkpoint begins with that image, and the edits between our newest image and
that image are not merged. The archive would have a gap there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from checkpointer.roles.secondary.fetch import Fetcher
from checkpointer.roles.secondary.set_back import SecondaryPast
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.proof import Witness
from checkpointer.transfer.common import TransferCancelledError
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.names import segment_name
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_protocol import EditLogManifest

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WantedEdits:
    """Edits from `first` to `last`; our segments up to `compared` belong to the NameNode's past."""

    first: int
    compared: int
    last: int
    info: StorageInfo


@dataclass(eq=False)
class ArchiveEdits:
    """Fetcher of edits that only the archive needs. Only one thread at a time may use it.

    The edits are fetched after the upload, because a checkpoint must not wait for them. The process of the archive
    accepts segments in any order. A fault is only logged; the next checkpoint also fetches the missing segments.
    """

    fetcher: Fetcher
    storage: SecondaryStorage
    past: SecondaryPast
    _wanted: _WantedEdits | None = field(init=False, default=None)
    # whether `fetch` has not ended since the last checkpoint
    _due: bool = field(init=False, default=False)

    def want(self, base_txid: int, info: StorageInfo) -> None:
        """Determine the edits up to the NameNode's image at `base_txid` that the archive needs.

        They begin with our oldest file, which the next purge may remove.
        """
        try:
            images, held = self.storage.held_images(), self.storage.segments()
        except (HdfsError, OSError) as fault:
            _LOG.warning("edits before the NameNode's image are not fetched for the archive: %s", error_text(fault))
            return
        first = min([*(each.txid + 1 for each in images), *(each.first for each in held)], default=base_txid + 1)
        # an image was made from segments of the NameNode's past
        made = (each.txid for each in images if each.txid <= base_txid and self.past.is_ours(each))
        compared = max(made, default=-1)
        if (before := self._wanted) is not None:
            first, compared = min(first, before.first), min(compared, before.compared)
        self._wanted, self._due = _WantedEdits(first, compared, base_txid, info), True

    def forget(self) -> None:
        """Forget the wanted edits, because our images and edits belong to a lost past."""
        self._wanted, self._due = None, False

    def fetch(
        self, manifest: Callable[[int], EditLogManifest], witness: Witness, cancelled: Callable[[], bool]
    ) -> None:
        """Fetch the wanted segments that are missing, and segments that belong to another past.

        After a cancellation, the next call continues.

        Args:
            manifest: returns the NameNode's segments from a txid on.
        """
        if self._wanted is None or not self._due:
            return
        try:
            if self._fetch(self._wanted, manifest, witness, cancelled):
                self._wanted = None
        except (TransferCancelledError, CheckpointCancelledError) as error:
            _LOG.info("edits for the archive will be fetched later: %s", error.message)
            return
        self._due = False

    def _fetch(
        self,
        wanted: _WantedEdits,
        manifest: Callable[[int], EditLogManifest],
        witness: Witness,
        cancelled: Callable[[], bool],
    ) -> bool:
        """Return whether all wanted segments of the NameNode are stored."""
        try:
            held = {(each.first, each.last) for each in self.storage.segments()}
            logs = manifest(wanted.first).logs if wanted.first <= wanted.last else ()
        except CheckpointCancelledError:
            raise
        except (HdfsError, OSError) as fault:
            _LOG.warning("edits before the NameNode's image are not fetched for the archive: %s", error_text(fault))
            return False
        complete = True
        for log in logs:
            if log.in_progress or not wanted.first <= log.first <= log.last <= wanted.last:
                continue
            if log.last <= wanted.compared and (log.first, log.last) in held:
                continue
            try:
                self.fetcher.supply(log, wanted.info, witness, cancelled)
            except (TransferCancelledError, CheckpointCancelledError):
                raise
            except (HdfsError, OSError) as fault:
                complete = False
                name = segment_name(log.first, log.last)
                _LOG.warning("%s is not fetched for the archive, which may lack it: %s", name, error_text(fault))
        return complete
