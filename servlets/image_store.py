"""What the transfer servlets ask of the process they run in, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from servlets.parameters import ImageKind
from servlets.throttle import UNLIMITED

DEFAULT_CHUNK_SIZE = 65536


class ImageStore(Protocol):
    """What the servlet asks of the process it runs in; methods are called from many threads."""

    def storage_info(self) -> StorageInfo:
        """The namespace this process holds; an HdfsError says why there is none yet (answered with 403)."""

    def find_image(self, txid: int) -> Path | None:
        """`fsimage_TXID` or `fsimage_rollback_TXID`."""

    def latest_image(self) -> Path | None:
        """The newest `fsimage_TXID`."""

    def find_segment(self, first: int, last: int) -> Path | None:
        """The finalized segment with exactly these txids."""

    def image_directories(self) -> list[Path]:
        """The directories that hold images themselves (`.../current`)."""

    def is_active(self) -> bool:
        """Whether checkpoints may be uploaded here (Hadoop 3: an active or an observer)."""

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """A sentence why a checkpoint is not wanted now (too recent, ...), None when it is."""

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        """An upload of `size` bytes is in place in every directory that took it, under its final name."""


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """Limits of the servlet: bytes a second over all transfers of one direction (0 = off), least bytes at a time.

    `bandwidth` is dfs.image.transfer.bandwidthPerSec, `bootstrap_bandwidth`, for a standby that bootstraps,
    dfs.image.transfer-bootstrap-standby.bandwidthPerSec, `chunk_size` dfs.image.transfer.chunksize.
    """

    bandwidth: int = UNLIMITED
    bootstrap_bandwidth: int = UNLIMITED
    chunk_size: int = DEFAULT_CHUNK_SIZE
