"""Administrative operations: safe mode, saveNamespace, rolling upgrades (FSNamesystem, FSImage)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from engine.saver import SaveResult, save_image
from hadoop_common.names import ImageKind
from journal import ops
from namenode_stub.image_store import StubImages
from namenode_stub.names.meta_save import meta_save_text
from namenode_stub.names.transactions import Transactions, now
from namenode_stub.refusals import IllegalArgumentError, OperationRefusedError
from servlets.image_admission import UploadReservations

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RollingUpgrade:
    """A rolling upgrade; times are in ms since the epoch, and `finalized_at` is 0 until the upgrade is finalized."""

    started_at: int
    finalized_at: int
    has_rollback_image: bool


class Administration:
    """Thread-safe superuser operations on a running NameNode.

    Args:
        images: notified of every saved image.
        reservations: reservations of uploads, whose temporary files have the same names as the images that this object
            saves.
        roll: rolls the edit log.
        folders: `current` folders for images.
        log_folder: folder for the output of `meta_save`.
        is_ha: whether there is a standby; if so, the standby makes the rollback images.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        transactions: Transactions,
        images: StubImages,
        reservations: UploadReservations,
        *,
        roll: Callable[[], int],
        folders: Sequence[Path],
        log_folder: Path,
        is_ha: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._transactions = transactions
        self._images = images
        self._reservations = reservations
        self._roll = roll
        self._folders = folders
        self._log_folder = log_folder
        self._is_ha = is_ha
        self._clock = clock
        self._saved_at = clock()

    # ---- safe mode ---------------------------------------------------------------------------------------------

    @property
    def in_safe_mode(self) -> bool:
        with self._transactions.view():
            return self._transactions.safe_mode.on

    def set_safe_mode(self, *, on: bool) -> bool:
        """Turn safe mode on or off; return the new state."""
        with self._transactions.view():
            if self._transactions.safe_mode.on != on:
                _LOG.info("safe mode is turned %s", "on" if on else "off")
            self._transactions.safe_mode.on = on
            return on

    def roll(self) -> int:
        """Start a new segment; return its first transaction id.

        Raises:
            InSafeModeError: safe mode forbids logging.
        """
        with self._transactions.view():
            self._transactions.safe_mode.check("roll the edit log")
            return self._roll()

    # ---- images ------------------------------------------------------------------------------------------------

    def save_namespace(self, time_window: int = 0, tx_gap: int = 0) -> bool:
        """Save an image of all logged operations, and start a new segment.

        Args:
            time_window: seconds; a more recent image suffices unless more than `tx_gap` transactions follow it.

        Returns:
            Whether an image was written.

        Raises:
            OperationRefusedError: safe mode is off.
            StorageError: no directory accepted the image.
        """
        with self._transactions.view():
            self._need_safe_mode()
            if time_window > 0:
                behind = self._transactions.last_txid - self._images.checkpoint_txid
                if self._clock() - self._saved_at <= time_window and behind <= tx_gap:
                    return False
            saved = self._save(ImageKind.IMAGE)
            self._saved_at = self._clock()
        self._images.image_received(saved.txid, ImageKind.IMAGE, saved.md5, saved.size)
        return True

    def _need_safe_mode(self) -> None:
        if not self._transactions.safe_mode.on:
            raise OperationRefusedError(
                "Safe mode should be turned ON in order to create namespace image.",
                hint="Like a NameNode, the stub saves its namespace only in safe mode.",
            )

    def _save(self, kind: ImageKind) -> SaveResult:
        """Save an image; the caller holds the namespace's lock, so that the namespace does not change."""
        first = self._roll()
        loaded = self._transactions.loaded
        namespace = loaded.namespace
        # the image ends with the old segment, so the namespace must not count the new segment's start
        namespace.last_txid = first - 1
        try:
            # FSImage.addToCheckpointing: a standby may have read the finalized segment already, and may upload its
            # image now
            with self._reservations.reserve(first - 1), self._reservations.reserve(first - 1, ImageKind.ROLLBACK):
                saved = save_image(self._folders, first - 1, loaded.write, rollback=kind.rollback)
        finally:
            namespace.last_txid = first
        for failure in saved.failures:
            _LOG.error("the image of txid %d is not in %s", saved.txid, failure)
        return saved

    # ---- reports ------------------------------------------------------------------------------------------------

    def meta_save(self, name: str) -> None:
        """Write a report of blocks and DataNodes to a file in the log directory, as a NameNode does.

        Raises:
            IllegalArgumentError: the name is not a file name.
            OperationRefusedError: the file cannot be written.
        """
        if name in ("", "..") or "\0" in name or Path(name).name != name:
            raise IllegalArgumentError(f"{name!r} is not the name of a file in the log directory")
        with self._transactions.view() as namespace:
            text = meta_save_text(namespace)
        try:
            (self._log_folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise OperationRefusedError(
                f"{self._log_folder / name} cannot be written: {error.strerror}",
                hint="Set HADOOP_LOG_DIR to a directory that is writable for the NameNode.",
            ) from error

    # ---- rolling upgrade ---------------------------------------------------------------------------------------

    @property
    def is_rolling_upgrade(self) -> bool:
        with self._transactions.view() as namespace:
            return namespace.info.HasField("rollingUpgradeStartTime")

    def query_rolling_upgrade(self) -> RollingUpgrade | None:
        with self._transactions.view() as namespace:
            if not namespace.info.HasField("rollingUpgradeStartTime"):
                return None
            return RollingUpgrade(
                namespace.info.rollingUpgradeStartTime, 0, latest_rollback_image(self._folders) is not None
            )

    def start_rolling_upgrade(self) -> RollingUpgrade | None:
        """Begin a rolling upgrade. Without a standby, this requires safe mode, saves a rollback image, and ends safe
        mode.
        """
        with self._transactions.lock:
            running = self.query_rolling_upgrade()
            if running is not None:
                return running
            if self._is_ha:
                self._transactions.safe_mode.check("start rolling upgrade")
            else:
                self._need_safe_mode()
                self._save(ImageKind.ROLLBACK)
                self.set_safe_mode(on=False)
            with self._transactions.change("start rolling upgrade"):
                self._transactions.perform(ops.RollingUpgradeStartOp(time=now()))
            if self._is_ha:
                # the standby reads only finalized segments and must make an image
                self._roll()
            return self.query_rolling_upgrade()

    def finalize_rolling_upgrade(self) -> RollingUpgrade | None:
        """Finalize the current rolling upgrade, if any; turn rollback images into ordinary images."""
        with self._transactions.lock:
            running = self.query_rolling_upgrade()
            if running is None:
                return None
            time = now()
            with self._transactions.change("finalize rolling upgrade"):
                self._transactions.perform(ops.RollingUpgradeFinalizeOp(time=time))
            if self._is_ha:
                self._roll()
            for warning in promote_rollback_images(self._folders, self._transactions.last_txid):
                _LOG.error("%s", warning)
            return RollingUpgrade(running.started_at, time, running.has_rollback_image)
