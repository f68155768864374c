"""Rollback images of a rolling upgrade, and their promotion when the upgrade is finalized."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.storage.inspector import StoredImage, list_images
from checkpointer.storage.usable_images import ImageCopy, usable_images
from hadoop_common.durable import rename_durably
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import image_name
from image_format.md5_file import md5_path, read_md5_file
from image_format.publish import place_image
from image_format.reader import ImageFile


def latest_rollback_image(folders: Sequence[Path]) -> ImageCopy | None:
    """Return the newest `fsimage_rollback_TXID` with a digest file, or None if there is none.

    Raises:
        StorageError: a folder cannot be read.
    """
    try:
        images = [image for folder in folders for image in _rollback_images(folder) if image.has_md5]
    except OSError as fault:
        raise StorageError(
            f"a storage directory cannot be read: {error_text(fault)}", hint="Check its disk and permissions."
        ) from fault
    best = max(images, key=lambda image: image.txid, default=None)
    return None if best is None else ImageCopy(best.path, best.txid)


def started_at(image: Path) -> int:
    """Return the start time of an image's rolling upgrade, in ms since the epoch; 0 if there was no rolling upgrade.

    Raises:
        ImageFormatError: the image cannot be read.
    """
    with ImageFile.open(image, verify_md5=False) as opened:
        return opened.ns_info().rollingUpgradeStartTime


def promote_rollback_images(folders: Sequence[Path], before_txid: int) -> list[str]:
    """Rename rollback images older than `before_txid` to ordinary images (FSImage.renameCheckpoint); return warnings.

    Rename the digest file first, so that each ordinary image always has a digest file. An image that cannot be renamed
    remains a rollback image, which is never mistaken for a checkpoint.
    """
    warnings = []
    for folder in folders:
        try:
            for image in _rollback_images(folder):
                if image.txid < before_txid:
                    _promote(image)
        except (OSError, HdfsError) as fault:
            warnings.append(f"a rollback image in {folder} could not be renamed: {error_text(fault)}")
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
