"""Fetches of images and segments from a NameNode into the checkpoint directories, unless they already exist there.

A local file with the right name and txids may differ from the NameNode's file, because it may belong to a lost past.
The fetcher uses a local image if the NameNode reports the same digest. It uses a local segment if the NameNode's
segment begins with the same transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checkpointer.errors import TransferError
from checkpointer.roles.secondary.storage import SecondaryStorage
from checkpointer.set_back.proof import Witness, prove
from checkpointer.set_back.provenance import image_md5
from checkpointer.transfer import download_image, download_segment
from checkpointer.transfer.download import NO_SUCH_IMAGE
from checkpointer.transfer.download_retry import DownloadRetry
from engine.txn_runs import runs_of_segments
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import FileFaultError, error_text
from hadoop_common.names import image_name, segment_name
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from hadoop_rpc.namenode_protocol import RemoteEditLog
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from image_format.reader import ImageFile
from journal.segment_file import EditLogSegment
from journal.segment_frames import check_segment_file
from servlets.errors import ImageRejectedError
from servlets.received_files import ReceivedFile
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Transfer settings: timeout in seconds without progress, bytes per second (0 if unlimited), and retries."""

    timeout: float
    bandwidth: int
    retry: DownloadRetry

    @classmethod
    def of(cls, config: CheckpointConfig, retry: DownloadRetry) -> FetcherSettings:
        return cls(config.transfer_timeout, config.transfer_bandwidth, retry)


class Fetcher:
    """Fetcher of files from the NameNode's HTTP server at `address` (`http://host:port`). Only one thread at a time may
    use it.

    `count` is called with the number of bytes received.
    """

    def __init__(
        self,
        address: str,
        storage: SecondaryStorage,
        settings: FetcherSettings,
        *,
        count: Callable[[int], None] | None = None,
    ) -> None:
        self._address = address
        self._storage = storage
        self._count = count
        # segments fetched by the running call
        self._fetched = 0
        self.settings = settings

    @property
    def settings(self) -> FetcherSettings:
        """Transfer settings; new settings apply from the next transfer on."""
        return self._settings

    @settings.setter
    def settings(self, settings: FetcherSettings) -> None:
        self._settings = settings
        self._throttle = Throttle(settings.bandwidth, count=self._count)

    # ---- images --------------------------------------------------------------------------------------------

    def image(
        self, txid: int, info: StorageInfo, witness: Witness, *, refetch: bool, cancelled: Callable[[], bool]
    ) -> tuple[Path, bool]:
        """Return an undamaged copy of the image at `txid`, and whether the copy was fetched; with `refetch`, always
        fetch it.

        Raises:
            TransferError: the image could not be fetched; the directories are unchanged.
            TransferCancelledError: `cancelled()` became true.
            StorageError: no directory is left.
        """
        if not refetch and (local := self._local_image(txid, info, witness)) is not None:
            _LOG.info("the image at txid %d is already stored on this host and is not fetched", txid)
            return local, False
        folders = self._storage.image_folders()
        fetch = partial(
            download_image,
            self._address,
            txid,
            info,
            folders,
            timeout=self.settings.timeout,
            throttle=self._throttle,
            cancel=cancelled,
        )
        image = self.settings.retry.run(fetch, cancelled)
        for folder, reason in image.missing_in(folders):
            self._storage.drop(folder, reason)
        _LOG.info("fetched the image at txid %d, %d bytes", txid, image.size)
        return image.paths[0], True

    def _local_image(self, txid: int, info: StorageInfo, witness: Witness) -> Path | None:
        paths = [path for folder in self._storage.image_folders() if (path := folder / image_name(txid)).is_file()]
        theirs = witness.image_md5(txid) if paths else None
        for path in paths:
            try:
                if image_md5(path) == theirs and self._is_usable(path, info):
                    return path
            except (HdfsError, OSError) as fault:
                _LOG.warning("%s is not used: %s", path, error_text(fault))
        return None

    def _is_usable(self, path: Path, info: StorageInfo) -> bool:
        with ImageFile.open(path) as image:
            if image.layout_version == info.layout_version:
                return True
            _LOG.info(
                "%s has layout %d, but the NameNode has layout %d", path, image.layout_version, info.layout_version
            )
            return False

    # ---- segments ------------------------------------------------------------------------------------------

    def segments(
        self,
        logs: Sequence[RemoteEditLog],
        info: StorageInfo,
        witness: Witness,
        *,
        refetch: bool,
        cancelled: Callable[[], bool],
    ) -> list[EditLogSegment]:
        """Return complete files of the segments `logs`; fetch only missing or damaged segments.

        Raises:
            TransferError: a segment could not be fetched; the previous segments are stored.
            TransferCancelledError: `cancelled()` became true.
            StorageError: no directory is left.
        """
        prover = None if refetch else witness
        self._fetched = 0
        found = [EditLogSegment(log.first, log.last, self._segment(log, info, prover, cancelled)) for log in logs]
        _LOG.info("%s needed, %d fetched", counted(len(found), "segment"), self._fetched)
        return found

    def supply(self, log: RemoteEditLog, info: StorageInfo, witness: Witness, cancelled: Callable[[], bool]) -> None:
        """Fetch a segment unless a copy that belongs to the NameNode's past is stored; make a single attempt, and drop
        no directory.

        Raises:
            TransferError, StorageError: the segment could not be fetched.
            TransferCancelledError: `cancelled()` became true.
        """
        folders = self._storage.edits_folders()
        if _proved_segment(folders, log, witness) is None:
            self._download(log, info, folders, cancelled)

    def _segment(
        self, log: RemoteEditLog, info: StorageInfo, witness: Witness | None, cancelled: Callable[[], bool]
    ) -> Path:
        folders = self._storage.edits_folders()
        if witness is not None and (local := _proved_segment(folders, log, witness)) is not None:
            return local
        segment = self.settings.retry.run(partial(self._download, log, info, folders, cancelled), cancelled)
        for folder, reason in segment.missing_in(folders):
            self._storage.drop(folder, reason)
        _LOG.debug("fetched %s", segment_name(log.first, log.last))
        self._fetched += 1
        return segment.paths[0]

    def _download(
        self, log: RemoteEditLog, info: StorageInfo, folders: Sequence[Path], cancelled: Callable[[], bool]
    ) -> ReceivedFile:
        return download_segment(
            self._address,
            log.first,
            log.last,
            info,
            folders,
            timeout=self.settings.timeout,
            throttle=self._throttle,
            cancel=cancelled,
            check=partial(_check_segment, log=log, name=segment_name(log.first, log.last)),
        )


