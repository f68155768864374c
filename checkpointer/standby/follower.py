"""Keeps a namespace in step with the shared edits between checkpoints, and saves it when one is due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.errors import CheckpointCancelledError, CheckpointError
from checkpointer.merge import MergeResult, Observer, SilentObserver
from checkpointer.standby.gap import gap_alarm
from checkpointer.standby.log_roller import LogRoller
from checkpointer.standby.namenodes import NameNodes
from checkpointer.standby.tailer import EditTailer
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.rollback import latest_rollback_image, promote_rollback_images
from checkpointer.warm import WarmNamespace
from hadoop_common.errors import HdfsError
from journal.errors import TransactionGapError

__all__ = ["JournalFollower"]

_LOG = logging.getLogger(__name__)


class JournalFollower:
    """The warm namespace of a standby; tail and checkpoint exclude each other, any thread may look.

    Args:
        folder: `current` of the shared edits directory.
        storage: where images lie; its lock is held.
        clock: monotonic seconds, for when to ask for a roll.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        folder: Path,
        storage: StorageDirectories,
        nodes: NameNodes,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._storage = storage
        self._nodes = nodes
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
        # Held by whoever reads or changes the namespace.
        self._working = threading.Lock()
        self._closing = threading.Event()
        self._alarm = ""
        self._tailed_at: float | None = None

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new settings from the next step on."""
        self._tailer.in_progress = config.tail_in_progress
        self._roller.period = config.log_roll_period
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
        """Why edits are not followed, or none come although there are some."""
        return [alarm for alarm in (self._alarm, self._roller.alarm) if alarm]

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
        if not self._follow() or self.rollback_due or not may_roll():
            return self.rollback_due
        # Not under the lock: a NameNode that does not answer must not hold up a checkpoint.
        if self._roller.check(self.applied_txid, self._closing.is_set):
            self._follow()
        return self.rollback_due

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Catch up and save: the rollback image where one is due, else everything there is.

        Raises:
            CheckpointError, ImageFormatError, JournalError: nothing was written.
        """
        with self._working:
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
        try:
            self._catch_up(_ClosingObserver(self._closing))
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
            self._tailer.load(self._storage.verified_image(), observer)
        self._tailer.catch_up(observer)
        self._tailed_at = time.time()
        self._alarm = ""
        if self._tailer.open_fault:
            _LOG.warning("the open segment is left for later: %s", self._tailer.open_fault)

    def _explained(self, fault: Exception) -> str:
        if isinstance(fault, TransactionGapError):
            return gap_alarm(fault, self._folder, self._nodes.image_txids())
        return f"edits are not followed: {fault}"

    def _raise_alarm(self, text: str) -> None:
        if text != self._alarm:
            _LOG.error("%s", text)
        self._alarm = text

    # ---- rolling upgrade -----------------------------------------------------------------------------------

    def _has_rollback_image(self, start_txid: int) -> bool:
        newest = latest_rollback_image(self._storage.current_folders())
        return newest is not None and newest.txid >= start_txid

    def _upgrade_finalized(self, txid: int) -> None:
        _LOG.info("the rolling upgrade was finalized at txid %d", txid)
        for warning in promote_rollback_images(self._storage.current_folders(), txid):
            _LOG.warning("%s", warning)


class _ClosingObserver(SilentObserver):
    """Ends a tail when the follower is closed."""

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing

    def cancelled(self) -> bool:
        return self._closing.is_set()
