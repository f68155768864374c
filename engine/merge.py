"""The merge in one call: load an image, replay edits onto it, save the result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.loaded_image import LoadedImage, load_image
from engine.observer import Observer, SilentObserver
from engine.saver import MergeResult, Timings
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from journal.ops import EditOp

__all__ = ["LoadedImage", "MergeResult", "Observer", "SilentObserver", "Timings", "load_image", "merge"]


def merge(
    image_path: Path,
    ops: Iterable[EditOp],
    directories: list[Path],
    settings: MergeSettings = MergeSettings(),
    *,
    expected: int | None = None,
    observer: Observer | None = None,
) -> MergeResult:
    """Replay `ops` onto the image and save the new image in every directory.

    Args:
        image_path: newest valid image; its digest is verified before the new image receives its name.
        directories: `current` folders that receive `fsimage_TXID` and its digest file.

    Raises:
        ImageFormatError, JournalError, ReplayError: bad input; no part of the new image remains.
        StorageError: the image could not be saved in any directory.
        CheckpointCancelledError: the observer cancelled the merge; no part of the new image remains.
    """
    with WarmNamespace(settings) as namespace:
        namespace.load(image_path, observer)
        namespace.apply(ops, expected=expected, observer=observer)
        return namespace.save(directories, observer=observer)
