"""The first image of a standby: fetched from whichever NameNode gives it (BootstrapStandby)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from checkpointer.config import CheckpointConfig
from checkpointer.errors import CheckpointCancelledError, StorageError, TransferError
from checkpointer.storage.directories import StorageDirectories, read_storage_info
from checkpointer.transfer import download_image
from hadoop_common.storage_info import StorageInfo
from servlets.throttle import Throttle

__all__ = ["bootstrap", "check_journal"]

_LOG = logging.getLogger(__name__)


def bootstrap(
    storage: StorageDirectories,
    shared: Path,
    config: CheckpointConfig,
    cancelled: Callable[[], bool],
    *,
    count: Callable[[int], None],
) -> tuple[str, int]:
    """Format locked, empty storage for the namespace of the shared edits and fetch its newest image.

    Args:
        shared: the shared edits directory.
        count: told the bytes that came.

    Returns:
        Address of the NameNode that gave the image, and its txid.

    Raises:
        StorageError: the shared directory cannot be read, or no NameNode gave an image; nothing is formatted.
        CheckpointCancelledError: `cancelled()` became true; nothing is formatted.
    """
    info = read_storage_info(shared)
    storage.format(info)
    failures = []
    for address in config.namenode_http_addresses:
        try:
            image = download_image(
                address,
                None,
                info,
                storage.current_folders(),
                bootstrap=True,
                timeout=config.transfer_timeout,
                throttle=Throttle(config.bootstrap_bandwidth, count=count),
                cancel=cancelled,
            )
        except TransferError as error:
            failures.append(error)
            if cancelled():
                break
            continue
        _LOG.info("bootstrapped from %s with the image at txid %d", address, image.txid)
        return address, image.txid
    storage.unformat()
    if cancelled():
        raise CheckpointCancelledError("cancelled while the first image was fetched")
    raise _no_image(failures)


def _no_image(failures: Sequence[TransferError]) -> StorageError:
    reasons = "; ".join(error.message for error in failures) or "no NameNode is configured"
    return StorageError(f"no image to start from: {reasons}", hint="Start the active NameNode, then this daemon.")


def check_journal(shared: Path, ours: StorageInfo) -> None:
    """Refuse the edits of another namespace; a shared directory that cannot be read now may be there later.

    Raises:
        StorageError: it belongs to another namespace or cluster.
    """
    try:
        theirs = read_storage_info(shared)
    except StorageError as error:
        _LOG.warning("whose edits the shared directory holds is not known: %s", error)
        return
    if (theirs.namespace_id, theirs.cluster_id) != (ours.namespace_id, ours.cluster_id):
        raise StorageError(
            f"{shared / 'current'} holds edits of {theirs.colon_string()}, our images are of {ours.colon_string()}",
            hint="Check dfs.namenode.shared.edits.dir, or empty dfs.namenode.name.dir to start anew.",
        )
