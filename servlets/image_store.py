"""Interface between the transfer servlets and their process, and the limits of transfers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from servlets.parameters import ImageKind
from servlets.throttle import UNLIMITED

DEFAULT_CHUNK_SIZE = 65536


class ImageStore(Protocol):
    """The process of the transfer servlet; called from many threads."""

    def storage_info(self) -> StorageInfo:
        """Return the namespace of this process; an HdfsError says why there is none yet (answered with 403)."""

    def find_image(self, txid: int) -> Path | None:
        """Return `fsimage_TXID` or `fsimage_rollback_TXID`, None if missing."""

    def latest_image(self) -> Path | None:
        """Return the newest `fsimage_TXID`, None if there is none."""

    def find_segment(self, first: int, last: int) -> Path | None:
        """Return the finalized segment with exactly these transaction ids, None if missing."""

    def image_directories(self) -> list[Path]:
        """Return the directories that contain images (`.../current`)."""

    def is_active(self) -> bool:
        """Return whether checkpoints may be uploaded here (Hadoop 3: to an active or an observer)."""

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """Return why a checkpoint is not wanted now (too recent, ...), None if it is wanted."""

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        """Record an upload of `size` bytes, stored in every directory that accepted it, under its final name."""


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """Limits of the servlet: bytes per second over all transfers of one direction (0 = off), minimum bytes at once.

    `bandwidth` is dfs.image.transfer.bandwidthPerSec, `bootstrap_bandwidth`, for a standby that bootstraps,
    dfs.image.transfer-bootstrap-standby.bandwidthPerSec, `chunk_size` dfs.image.transfer.chunksize.
    """

    bandwidth: int = UNLIMITED
    bootstrap_bandwidth: int = UNLIMITED
    chunk_size: int = DEFAULT_CHUNK_SIZE
