"""Storage directories of a backup node that fail, and come back; and what new ones begin with."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from checkpointer.roles.backup.namenode_link import NamenodeLink, check_same_namespace
from checkpointer.storage.directories import StorageDirectories
from checkpointer.transfer import DownloadedImage, TransferCancelledError, download_image
from engine.errors import CheckpointCancelledError
from hadoop_common.file_faults import told
from hadoop_rpc.errors import RpcError
from servlets.throttle import Throttle

_LOG = logging.getLogger(__name__)


class FailedFolders:
    """Failures of folders as they are met, by any thread, for the one that may change the storage."""

    def __init__(self) -> None:
        self._failures: deque[tuple[Path, str]] = deque()

    def note(self, folder: Path, reason: object) -> None:
        self._failures.append((folder, told(reason) if isinstance(reason, Exception) else str(reason)))

    def drop(self, storage: StorageDirectories) -> None:
        """Use no more what failed, as long as another directory works."""
        while self._failures:
            folder, reason = self._failures.popleft()
            if folder.parent in storage.roots and len(storage.roots) > 1:
                storage.drop(folder, reason)

    def revise(self, storage: StorageDirectories, *, restore: bool) -> None:
        """Check every directory; with `restore` retry those that were dropped.

        Raises:
            StorageError: the directories are at odds.
        """
        self.drop(storage)
        storage.revise(restore=restore)


def begin_storage(
    storage: StorageDirectories,
    link: NamenodeLink,
    http_address: str,
    *,
    timeout: float,
    throttle: Throttle,
    cancelled: Callable[[], bool],
) -> DownloadedImage:
    """Format new directories for the NameNode's namespace, and fetch its newest image into them.

    Raises:
        RpcError, TransferError, CheckpointError: it did not give what is needed; they are as new as before.
        StorageError: they cannot be written.
        CheckpointCancelledError: `cancelled()` became true; they are as new as before, too.
    """
    info = link.namespace().storage_info
    storage.clean_leftovers()
    storage.format(info)
    try:
        image = download_image(
            http_address,
            link.newest_image_txid(),
            info,
            storage.current_folders(),
            timeout=timeout,
            throttle=throttle,
            cancel=cancelled,
        )
    except TransferCancelledError as error:
        storage.unformat()
        raise CheckpointCancelledError("cancelled while the first image was fetched") from error
    except BaseException:
        storage.unformat()
        raise
    _LOG.info("new storage: begins with the NameNode's image at %d", image.txid)
    return image


def check_storage(storage: StorageDirectories, link: NamenodeLink) -> None:
    """Refuse the NameNode of another namespace; one that cannot be asked now is asked at registration.

    Raises:
        StorageError, CheckpointError, UnsupportedLayoutError: it is not the one that the storage is for.
    """
    try:
        theirs = link.namespace().storage_info
    except RpcError as error:
        _LOG.warning("the NameNode cannot be asked which namespace it has: %s", error)
    else:
        check_same_namespace(theirs, storage.storage_info(), link.address)
