"""The standby role: merges edits of a shared directory into its own image and uploads it to the other NameNodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checkpointer.config import CheckpointConfig
from checkpointer.errors import CheckpointCancelledError, CheckpointError, StorageError, TransferError
from checkpointer.merge import MergeResult, Observer, merge
from checkpointer.storage.directories import StorageDirectories, read_storage_info
from checkpointer.storage.retention import enforce_retention
from checkpointer.transfer import UploadResult, download_image, upload_image
from hadoop_common.storage_info import StorageInfo
from image_format.md5_file import read_md5_file
from journal.segment_file import EditLogSegment, list_segments, read_transactions, select_segments
from servlets.throttle import Throttle

__all__ = ["Progress", "StandbyRole", "Target", "Upload"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the standby stands: newest own image, newest finalized transaction in the journal."""

    image_txid: int
    journal_txid: int

    @property
    def behind(self) -> int:
        """Transactions that no image has yet."""
        return max(0, self.journal_txid - self.image_txid)


@dataclass(slots=True)
class Target:
    """A NameNode that gets our images, and how that went last."""

    address: str
    txid: int = -1
    result: str = "never"
    error: str = ""
    at: float | None = None

    def owed(self, txid: int) -> bool:
        """Whether the image at `txid` is still to be uploaded there."""
        return self.txid < txid


@dataclass(frozen=True, slots=True)
class Upload:
    """Outcome of offering one image to one NameNode."""

    address: str
    result: str
    error: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class StandbyRole:
    """Checkpoints made from a shared edits directory.

    Attributes:
        config: from the cluster's own configuration files.
        targets: the other NameNodes and what each has.
    """

    config: CheckpointConfig
    targets: list[Target] = field(init=False)
    _storage: StorageDirectories = field(init=False)
    _throttle: Throttle = field(init=False)

    def __post_init__(self) -> None:
        self.targets = [Target(address) for address in self.config.namenode_http_addresses]
        self._storage = StorageDirectories(self.config.image_directories)
        # One budget for all targets, so that several standbys to serve do not multiply the load.
        self._throttle = Throttle(self.config.transfer_bandwidth)

    # ---- storage -------------------------------------------------------------------------------------------

    @property
    def journal_folder(self) -> Path:
        shared = self.config.shared_edits_directory
        if shared is None:
            raise StorageError(
                "dfs.namenode.shared.edits.dir is not set",
                hint="The standby role needs the shared edits directory.",
            )
        return shared / "current"

    def open(self) -> None:
        """Lock the storage, and fetch VERSION and image where it is new.

        Raises:
            StorageError, TransferError: the storage is in use or damaged, or no NameNode gave an image.
        """
        self._storage.lock()
        if not self._storage.is_formatted():
            self._bootstrap()
        self._storage.clean_leftovers()

    def close(self) -> None:
        self._storage.release()

    def storage_info(self) -> StorageInfo:
        return self._storage.storage_info()

    def latest_image(self) -> Path:
        return self._storage.latest_image().path

    def image_folders(self) -> list[Path]:
        return self._storage.current_folders()

    def _bootstrap(self) -> None:
        info = read_storage_info(self.journal_folder.parent)
        self._storage.format(info)
        failures = []
        for target in self.targets:
            try:
                image = download_image(
                    target.address, None, info, self.image_folders(), timeout=self.config.transfer_timeout
                )
            except TransferError as error:
                failures.append(error)
                continue
            _LOG.info("bootstrapped from %s with the image at txid %d", target.address, image.txid)
            return
        self._storage.unformat()
        reasons = "; ".join(error.message for error in failures) or "no NameNode is configured"
        raise StorageError(f"no image to start from: {reasons}", hint="Start the active NameNode, then this daemon.")

    # ---- observation ---------------------------------------------------------------------------------------

    def segments(self) -> list[EditLogSegment]:
        return list_segments(self.journal_folder)

    def progress(self) -> Progress:
        image_txid = self._storage.latest_image().txid
        finalized = [segment.last for segment in self.segments() if segment.last is not None]
        return Progress(image_txid, max([image_txid, *finalized]))

    # ---- work ----------------------------------------------------------------------------------------------

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Merge everything finalized since the newest image into a new one, and purge old images.

        Raises:
            CheckpointError, ImageFormatError, JournalError: nothing was written.
        """
        newest = self._storage.latest_image()
        chosen = select_segments(self.segments(), newest.txid + 1)
        last = chosen[-1].last if chosen else None
        if last is None:
            raise CheckpointError(f"no finalized edits after txid {newest.txid}", hint="Roll the active's edit log.")
        result = merge(
            newest.path,
            read_transactions(chosen, newest.txid + 1),
            self.image_folders(),
            expected=last - newest.txid,
            codec=self.config.image_codec,
            observer=observer,
        )
        for warning in enforce_retention(
            self.image_folders(),
            [],
            keep=self.config.images_retained,
            extra_edits=self.config.extra_edits_retained,
            max_segments=self.config.max_extra_segments,
        ):
            _LOG.warning("%s", warning)
        return result

    def upload(self, cancelled: Callable[[], bool]) -> Iterator[Upload]:
        """Offer the newest image to every NameNode that has not got it; one that fails is tried at the next call."""
        image = self._storage.latest_image()
        digest = read_md5_file(image.path).hex()
        for target in self.targets:
            if not target.owed(image.txid):
                continue
            started = time.monotonic()
            try:
                outcome = upload_image(
                    target.address,
                    image.path,
                    digest,
                    image.txid,
                    self.storage_info(),
                    timeout=self.config.transfer_timeout,
                    chunk_size=self.config.transfer_chunk_size,
                    throttle=self._throttle,
                    cancel=cancelled,
                )
            except TransferError as error:
                if cancelled():
                    raise CheckpointCancelledError("cancelled during the upload") from error
                target.result, target.error = "failed", error.message
            else:
                target.txid, target.result, target.error = image.txid, outcome.name, ""
            target.at = time.time()
            seconds = time.monotonic() - started
            yield Upload(target.address, target.result, target.error, seconds)


def uploaded(result: str) -> bool:
    """Whether the other side has the image now."""
    return result == UploadResult.SUCCESS.name
