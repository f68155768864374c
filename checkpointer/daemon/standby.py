"""The standby role: merges edits of a shared directory into its own image and uploads it to the other NameNodes."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.role import Progress, Target, Upload
from checkpointer.errors import CheckpointCancelledError, CheckpointError, StorageError, TransferError
from checkpointer.merge import MergeResult, Observer, merge
from checkpointer.storage.directories import ImageCopy, StorageDirectories, read_storage_info
from checkpointer.storage.inspector import inspect
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer import UploadResult, download_image, upload_image
from hadoop_common.errors import HdfsError
from hadoop_common.storage_info import StorageInfo
from image_format.md5_file import read_md5_file
from journal.segment_file import EditLogSegment, list_segments, read_transactions, select_segments
from servlets.throttle import Throttle

__all__ = ["StandbyRole"]

_LOG = logging.getLogger(__name__)
_JITTER_FROM, _JITTER_RANGE = 0.5, 0.4


class StandbyRole:
    """Checkpoints made from a shared edits directory (`CheckpointRole`).

    Args:
        config: from the cluster's own configuration files.
        clock: monotonic seconds, for when to offer an image again.
        jitter: numbers from 0 to 1 that spread the retries of several standbys.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._clock = clock
        self._jitter = jitter
        self._targets = [Target(address) for address in config.namenode_http_addresses]
        self._storage = StorageDirectories(config.image_directories, permission=config.storage_permission)
        # One budget for all targets, so that several standbys to serve do not multiply the load.
        self._throttle = Throttle(config.transfer_bandwidth)

    # ---- storage -------------------------------------------------------------------------------------------

    @property
    def journal_folder(self) -> Path:
        shared = self._config.shared_edits_directory
        if shared is None:
            raise StorageError(
                "dfs.namenode.shared.edits.dir is not set",
                hint="The standby role needs the shared edits directory.",
            )
        return shared / "current"

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Lock the storage, fetch VERSION and image where it is new, and repair what a killed run left.

        Raises:
            StorageError: the storage is in use or damaged, is not the journal's, or no NameNode gave an image.
            CheckpointCancelledError: `cancelled()` became true while an image was fetched.
        """
        self._storage.lock()
        try:
            if not self._storage.is_formatted():
                self._bootstrap(cancelled)
            self._check_journal()
            self._storage.clean_leftovers()
            self._storage.restore()
        except BaseException:
            self._storage.release()
            raise
        if not self._targets:
            _LOG.warning("no other NameNode is configured, images stay here")

    def close(self) -> None:
        """Let go of the storage."""
        self._storage.release()

    def storage_info(self) -> StorageInfo:
        return self._storage.storage_info()

    def latest_image(self) -> Path:
        return self._storage.latest_image().path

    def image_folders(self) -> list[Path]:
        return self._storage.current_folders()

    def storage(self) -> dict[str, str]:
        """State of each storage directory by its path: "in use", or why it was dropped."""
        dropped = self._storage.dropped
        return {str(root): dropped.get(root, "in use") for root in self._config.image_directories}

    def prepare(self) -> None:
        """Leave failed storage directories out, as long as another works; try dropped ones again if configured."""
        if self._config.restore_directories and self._storage.dropped:
            self._storage.restore()
        roots = self._storage.roots
        broken = {root: fault for root in roots if (fault := _fault(root))}
        if len(broken) < len(roots):
            for root, fault in broken.items():
                self._storage.drop(root, fault)

    def _bootstrap(self, cancelled: Callable[[], bool]) -> None:
        info = read_storage_info(self.journal_folder.parent)
        self._storage.format(info)
        failures = []
        for number, target in enumerate(self._targets):
            try:
                image = download_image(
                    target.address,
                    None,
                    info,
                    self.image_folders(),
                    bootstrap=True,
                    timeout=self._config.transfer_timeout,
                    throttle=self._throttle,
                    cancel=cancelled,
                )
            except TransferError as error:
                failures.append(error)
                if cancelled():
                    break
                continue
            self._targets[number] = Target(target.address, txid=image.txid)
            _LOG.info("bootstrapped from %s with the image at txid %d", target.address, image.txid)
            return
        self._storage.unformat()
        if cancelled():
            raise CheckpointCancelledError("cancelled while the first image was fetched")
        reasons = "; ".join(error.message for error in failures) or "no NameNode is configured"
        raise StorageError(f"no image to start from: {reasons}", hint="Start the active NameNode, then this daemon.")

    def _check_journal(self) -> None:
        """Refuse the edits of another namespace; a shared directory that cannot be read now may be there later."""
        ours = self.storage_info()
        try:
            theirs = read_storage_info(self.journal_folder.parent)
        except StorageError as error:
            _LOG.warning("whose edits the shared directory holds is not known: %s", error)
            return
        if (theirs.namespace_id, theirs.cluster_id) != (ours.namespace_id, ours.cluster_id):
            raise StorageError(
                f"{self.journal_folder} holds edits of {theirs.colon_string()}, our images are of "
                f"{ours.colon_string()}",
                hint="Check dfs.namenode.shared.edits.dir, or empty dfs.namenode.name.dir to start anew.",
            )

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def targets(self) -> tuple[Target, ...]:
        """The NameNodes that get images, as they are now."""
        return tuple(self._targets)

    def segments(self) -> list[EditLogSegment]:
        """Segments of the journal.

        Raises:
            StorageError: the shared directory cannot be read.
        """
        folder = self.journal_folder
        try:
            return list_segments(folder)
        except OSError as fault:
            raise StorageError(
                f"{folder} cannot be read: {fault.strerror or fault}",
                hint="Check that dfs.namenode.shared.edits.dir is mounted here and readable.",
            ) from fault

    def progress(self) -> Progress:
        """Newest own image and newest finalized transaction.

        Raises:
            HdfsError: storage or journal cannot be read.
        """
        image_txid = self._storage.latest_image().txid
        finalized = [segment.last for segment in self.segments() if segment.last is not None]
        return Progress(image_txid, max([image_txid, *finalized]))

    # ---- work ----------------------------------------------------------------------------------------------

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Merge everything finalized since the newest image into a new one, and purge old images.

        Raises:
            CheckpointError, ImageFormatError, JournalError: nothing was written.
        """
        newest = self._storage.verified_image()
        chosen = select_segments(self.segments(), newest.txid + 1)
        last = chosen[-1].last if chosen else None
        if last is None:
            raise CheckpointError(f"no finalized edits after txid {newest.txid}", hint="Roll the active's edit log.")
        result = merge(
            newest.path,
            read_transactions(chosen, newest.txid + 1),
            self.image_folders(),
            expected=last - newest.txid,
            codec=self._config.image_codec,
            sub_sections=self._config.sub_sections,
            rules=self._config.replay_rules,
            observer=observer,
        )
        for warning in result.warnings:
            _LOG.error("fsimage_%019d: %s", result.txid, warning)
        for failure in result.saved.failures:
            self._storage.drop(failure.folder, failure.reason)
        for warning in enforce_retention(
            self.image_folders(),
            [],
            keep=self._config.images_retained,
            extra_edits=self._config.extra_edits_retained,
            max_segments=self._config.max_extra_segments,
        ):
            _LOG.warning("%s", warning)
        return result

    def upload(self, cancelled: Callable[[], bool], *, force: bool) -> Iterator[Upload]:
        """Offer the newest image to every NameNode that is due.

        A transfer that fails is repeated at the next poll, then after twice the time each time, at most the period.
        A NameNode that is not active is asked again after `quiet_multiplier` periods, as Hadoop does.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
        image = self._storage.latest_image()
        for number, target in enumerate(self._targets):
            if not target.due(image.txid, self._clock(), force=force):
                continue
            started = time.monotonic()
            self._targets[number] = after = self._offer(image, target, cancelled)
            yield Upload(after.address, after.result, after.error, time.monotonic() - started)

    def _offer(self, image: ImageCopy, target: Target, cancelled: Callable[[], bool]) -> Target:
        try:
            outcome = upload_image(
                target.address,
                image.path,
                read_md5_file(image.path).hex(),
                image.txid,
                self.storage_info(),
                timeout=self._config.transfer_timeout,
                chunk_size=self._config.transfer_chunk_size,
                throttle=self._throttle,
                cancel=cancelled,
            )
        except TransferError as error:
            if cancelled():
                raise CheckpointCancelledError("cancelled during the upload") from error
            not_before = self._clock() + self._back_off(target.failures)
            return target.failed(error.message, at=time.time(), not_before=not_before)
        quiet = outcome is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE
        pause = self._config.quiet_multiplier * self._config.period if quiet else 0.0
        return target.answered(image.txid, outcome, at=time.time(), not_before=self._clock() + pause)

    def _back_off(self, failures: int) -> float:
        """Seconds to wait after one more failure; below the poll interval after the first."""
        doubled = self._config.poll_interval * 2.0 ** min(failures, 64)
        return min(self._config.period, doubled) * (_JITTER_FROM + _JITTER_RANGE * self._jitter())


def _fault(root: Path) -> str:
    """Why a storage directory cannot be used now, "" where it can."""
    try:
        return "" if inspect(root).version is not None else f"{root} has no current/VERSION any more"
    except HdfsError as error:
        return error.message
