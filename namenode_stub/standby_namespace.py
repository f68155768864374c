"""The namespace of a standby: an image, and the other NameNode's edits as they arrive (EditLogTailer)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.lag_watch import LagWatch
from checkpointer.roles.standby.log_roller import LogRoller
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.tailer import EditTailer
from checkpointer.storage.rollback_images import promote_rollback_images
from checkpointer.storage.usable_images import latest_image
from engine.errors import CheckpointCancelledError
from engine.loaded_image import LoadedImage
from engine.observer import CancellableObserver, SilentObserver
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from journal.errors import TransactionGapError
from journal.ops import EditOp
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.node_parts import NodeParts

_LOG = logging.getLogger(__name__)
_MIN_PERIOD = 0.01  # seconds


class StandbyNamespace:
    """A thread that follows the shared edits until it is stopped and its namespace is transferred to another object.

    Args:
        source: the open shared edits; closed with this object.
        nodes: the other NameNodes; if no edits arrive, this object asks the active NameNode to roll.

    Attributes:
        fault: reason why the thread cannot follow the edits, "" if it follows them.
    """

    def __init__(self, parts: NodeParts, source: EditSource, nodes: NameNodes) -> None:
        settings = parts.config.standby
        self._parts = parts
        self._source = source
        # a period of 0, as in Hadoop's guide for observers, would make the stub read edits without a pause
        self._period = max(settings.tail_period, _MIN_PERIOD)
        self._warm = _CallRecordingNamespace(parts.retry_cache)
        self._tailer = EditTailer(
            self._warm,
            source,
            in_progress=settings.tail_in_progress,
            # only checkpointers make rollback images
            has_rollback_image=lambda txid: True,
            upgrade_finalized=self._upgrade_finalized,
        )
        self._roller = LogRoller(nodes, settings.roll_period, location=source.location, clock=parts.clock)
        self._lag = LagWatch(settings.lag_alarm, clock=parts.clock)
        # held by the thread that applies edits
        self._working = threading.Lock()
        self._stopping = threading.Event()
        self._observer = CancellableObserver(self._stopping.is_set)
        self._thread = threading.Thread(target=self._run, name="edit-log-tailer", daemon=True)
        self.fault = ""

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def applied_txid(self) -> int:
        return self._tailer.applied_txid

    @property
    def source_txid(self) -> int:
        """Newest transaction seen in the shared edits, or -1 before the first check."""
        return self._tailer.source_txid

    @property
    def roll_alarm(self) -> str:
        """Reason why no new edits arrive although the active NameNode writes edits; "" if new edits arrive."""
        return self._roller.alarm

    @property
    def lag_alarm(self) -> str:
        """Message with the time for which available edits have waited; "" if all available edits are applied."""
        return self._lag.alarm

    @property
    def active_txid(self) -> int:
        """Newest transaction of the NameNodes at the last query, or -1 before the first query."""
        return self._roller.active_txid

    @property
    def following(self) -> bool:
        """Whether the namespace still follows the edits."""
        return not self._stopping.is_set()

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the newest image and begin to follow.

        Raises:
            StorageError, ImageFormatError: there is no image, or it cannot be loaded.
        """
        self._load()
        self._thread.start()

    def catch_up(self) -> None:
        """Apply all available edits.

        Raises:
            StorageError: edits are missing, or cannot be read.
            JournalError, ReplayError, ImageFormatError: the edits are damaged, or do not match the namespace.
            CheckpointCancelledError: the call was stopped.
        """
        with self._working:
            if not self._warm.usable:
                self._load()
            try:
                self._tailer.catch_up(self._observer)
            except OSError as fault:
                raise StorageError(
                    f"{self._source.location} cannot be read: {error_text(fault)}",
                    hint="Check that dfs.namenode.shared.edits.dir is mounted on this host and readable.",
                ) from fault
            except TransactionGapError as gap:
                until = "on" if gap.found is None else f"to {gap.found - 1}"
                raise StorageError(
                    f"transactions from {gap.expected} {until} are missing in {self._source.location}",
                    hint="This NameNode needs new storage from the active NameNode: `namenode-stub bootstrap-standby`, "
                    "which deletes existing storage with --force.",
                ) from gap

    def stop(self) -> None:
        """Stop following; the namespace keeps the applied edits. A second call does nothing."""
        self._stopping.set()
        self._source.close()
        if self._thread.ident is not None:
            self._thread.join()

    def take(self) -> LoadedImage:
        """Return the namespace after `stop`; the caller closes its image.

        Raises:
            ImageFormatError, ImageStorageError: the image is damaged.
        """
        if not self._warm.usable:
            self._load()
        return self._warm.hand_over()

    def close(self) -> None:
        self.stop()
        self._warm.close()

    def _load(self) -> None:
        self._tailer.load(latest_image(self._parts.image_folders), SilentObserver())

    # ---- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._step()
            self._stopping.wait(self._period)

    def _step(self) -> None:
        try:
            self._follow()
        except CheckpointCancelledError:
            return
        except (HdfsError, OSError) as error:
            self._report(error_text(error))
        except Exception as error:
            _LOG.exception("following edits failed because of a bug")
            self._report(f"{type(error).__name__}: {error}")
        else:
            self.fault = ""
        if not self._stopping.is_set():
            self._measure()

    def _follow(self) -> None:
        self.catch_up()
        if self._roller.check(self._tailer.applied_txid, self._stopping.is_set):
            self.catch_up()

    def _measure(self) -> None:
        """Check whether edits wait too long. If following has failed, query the NameNodes' newest transactions."""
        if self.fault:
            self._roller.update_active(self._tailer.applied_txid)
        active = self._roller.active_txid if self._roller.period > 0 else -1
        self._lag.note(self._tailer.applied_txid, source=self._tailer.source_txid, active=active)

    def _report(self, text: str) -> None:
        if self._stopping.is_set():
            return
        if text != self.fault:
            _LOG.error("edits after txid %d are not read or applied: %s", self._tailer.applied_txid, text)
        self.fault = text

    def _upgrade_finalized(self, txid: int) -> None:
        for warning in promote_rollback_images(self._parts.image_folders, txid):
            _LOG.warning("%s", warning)


class _CallRecordingNamespace(WarmNamespace):
    """A warm namespace that records the calls in edits, for clients that repeat them after a failover."""

    def __init__(self, calls: RetryCache) -> None:
        super().__init__()
        self._calls = calls

    def apply(self, ops: Iterable[EditOp], **options: Any) -> int:
        return super().apply(self._calls.watch(ops), **options)
