"""How a NameNode becomes active: it fences the previous writers, and continues after all that was written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from checkpointer.storage.inspector import check_covered, inspect
from checkpointer.storage.usable_images import latest_image
from engine.loaded_image import LoadedImage, load_image
from engine.replay import replay
from hadoop_common.errors import StorageError
from image_format.reader import ImageFile
from journal.journal_set import JournalSet
from journal.segment_copies import read_log
from namenode_stub.active_state import ActiveState
from namenode_stub.edit_journals import check_shared_edits, open_edit_journals
from namenode_stub.node_resources import NodeResources
from namenode_stub.storage import StorageLocks, check_storage

_LOG = logging.getLogger(__name__)


def activate(resources: NodeResources, locks: StorageLocks, load: Callable[[], LoadedImage]) -> ActiveState:
    """Recover the journals, apply what they hold to the namespace that `load` gives, begin a segment.

    A shared directory is locked, which shuts another NameNode out; other journals fence it by their recovery.

    Raises:
        StorageError: a shared directory is in use, or edits that once existed are gone.
        JournalError, ReplayError, ImageFormatError: a journal cannot be used, or what there is is damaged.
    """
    with ExitStack() as undone:
        shared = resources.config.shared_edits_directory
        if shared is not None:
            locks.take(shared)
            undone.callback(locks.release, shared)
            check_storage(resources.config.storage_directories)
        journals = open_edit_journals(resources.config, locks.held, resources.info)
        undone.callback(journals.close)
        journals.recover(resources.info)
        loaded = load()
        undone.callback(loaded.image.close)
        _catch_up(resources, journals, loaded)
        state = ActiveState(resources, journals, loaded)
        undone.pop_all()
    state.start()
    return state


def load_newest(resources: NodeResources) -> LoadedImage:
    """The newest image, with no edits applied.

    Raises:
        StorageError: there is none, or it is of another layout than VERSION says.
        ImageFormatError: it is damaged.
    """
    newest = latest_image(resources.image_folders)
    with ExitStack() as undone:
        image = undone.enter_context(ImageFile.open(newest.path))
        if image.layout_version != resources.info.layout_version:
            raise StorageError(
                f"{newest.path} is of layout {image.layout_version}, but VERSION says {resources.info.layout_version}",
                hint="Finish the upgrade with a NameNode of the cluster's release first.",
            )
        loaded = load_image(image)
        undone.pop_all()
    return loaded


def _catch_up(resources: NodeResources, journals: JournalSet, loaded: LoadedImage) -> None:
    namespace = loaded.namespace
    after = namespace.last_txid + 1
    replay(namespace, resources.retry_cache.watch(read_log(journals.segments(after), after)))
    for directory in resources.config.storage_directories:
        check_covered(inspect(directory), namespace.last_txid)
    check_shared_edits(journals, namespace.last_txid)
    _LOG.info("the namespace was at txid %d, the edits continue to %d", after - 1, namespace.last_txid)
