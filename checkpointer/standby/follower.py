"""Keeps a namespace in step with the shared edits between checkpoints, and saves it when one is due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.errors import CheckpointCancelledError, CheckpointError, StorageError
from checkpointer.loaded_image import next_layout
from checkpointer.merge import MergeResult, Observer, SilentObserver
from checkpointer.standby.gap import closing_images, gap_alarm
from checkpointer.standby.image_source import ImageSource
from checkpointer.standby.log_roller import LogRoller
from checkpointer.standby.namenodes import NameNodes
from checkpointer.standby.tailer import EditTailer
from checkpointer.standby.version import ActiveVersion, Move
from checkpointer.standby.version_watch import VersionWatch
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.rollback import latest_rollback_image, promote_rollback_images
from checkpointer.warm import WarmNamespace
from hadoop_common.errors import HdfsError
from journal.errors import TransactionGapError

__all__ = ["JournalFollower"]

_LOG = logging.getLogger(__name__)
_SLICE_SECONDS = 0.25


class JournalFollower:
    """The warm namespace of a standby; tail and checkpoint exclude each other, any thread may look.

    Args:
        folder: `current` of the shared edits directory.
        storage: where images lie; its lock is held.
        images: where an image comes from when ours does not lead on.
        clock: monotonic seconds, for when to ask for a roll.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        folder: Path,
        storage: StorageDirectories,
        nodes: NameNodes,
        images: ImageSource,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._storage = storage
        self._nodes = nodes
        self._images = images
        self._rebootstrap = config.rebootstrap
        self._warm = WarmNamespace(
            codec=config.image_codec, sub_sections=config.sub_sections, rules=config.replay_rules
        )
        self._tailer = EditTailer(
            self._warm,
            folder,
            in_progress=config.tail_in_progress,
            has_rollback_image=self._has_rollback_image,
            upgrade_finalized=self._upgrade_finalized,
        )
        self._roller = LogRoller(nodes, config.log_roll_period, clock=clock)
        self._version = VersionWatch(nodes, storage.storage_info, folder.parent, self._take_over)
        # Held by whoever reads or changes the namespace.
        self._working = threading.Lock()
        self._closing = threading.Event()
        self._alarm = ""
        self._tailed_at: float | None = None

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new settings from the next step on."""
        self._tailer.in_progress = config.tail_in_progress
        self._roller.period = config.log_roll_period
        self._images.config, self._rebootstrap = config, config.rebootstrap
        self._warm.codec, self._warm.sub_sections = config.image_codec, config.sub_sections

    def close(self) -> None:
        """End a tail that runs at a safe point, and let go of the namespace."""
        self._closing.set()
        with self._working:
            self._warm.close()

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def applied_txid(self) -> int:
        """Newest transaction in the namespace, -1 before the first load."""
        return self._tailer.applied_txid

    @property
    def rollback_due(self) -> bool:
        """Whether a rolling upgrade waits for an image of the namespace as it is."""
        return self._tailer.rollback_due

    @property
    def upgrading(self) -> bool:
        """Whether a rolling upgrade was in progress at `applied_txid`."""
        return self._tailer.upgrading

    def alarms(self) -> list[str]:
        """Why edits are not followed, none come although there are some, or our VERSION is not the cluster's."""
        return [alarm for alarm in (self._alarm, self._roller.alarm, self._version.alarm) if alarm]

    def details(self) -> dict[str, Any]:
        """`appliedTxid` in memory, `sourceTxid` the journal was seen to hold, `activeTxid` of the NameNodes when they
        were last asked (each -1 before the first time), `tailedAt`, `tailingLagSeconds` and `tailingLagTransactions`,
        `rollingUpgrade` whether one is in progress, `rollbackImageDue`, `openSegmentFault`.
        """
        tailer, tailed_at = self._tailer, self._tailed_at
        newest = max(tailer.source_txid, self._roller.active_txid)
        values: dict[str, Any] = {
            "appliedTxid": tailer.applied_txid,
            "sourceTxid": tailer.source_txid,
            "activeTxid": self._roller.active_txid,
            "tailedAt": tailed_at,
            "tailingLagTransactions": max(0, newest - tailer.applied_txid),
            "rollingUpgrade": tailer.upgrading,
            "rollbackImageDue": tailer.rollback_due,
            "openSegmentFault": tailer.open_fault,
        }
        if tailed_at is not None:
            values["tailingLagSeconds"] = round(max(0.0, time.time() - tailed_at), 3)
        return values

    # ---- work ----------------------------------------------------------------------------------------------

    def tail(self, *, may_roll: Callable[[], bool]) -> bool:
        """Apply new edits, and ask for a roll where none come; True where a rollback image has to be made at once.

        A fault is an alarm until a later tail goes well. While a checkpoint runs there is nothing to do.

        Args:
            may_roll: asked before a roll; an active that takes an image at the same time is slow in both.
        """
        self._version.check()
        if not self._follow() or self.rollback_due or not may_roll():
            return self.rollback_due
        # Not under the lock: a NameNode that does not answer must not hold up a checkpoint.
        if self._roller.check(self.applied_txid, self._closing.is_set):
            self._follow()
        return self.rollback_due

    def doubt_version(self, reason: str) -> None:
        """Have the next tail ask the active whether our VERSION is still its own."""
        self._version.doubt(reason)

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Catch up and save: the rollback image where one is due, else everything there is.

        Raises:
            CheckpointError, ImageFormatError, JournalError: nothing was written.
        """
        with self._exclusive(observer.cancelled):
            self._catch_up(observer)
            rollback = self._tailer.rollback_due
            newest = self._storage.latest_image().txid
            if not rollback and self._warm.last_txid <= newest:
                raise CheckpointError(f"no finalized edits after txid {newest}", hint="Roll the active's edit log.")
            result = self._warm.save(self._storage.current_folders(), rollback=rollback, observer=observer)
            if rollback:
                self._tailer.rollback_made()
        return result

    def _follow(self) -> bool:
        """Whether edits could be read and applied, as far as there are any."""
        if not self._working.acquire(blocking=False):
            return False
        observer = _ClosingObserver(self._closing)
        try:
            try:
                self._catch_up(observer)
            except TransactionGapError as gap:
                self._bridge(gap)
                self._catch_up(observer)
        except CheckpointCancelledError:
            return False
        except (HdfsError, OSError) as fault:
            self._raise_alarm(self._explained(fault))
            return False
        except Exception as fault:
            _LOG.exception("a fault of the checkpointer itself")
            self._raise_alarm(f"edits are not followed: {type(fault).__name__}: {fault}")
            return False
        finally:
            self._working.release()
        return True

    def _catch_up(self, observer: Observer) -> None:
        # An image that is ahead of the namespace was put there by someone else.
        if not self._warm.usable or self._storage.latest_image().txid > self._warm.last_txid:
            self._load(observer)
        self._tailer.catch_up(observer)
        self._tailed_at = time.time()
        self._alarm = ""
        if self._tailer.open_fault:
            _LOG.warning(
                "the open segment is left for later: %s", self._tailer.open_fault, extra={"txid": self.applied_txid}
            )

    def _load(self, observer: Observer) -> None:
        """Load the newest image, in the layout of VERSION where that is newer."""
        image = self._storage.verified_image()
        self._warm.layout_version = next_layout(image.path, self._storage.storage_info().layout_version)
        self._tailer.load(image, observer)

    @contextmanager
    def _exclusive(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait for whoever works on the namespace, which may take long when an image is fetched or loaded.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
        while not self._working.acquire(timeout=_SLICE_SECONDS):
            if cancelled():
                raise CheckpointCancelledError("cancelled while edits were followed")
        try:
            yield
        finally:
            self._working.release()

    def _explained(self, fault: Exception) -> str:
        if isinstance(fault, TransactionGapError):
            return gap_alarm(fault, self._folder, self._nodes.image_txids())
        return f"edits are not followed: {fault}"

    def _raise_alarm(self, text: str) -> None:
        if text != self._alarm:
            _LOG.error("%s", text, extra={"txid": self.applied_txid, "phase": "replay"})
        self._alarm = text

    # ---- other images --------------------------------------------------------------------------------------

    def _bridge(self, gap: TransactionGapError) -> None:
        """Fetch the newest image of a NameNode that makes missing edits needless, if that is wanted.

        Raises:
            TransactionGapError: it is not, or there is none.
            HdfsError: it could not be fetched.
        """
        closing = closing_images(gap, self._nodes.image_txids()) if self._rebootstrap else {}
        newest = self._storage.latest_image().txid
        address, txid = max(closing.items(), key=lambda item: item[1], default=("", -1))
        if txid <= newest:
            raise gap
        _LOG.warning(
            "transactions from %d on are missing, the image at txid %d of %s is fetched instead",
            gap.expected,
            txid,
            address,
            extra={"txid": txid, "phase": "fetch", "target": address},
        )
        self._images.fetch(self._nodes.http_address(address), txid, self._storage.storage_info(), self._closing.is_set)

    def _take_over(self, move: Move, active: ActiveVersion) -> None:
        """Make the storage that of the active: its image first, VERSION last, so that a kill has it asked again."""
        with self._exclusive(self._closing.is_set):
            if move is Move.FETCH:
                newest = self._storage.latest_image().txid
                if newest > active.image_txid:
                    raise StorageError(
                        f"our newest image is of txid {newest}, that of {active.address} of {active.image_txid}, and "
                        "it was upgraded or rolled back since",
                        hint="Make an image there (hdfs dfsadmin -saveNamespace) after an upgrade; after a rollback "
                        "empty dfs.namenode.name.dir, so that it begins with the NameNode's image.",
                    )
                self._images.fetch(active.http_address, active.image_txid, active.info, self._closing.is_set)
            self._storage.write_version(active.info)
            # The next tail loads the newest image, in the new layout.
            self._warm.close()

    # ---- rolling upgrade -----------------------------------------------------------------------------------

    def _has_rollback_image(self, start_txid: int) -> bool:
        newest = latest_rollback_image(self._storage.current_folders())
        return newest is not None and newest.txid >= start_txid

    def _upgrade_finalized(self, txid: int) -> None:
        _LOG.info("the rolling upgrade was finalized at txid %d", txid, extra={"txid": txid, "phase": "replay"})
        self._version.doubt(f"the rolling upgrade was finalized at txid {txid}")
        for warning in promote_rollback_images(self._storage.current_folders(), txid):
            _LOG.warning("%s", warning)


class _ClosingObserver(SilentObserver):
    """Ends a tail when the follower is closed."""

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing

    def cancelled(self) -> bool:
        return self._closing.is_set()
