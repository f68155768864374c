"""Edits before the NameNode's image, which only an archive needs.

If the NameNode saves an image itself, a checkpoint begins with that image, and the edits between our newest image and
that image are not merged. The archive would have a gap there.

Only the fetcher's memory records which of these edits are still missing. After a restart, the fetcher determines them
again before the first upload. Until that upload, the NameNode keeps an earlier image, and therefore all edits after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from checkpointer.errors import TransferError
from checkpointer.roles.secondary.fetch import Fetcher
from checkpointer.roles.secondary.set_back import SecondaryPast
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.proof import Witness
from checkpointer.transfer.common import TransferCancelledError, TransferInterruptedError
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_protocol import EditLogManifest

_LOG = logging.getLogger(__name__)
_GAP_HINT = (
    "No action is needed for checkpoints. Increase dfs.namenode.num.extra.edits.retained of the NameNode, so that it "
    "keeps edits longer."
)


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

    The edits are fetched before the upload, because the NameNode purges them once it has our image. The process of the
    archive accepts segments in any order. A fault does not prevent the upload; the next call retries.
    """

    fetcher: Fetcher
    storage: SecondaryStorage
    past: SecondaryPast
    _wanted: _WantedEdits | None = field(init=False, default=None)
    # whether the edits that the previous process may have wanted are known
    _is_resumed: bool = field(init=False, default=False)
    # end of the last gap that was logged
    _last_gap: int = field(init=False, default=-1)
    _fault: RecurringFault = field(init=False)

    def __post_init__(self) -> None:
        self._fault = RecurringFault(_LOG, "edits for the archive were fetched")

    def want(self, base_txid: int, info: StorageInfo) -> None:
        """Determine the edits up to the NameNode's image at `base_txid` that the archive needs.

        They begin with our oldest file, which the next purge may remove.
        """
        try:
            images, held = self.storage.held_images(), self.storage.segments()
        except (HdfsError, OSError) as fault:
            self._failed(fault)
            return
        first = min([*(each.txid + 1 for each in images), *(each.first for each in held)], default=base_txid + 1)
        # an image was made from segments of the NameNode's past
        made = (each.txid for each in images if each.txid <= base_txid and self.past.is_ours(each))
        compared = max(made, default=-1)
        if (before := self._wanted) is not None:
            first, compared = min(first, before.first), min(compared, before.compared)
        self._wanted, self._is_resumed = _WantedEdits(first, compared, base_txid, info), True

    def _resume(self, manifest: Callable[[int], EditLogManifest], extra_edits: int) -> None:
        """Determine the edits that the previous process may not have fetched yet.

        The NameNode's segments begin `extra_edits` transactions before its older image. All earlier edits were
        available when this image was made.
        """
        if self._is_resumed:
            return
        try:
            images, logs = self.storage.held_images(), manifest(0).logs
            if len(images) > 1 and logs:
                # our newest image was made from the image before it
                base = images[1].txid
                self._wanted = _WantedEdits(logs[0].first + extra_edits, base, base, self.storage.storage_info())
        except (HdfsError, OSError) as fault:
            _LOG.debug("it is not known yet whether the archive needs edits: %s", error_text(fault))
        else:
            self._is_resumed = True

    def forget(self) -> None:
        """Forget the edits to fetch, because our images and edits belong to a lost past."""
        self._wanted, self._last_gap = None, -1
        self._fault.forget()

    def fetch(
        self,
        manifest: Callable[[int], EditLogManifest],
        witness: Witness,
        cancelled: Callable[[], bool],
        *,
        extra_edits: int,
    ) -> None:
        """Fetch the wanted segments that are missing here or belong to another past; do nothing if our newest image may
        belong to another past.

        After a fault or a cancellation, which is only logged, the next call continues.

        Args:
            manifest: returns the NameNode's segments from a txid on.
            extra_edits: number of transactions that the NameNode keeps before its oldest image.
        """
        self._resume(manifest, extra_edits)
        if self._wanted is None:
            return
        try:
            images = self.storage.held_images()
            if images and not self.past.compare(images[0], witness).holds:
                # the offer of the image reports why
                return
            self._fetch(self._wanted, manifest, witness, cancelled)
        except (TransferCancelledError, CheckpointCancelledError) as error:
            _LOG.info("edits for the archive will be fetched later: %s", error.message)
        except (HdfsError, OSError) as fault:
            self._failed(fault)
        else:
            self._wanted = None
            self._fault.ended()

    def _fetch(
        self,
        wanted: _WantedEdits,
        manifest: Callable[[int], EditLogManifest],
        witness: Witness,
        cancelled: Callable[[], bool],
    ) -> None:
        """Fetch the wanted segments of the NameNode.

        Raises:
            HdfsError, OSError: not all of them are stored. If a segment cannot be fetched, the others are fetched
                nevertheless, unless the connection or our storage fails.
        """
        if wanted.first > wanted.last:
            return
        held = {(each.first, each.last) for each in self.storage.segments() if each.last is not None}
        theirs = [log for log in manifest(wanted.first).logs if not log.in_progress]
        self._report_gaps(wanted, [*held, *((log.first, log.last) for log in theirs)])
        refusal: TransferError | None = None
        for log in theirs:
            if not wanted.first <= log.first <= log.last <= wanted.last:
                continue
            if log.last <= wanted.compared and (log.first, log.last) in held:
                continue
            try:
                self.fetcher.supply(log, wanted.info, witness, cancelled)
            except (TransferCancelledError, TransferInterruptedError):
                raise
            except TransferError as fault:
                refusal = refusal or fault
        if refusal is not None:
            raise refusal

    def _report_gaps(self, wanted: _WantedEdits, present: Sequence[tuple[int, int]]) -> None:
        """Log the wanted transactions that no segment contains; `present` contains the bounds of segments."""
        expected = wanted.first
        relevant = sorted(each for each in present if each[0] <= wanted.last)
        for first, last in [*relevant, (wanted.last + 1, wanted.last + 1)]:
            if first > expected and first - 1 > self._last_gap:
                self._last_gap = first - 1
                _LOG.warning(
                    "the archive may lack the transactions %d to %d, which the NameNode no longer lists; next: %s",
                    expected,
                    first - 1,
                    _GAP_HINT,
                )
            expected = max(expected, last + 1)

    def _failed(self, fault: Exception) -> None:
        problem = f"the archive may lack edits before the NameNode's image: {error_text(fault)}"
        hint = fault.hint if isinstance(fault, HdfsError) else ""
        self._fault.occurred(problem, hint=hint, level=logging.WARNING)
