"""Rollback images of a rolling upgrade: which there are, and what becomes of them when it is finalized."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.storage.fitness import usable_images
from checkpointer.storage.inspector import StoredImage, list_images
from checkpointer.storage.lookup import ImageCopy
from hadoop_common.durable import rename_durably
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import told
from hadoop_common.names import image_name
from image_format.md5_file import md5_path, read_md5_file
from image_format.publish import place_image
from image_format.reader import ImageFile


def latest_rollback_image(folders: Sequence[Path]) -> ImageCopy | None:
    """The newest `fsimage_rollback_TXID` that has a digest file, None without one.

    Raises:
        StorageError: a folder cannot be read.
    """
    try:
        images = [image for folder in folders for image in _rollback_images(folder) if image.has_md5]
    except OSError as fault:
        raise StorageError(
            f"a storage directory cannot be read: {told(fault)}", hint="Check its disk and permissions."
        ) from fault
    best = max(images, key=lambda image: image.txid, default=None)
    return None if best is None else ImageCopy(best.path, best.txid)


def started_at(image: Path) -> int:
    """When the rolling upgrade began that an image is of, in ms since the epoch; 0 where it is of none.

    Raises:
        ImageFormatError: the image cannot be read.
    """
    with ImageFile.open(image, verify_md5=False) as opened:
        return opened.ns_info().rollingUpgradeStartTime


def promote_rollback_images(folders: Sequence[Path], before_txid: int) -> list[str]:
    """Rollback images older than `before_txid` become plain ones (FSImage.renameCheckpoint); returns warnings.

    The digest file gets the new name first, so that no image lacks one at any time. What fails stays a rollback
    image, which nobody takes for a checkpoint.
    """
    warnings = []
    for folder in folders:
        try:
            for image in _rollback_images(folder):
                if image.txid < before_txid:
                    _promote(image)
        except (OSError, HdfsError) as fault:
            warnings.append(f"a rollback image in {folder} could not be renamed: {told(fault)}")
    return warnings


def _rollback_images(folder: Path) -> list[StoredImage]:
    return usable_images(image for image in list_images(folder) if image.rollback)


def _promote(image: StoredImage) -> None:
    target = image.path.with_name(image_name(image.txid))
    if not (target.exists() and md5_path(target).exists()):
        if image.has_md5:
            place_image(image.path, target, read_md5_file(image.path))
        else:
            rename_durably(image.path, target)
    image.path.unlink(missing_ok=True)
    md5_path(image.path).unlink(missing_ok=True)
