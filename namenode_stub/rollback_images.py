"""Rollback images of a rolling upgrade: which there are, and what becomes of them when it is finalized."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.storage.inspector import list_images
from hadoop_common.durable import fsync_directory, rename_durably, write_atomically
from hadoop_common.names import image_name
from image_format.md5_file import format_md5, md5_path, read_md5_file

__all__ = ["has_rollback_image", "promote_rollback_images"]


def has_rollback_image(folders: Sequence[Path]) -> bool:
    """Whether a `current` folder has one (FSImage.hasRollbackFSImage)."""
    return any(image.rollback for folder in folders for image in list_images(folder))


def promote_rollback_images(folders: Sequence[Path]) -> None:
    """Each folder's newest rollback image becomes a plain one (FSImage.renameCheckpoint).

    Its digest file gets the new name first, so that no image lacks one at any time.

    Raises:
        OSError: a file cannot be renamed.
        DigestMismatchError, ImageStorageError: an image's digest file is damaged.
    """
    for folder in folders:
        rollbacks = [image for image in list_images(folder) if image.rollback]
        if not rollbacks:
            continue
        newest = max(rollbacks, key=lambda image: image.txid)
        target = folder / image_name(newest.txid)
        if newest.has_md5:
            write_atomically(md5_path(target), format_md5(read_md5_file(newest.path), target.name))
        rename_durably(newest.path, target)
        md5_path(newest.path).unlink(missing_ok=True)
        fsync_directory(folder)