def _proved_segment(folders: Sequence[Path], log: RemoteEditLog, witness: Witness) -> Path | None:
    """Return our copy of a segment if it begins as the NameNode's segment does."""
    local = _local_segment(folders, segment_name(log.first, log.last), log)
    if local is None:
        return None
    verdict = prove(runs_of_segments([EditLogSegment(log.first, log.last, local)]), witness, based=False)
    if verdict.holds:
        return local
    _LOG.info("%s will be fetched again: %s", local, verdict.reason)
    return None


def _local_segment(folders: Sequence[Path], name: str, log: RemoteEditLog) -> Path | None:
    for folder in folders:
        path = folder / name
        if not path.is_file():
            continue
        try:
            _check_segment(path, log, name)
        except HdfsError as fault:
            _LOG.warning("%s is unusable and will be fetched again: %s", path, fault)
        else:
            return path
    return None


def _check_segment(path: Path, log: RemoteEditLog, name: str) -> None:
    try:
        check_segment_file(path, log.first, log.last, name=name)
    except OSError as fault:
        raise FileFaultError(fault, path, "cannot be read") from fault


def shows_damage(error: HdfsError) -> bool:
    """Return whether the failed fetch or use of the NameNode's image shows that the image is damaged or missing."""
    if isinstance(error, UnsupportedLayoutError | UnsupportedCodecError):
        return False
    refused = isinstance(error, TransferError) and error.status not in NO_SUCH_IMAGE
    return not refused or isinstance(error.__cause__, ImageFormatError | ImageRejectedError)
