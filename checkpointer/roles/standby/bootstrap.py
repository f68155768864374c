"""The first image of a standby, fetched from any NameNode that sends its image (BootstrapStandby)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from checkpointer.errors import TransferError
from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.image_fetcher import ImageFetcher
from checkpointer.roles.standby.version import newest_version
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.inspector import inspect
from checkpointer.transfer import stored_info
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RpcError

_LOG = logging.getLogger(__name__)


def bootstrap(
    storage: StorageDirectories,
    source: EditSource,
    version_at: Callable[[str], StorageInfo],
    images: ImageFetcher,
    addresses: Sequence[str],
    cancelled: Callable[[], bool],
) -> None:
    """Format locked, empty storage for the namespace of the shared edits, and fetch that namespace's newest image.

    Args:
        version_at: returns the VERSION of the NameNode at an address; used if the shared edits have no VERSION. It
            raises RpcError.
        addresses: NameNodes that may send the image, `http://host:port` each.

    Raises:
        StorageError: the shared edits cannot be read, or no NameNode sent an image; nothing is formatted.
        CheckpointCancelledError: `cancelled()` became true; nothing is formatted.
    """
    shared = source.version()
    failures: list[HdfsError] = []
    for address in addresses:
        try:
            info = version_at(address) if shared is None else shared
            storage.format(info)
            _fetch(storage, images, address, info, cancelled)
        except CheckpointCancelledError:
            break
        except (TransferError, RpcError) as error:
            failures.append(error)
            if cancelled():
                break
            # During a rolling upgrade, the next NameNode may report a different layout.
            storage.unformat()
        else:
            return
    storage.unformat()
    if cancelled():
        raise CheckpointCancelledError("cancelled during the fetch of the first image")
    raise _no_image(failures)


def _fetch(
    storage: StorageDirectories, images: ImageFetcher, address: str, info: StorageInfo, cancelled: Callable[[], bool]
) -> None:
    try:
        images.fetch(address, None, info, cancelled)
    except TransferError as refusal:
        stored = stored_info(refusal, info)
        if stored is None:
            raise
        storage.write_version(stored)
        images.fetch(address, None, stored, cancelled)


def repair_versions(storage: StorageDirectories) -> None:
    """Complete the interrupted adoption of an upgrade's VERSION in locked storage.

    Raises:
        StorageError: a directory cannot be read, or no directory is writable.
    """
    versions = {found.version for root in storage.roots if (found := inspect(root)).version is not None}
    newest = newest_version({each for each in versions if each is not None})
    if newest is not None and len(versions) > 1:
        _LOG.warning("the storage directories have different VERSIONs; all are set to %s", newest.colon_string())
        storage.write_version(newest)


def _no_image(failures: Sequence[HdfsError]) -> StorageError:
    reasons = "; ".join(error.message for error in failures) or "no NameNode is configured"
    return StorageError(
        f"no image to start from: {reasons}",
        hint="Find out why no NameNode sends its image; this daemon can start once a NameNode is active.",
    )
