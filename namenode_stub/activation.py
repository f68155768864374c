"""Activates a NameNode: fences previous writers and continues the edit log after all written edits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from checkpointer.storage.inspector import inspect
from checkpointer.storage.usable_images import latest_image
from engine.loaded_image import LoadedImage, load_image
from engine.replay import replay
from hadoop_common.errors import StorageError
from hadoop_common.seen_txid import check_covered
from image_format.reader import ImageFile
from journal.journal_set import JournalSet
from journal.segment_copies import read_log
from namenode_stub.active_state import ActiveState
from namenode_stub.edit_journals import check_shared_edits, open_edit_journals
from namenode_stub.node_parts import NodeParts
from namenode_stub.storage import StorageLocks, check_storage

_LOG = logging.getLogger(__name__)


def activate(parts: NodeParts, locks: StorageLocks, load: Callable[[], LoadedImage]) -> ActiveState:
    """Recover the journals, apply them to the namespace returned by `load`, and begin a segment.

    The lock on a shared directory excludes other NameNodes. Other shared journals fence them during recovery.

    Raises:
        StorageError: a shared directory is in use, or edits that once existed are missing.
        JournalError, ReplayError, ImageFormatError: a journal is unusable, or data is damaged.
    """
    with ExitStack() as undone:
        shared = parts.config.shared_edits_directory
        if shared is not None:
            locks.take(shared)
            undone.callback(locks.release, shared)
            check_storage(parts.config.storage_directories)
        journals = open_edit_journals(parts.config, locks.held, parts.info)
        undone.callback(journals.close)
        journals.recover(parts.info)
        loaded = load()
        undone.callback(loaded.image.close)
        _catch_up(parts, journals, loaded)
        state = ActiveState(parts, journals, loaded)
        undone.pop_all()
    state.start()
    return state


def load_newest(parts: NodeParts) -> LoadedImage:
    """Load the newest image without edits.

    Raises:
        StorageError: there is no image, or its layout differs from VERSION.
        ImageFormatError: the image is damaged.
    """
    newest = latest_image(parts.image_folders)
    with ExitStack() as undone:
        image = undone.enter_context(ImageFile.open(newest.path))
        if image.layout_version != parts.info.layout_version:
            raise StorageError(
                f"{newest.path} has layout {image.layout_version}, but VERSION has {parts.info.layout_version}",
                hint="Finish the upgrade with a NameNode of the cluster's release first.",
            )
        loaded = load_image(image)
        undone.pop_all()
    return loaded


def _catch_up(parts: NodeParts, journals: JournalSet, loaded: LoadedImage) -> None:
    namespace = loaded.namespace
    after = namespace.last_txid + 1
    replay(namespace, parts.retry_cache.watch(read_log(journals.segments(after), after)))
    for directory in parts.config.storage_directories:
        storage = inspect(directory)
        check_covered(storage.current, storage.seen_txid, namespace.last_txid)
    check_shared_edits(journals, namespace.last_txid)
    _LOG.info("loaded the image at txid %d and edits up to %d", after - 1, namespace.last_txid)
