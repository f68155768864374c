"""What a storage directory that comes back must not bring with it: contents that the others do not have.

While it was left out the others went on. Its images may be of a past that the NameNode has lost since, and would seem
to be the newest. So it keeps what another directory has too, byte for byte. What retention has purged from the others
is purged here, and everything else is set aside.
"""

from __future__ import annotations

import filecmp
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpointer.storage.aside import set_aside
from checkpointer.storage.fitness import with_usable_images
from checkpointer.storage.inspector import StorageDirectory
from hadoop_common.errors import HdfsError
from hadoop_common.names import md5_name
from image_format.md5_file import read_md5_file

_LOG = logging.getLogger(__name__)

# Whether two files of the same name, the second in a directory that is up to date, have the same contents.
Same = Callable[[Path, Path], bool]


@dataclass(frozen=True, slots=True)
class StaleContents:
    """Names of images and segments in a `current` folder: those to `purge`, and those to set `aside`."""

    purge: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


def stale_contents(
    found: StorageDirectory, current: Sequence[StorageDirectory], same_image: Same, same_segment: Same
) -> StaleContents:
    """What of `found` has to go, by the directories that are up to date; nothing where those have no image."""
    images = [image for each in current for image in each.images]
    if not images:
        return StaleContents()
    oldest = min(image.txid for image in images)
    segments = [segment for each in current for segment in each.segments]
    first = min((segment.first for segment in segments), default=oldest)
    purge: list[str] = []
    aside: list[str] = []
    for image in found.images:
        if not _has_twin(image.path, (each.path for each in images), same_image):
            (purge if image.txid < oldest else aside).append(image.path.name)
    for segment in found.segments:
        if not _has_twin(segment.path, (each.path for each in segments), same_segment):
            old = segment.last is not None and segment.last < min(first, oldest)
            (purge if old else aside).append(segment.path.name)
    return StaleContents(tuple(purge), tuple(aside))


def leave_stale_contents(found: StorageDirectory, current: Sequence[StorageDirectory]) -> None:
    """Purge and set aside in `found`, whose lock is held, what the directories `current` do not have.

    What is named like an image and cannot be used counts for nothing, and stays.

    Raises:
        OSError: a file cannot be read, moved or removed.
    """
    usable = [with_usable_images(each) for each in current]
    stale = stale_contents(with_usable_images(found), usable, _same_image, _same_segment)
    for name in stale.purge:
        (found.current / md5_name(name)).unlink(missing_ok=True)
        (found.current / name).unlink(missing_ok=True)
    if stale.purge:
        _LOG.info("%d old files were purged from %s, as from the others", len(stale.purge), found.current)
    if stale.aside:
        target = set_aside(found.root, only=stale.aside)
        _LOG.warning(
            "%s holds %d images or edits that the other storage directories do not have: moved to %s",
            found.root,
            len(stale.aside),
            target,
        )


def _has_twin(path: Path, others: Iterable[Path], same: Same) -> bool:
    return any(other.name == path.name and same(path, other) for other in others)


def _same_image(path: Path, other: Path) -> bool:
    """By digest files: each copy is verified when it is read."""
    try:
        return path.stat().st_size == other.stat().st_size and read_md5_file(path) == read_md5_file(other)
    except (OSError, HdfsError):
        return False


def _same_segment(path: Path, other: Path) -> bool:
    return filecmp.cmp(path, other, shallow=False)
