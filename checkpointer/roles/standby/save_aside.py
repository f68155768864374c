"""Saves a namespace that cannot be compared with a NameNode now.

If all NameNodes stop and the shared edits are lost, the last transactions may exist only in the memory of a standby.
The image goes to `not_compared`, where the node neither uses nor offers it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.disk_space import FREE_SPACE_HINT
from checkpointer.storage.lost_pasts import NOT_COMPARED, new_folder
from engine.errors import CheckpointError, NotSavedError
from engine.observer import Observer
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text

_NOTHING_HINT = "The newest state on this node is its newest image and the edits that can still be read."
_AGAIN_HINT = (
    f"{FREE_SPACE_HINT} Then repeat the command. Do not restart or reload the daemon until the command has succeeded."
)


def save_aside(namespace: WarmNamespace, storage: StorageDirectories, observer: Observer) -> list[Path]:
    """Save the namespace to a new folder below `not_compared` in each directory; return the images.

    Raises:
        CheckpointError: no namespace is loaded.
        StorageError: the image could not be saved.
    """
    if namespace.applied_txid is None:
        raise CheckpointError("no namespace is in memory", hint=_NOTHING_HINT)
    folders = []
    try:
        folders = _new_folders(storage)
        saved = namespace.save(folders, becomes_base=False, observer=observer).saved
    except NotSavedError as error:
        raise NotSavedError(error.message, hint=_AGAIN_HINT) from error
    finally:
        for folder in folders:
            # a folder with an image remains
            with suppress(OSError):
                folder.rmdir()
    return list(saved.paths)


def _new_folders(storage: StorageDirectories) -> list[Path]:
    try:
        storage.require_space()
    except StorageError as error:
        raise NotSavedError(error.message) from error
    folders, faults = [], []
    for root in storage.roots:
        try:
            folders.append(new_folder(root, NOT_COMPARED))
        except OSError as fault:
            faults.append(error_text(fault, root))
    if not folders:
        raise NotSavedError(f"no folder for the image could be created: {'; '.join(faults)}")
    return folders
