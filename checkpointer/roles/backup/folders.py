"""Storage directories of a backup node: failures, recovery, and the initial content of new directories."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from checkpointer.errors import TransferError
from checkpointer.roles.backup.namenode_link import NamenodeLink, check_same_namespace
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import revise
from checkpointer.transfer import DownloadedImage, TransferCancelledError, download_image, stored_info
from engine.errors import CheckpointCancelledError
from hadoop_common.file_faults import error_text
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from hadoop_rpc.errors import RpcConnectionError, RpcError, RpcTimeoutError
from site_config.keys import NAME_DIR

_LOG = logging.getLogger(__name__)


class FailedFolders:
    """Failures of folders, which any thread records for the thread that may change the storage."""

    def __init__(self) -> None:
        self._failures: deque[tuple[Path, str]] = deque()

    def note(self, folder: Path, reason: object) -> None:
        self._failures.append((folder, error_text(reason) if isinstance(reason, Exception) else str(reason)))

    def drop(self, storage: StorageDirectories) -> None:
        """Drop the failed directories, but never the last remaining directory."""
        while self._failures:
            folder, reason = self._failures.popleft()
            if folder.parent in storage.roots and len(storage.roots) > 1:
                storage.drop(folder, reason)

    def revise(self, storage: StorageDirectories, *, restore: bool) -> None:
        """Check every directory; with `restore`, also retry dropped directories.

        Raises:
            StorageError: the directories contradict each other.
        """
        self.drop(storage)
        revise(storage, restore_dropped=restore)


def initialize_storage(
    storage: StorageDirectories,
    link: NamenodeLink,
    http_address: str,
    *,
    timeout: float,
    throttle: Throttle,
    cancelled: Callable[[], bool],
) -> DownloadedImage:
    """Format new directories for the NameNode's namespace, and fetch the NameNode's newest image into them.

    Raises:
        RpcError, TransferError, CheckpointError: the NameNode did not send the required files; the directories are
        unformatted again.
        StorageError: the directories cannot be written.
        CheckpointCancelledError: `cancelled()` became true; the directories are unformatted again.
    """
    info = link.namespace().storage_info

    def fetch(expected: StorageInfo) -> DownloadedImage:
        return download_image(
            http_address,
            link.newest_image_txid(),
            expected,
            storage.current_folders(),
            timeout=timeout,
            throttle=throttle,
            cancel=cancelled,
        )

    storage.clean_leftovers()
    storage.format(info)
    try:
        try:
            image = fetch(info)
        except TransferError as refusal:
            stored = stored_info(refusal, info)
            if stored is None:
                raise
            storage.write_version(stored)
            image = fetch(stored)
    except TransferCancelledError as error:
        storage.unformat()
        raise CheckpointCancelledError("cancelled while the first image was fetched") from error
    except BaseException:
        storage.unformat()
        raise
    _LOG.info("the new storage begins with the NameNode's image at txid %d", image.txid)
    return image


def check_storage(storage: StorageDirectories, link: NamenodeLink) -> None:
    """Refuse a NameNode of another namespace. If the NameNode cannot be queried now, the registration checks the
    namespace.

    Raises:
        StorageError, CheckpointError, UnsupportedLayoutError: the storage does not belong to the NameNode.
    """
    try:
        theirs = link.namespace().storage_info
    except RpcError as error:
        _LOG.warning("the NameNode's namespace cannot be queried: %s", error)
        # a NameNode that does not answer in time still holds the locks of its directories
        is_down = isinstance(error, RpcConnectionError) and not isinstance(error, RpcTimeoutError)
        if is_down and link.is_on_this_host() and not storage.held:
            # only a warning, because a copy or a moved mount point looks the same
            _LOG.warning(
                "%s may be the storage of the NameNode at %s, which is on this host and cannot start while this node "
                "uses its storage; next: if so, set %s of the backup node to a separate directory, and restart the "
                "backup node",
                ", ".join(map(str, storage.roots)),
                link.address,
                NAME_DIR.name,
            )
    else:
        check_same_namespace(theirs, storage.storage_info(), link.address)
