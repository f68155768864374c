"""Images of other NameNodes for a standby's storage: the first one, that of an upgrade, or one behind a gap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from checkpointer.storage.directories import StorageDirectories
from checkpointer.transfer import DownloadedImage, TransferCancelledError, download_image
from engine.errors import CheckpointCancelledError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from servlets.throttle import Throttle
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


class ImageSource:
    """Fetches into locked, formatted storage. One thread at a time fetches.

    Args:
        count: told the bytes that come.
        fetched: told address and txid of each image that is in place.

    Attributes:
        config: timeout and bandwidth, of the next transfer on.
    """

    def __init__(
        self,
        storage: StorageDirectories,
        config: CheckpointConfig,
        *,
        count: Callable[[int], None],
        fetched: Callable[[str, int], None],
    ) -> None:
        self._storage = storage
        self._count = count
        self._fetched = fetched
        self.config = config

    def fetch(
        self, address: str, txid: int | None, info: StorageInfo, cancelled: Callable[[], bool]
    ) -> DownloadedImage:
        """The image at `txid` (None: the newest) of the NameNode at `address`, `http://host:port`, of VERSION `info`.

        A directory that does not take it is dropped.

        Raises:
            TransferError: it could not be fetched; nothing was changed.
            CheckpointCancelledError: `cancelled()` became true; nothing was changed.
            StorageError: the last directory was dropped.
        """
        folders = self._storage.current_folders()
        began = time.monotonic()
        try:
            image = download_image(
                address,
                txid,
                info,
                folders,
                bootstrap=True,
                timeout=self.config.transfer_timeout,
                throttle=Throttle(self.config.bootstrap_bandwidth, count=self._count),
                cancel=cancelled,
            )
        except TransferCancelledError as error:
            raise CheckpointCancelledError(error.message) from error
        holding = {path.parent for path in image.paths}
        for folder in folders:
            if folder not in holding:
                said = [each for each in image.failures if each.startswith(f"{folder}/")]
                self._storage.drop(folder, "; ".join(said) or f"{image_name(image.txid)} could not be written there")
        seconds = time.monotonic() - began
        _LOG.info(
            "fetched the image at txid %d from %s, %d bytes in %.1f s",
            image.txid,
            address,
            image.size,
            seconds,
            extra={
                "txid": image.txid,
                "phase": "fetch",
                "target": address,
                "seconds": round(seconds, 3),
                "bytes": image.size,
            },
        )
        self._fetched(address, image.txid)
        return image
