"""Saves a namespace that cannot be compared with a NameNode now.

If all NameNodes stop and the shared edits are lost, the last transactions may exist only in the memory of a standby.
The image goes to `not_compared`, where the node neither uses nor offers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lost_pasts import NOT_COMPARED, folders_aside, new_folder, trim
from engine.errors import CheckpointError
from engine.observer import Observer
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import image_name


def save_aside(namespace: WarmNamespace, storage: StorageDirectories, observer: Observer) -> list[Path]:
    """Save the namespace to a new folder below `not_compared` in each directory; return the images.

    If such a folder already contains an image of the same transaction, only return the existing images.

    Raises:
        CheckpointError: no namespace is loaded, or an image in `current` contains all its transactions.
        StorageError: the image could not be saved.
    """
    txid = namespace.applied_txid
    if txid is None:
        raise CheckpointError(
            "no namespace is in memory",
            hint="Nothing is lost: the images are in the storage directories, and the edits in the journal.",
        )
    with suppress(StorageError):
        if (newest := storage.latest_image()).txid >= txid:
            raise CheckpointError(
                f"{newest.path} already contains all transactions in memory", hint="Copy this image and its .md5 file."
            )
    name = image_name(txid)
    known = [folder / name for root in storage.roots for folder in folders_aside(root, NOT_COMPARED)]
    if existing := [path for path in known if path.exists()]:
        return existing
    storage.require_space()
    folders = _new_folders(storage.roots)
    try:
        saved = namespace.save(folders, becomes_base=False, observer=observer).saved
    finally:
        for folder in folders:
            # a folder with an image remains
            with suppress(OSError):
                folder.rmdir()
    for path in saved.paths:
        trim(path.parent)
    return list(saved.paths)


def _new_folders(roots: Sequence[Path]) -> list[Path]:
    folders, faults = [], []
    for root in roots:
        try:
            folders.append(new_folder(root, NOT_COMPARED))
        except OSError as fault:
            faults.append(error_text(fault, root))
    if not folders:
        raise StorageError(
            f"no folder for the image could be created: {'; '.join(faults)}",
            hint="Make a storage directory writable, then repeat the command. Do not restart the daemon before.",
        )
    return folders
