"""The first image of a standby: fetched from whichever NameNode gives it (BootstrapStandby)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from checkpointer.errors import CheckpointCancelledError, StorageError, TransferError
from checkpointer.standby.image_source import ImageSource
from checkpointer.standby.version import newest_version
from checkpointer.storage.directories import StorageDirectories, read_storage_info
from checkpointer.storage.inspector import inspect
from hadoop_common.storage_info import StorageInfo

__all__ = ["bootstrap", "check_journal", "settle_versions"]

_LOG = logging.getLogger(__name__)


def bootstrap(
    storage: StorageDirectories,
    shared: Path,
    images: ImageSource,
    addresses: Sequence[str],
    cancelled: Callable[[], bool],
) -> None:
    """Format locked, empty storage for the namespace of the shared edits and fetch its newest image.

    Args:
        shared: the shared edits directory.
        addresses: NameNodes that may give it, `http://host:port` each.

    Raises:
        StorageError: the shared directory cannot be read, or no NameNode gave an image; nothing is formatted.
        CheckpointCancelledError: `cancelled()` became true; nothing is formatted.
    """
    info = read_storage_info(shared)
    storage.format(info)
    failures = []
    for address in addresses:
        try:
            images.fetch(address, None, info, cancelled)
        except CheckpointCancelledError:
            break
        except TransferError as error:
            failures.append(error)
            if cancelled():
                break
        else:
            return
    storage.unformat()
    if cancelled():
        raise CheckpointCancelledError("cancelled while the first image was fetched")
    raise _no_image(failures)


def settle_versions(storage: StorageDirectories) -> None:
    """Finish what a kill cut short while the VERSION of an upgrade was written, in locked storage.

    Raises:
        StorageError: a directory cannot be read, or none can be written.
    """
    versions = {found.version for root in storage.roots if (found := inspect(root)).version is not None}
    newest = newest_version({each for each in versions if each is not None})
    if newest is not None and len(versions) > 1:
        _LOG.warning("the storage directories differ in their VERSION, all get %s", newest.colon_string())
        storage.write_version(newest)


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
