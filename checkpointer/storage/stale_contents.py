"""Stale contents of a returning storage directory: images and edits that the other directories do not have.

While the directory was dropped, the other directories remained in use. Its images may belong to a past that the
NameNode has since lost, but could be mistaken for the newest images. Therefore, the directory retains only two kinds of
files: files with an identical copy in another directory, and files older than all files in the other directories, which
retention will purge. This module sets all other files aside.
"""

from __future__ import annotations

import filecmp
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from checkpointer.storage.disk_space import FREE_SPACE_HINT, space_fault
from checkpointer.storage.formatting import clean_leftovers, write_seen_txid, write_version
from checkpointer.storage.inspector import StorageDirectory
from checkpointer.storage.lost_pasts import START_OVER, set_aside
from checkpointer.storage.usable_images import with_usable_images
from hadoop_common.durable import remove_durably
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.storage_info import StorageInfo
from image_format.md5_file import read_md5_file

_LOG = logging.getLogger(__name__)

# returns whether two files with the same name are equal; the second file is in a directory that is up to date
Same = Callable[[Path, Path], bool]


def stale_contents(
    found: StorageDirectory, current: Sequence[StorageDirectory], oldest: int, same_image: Same, same_segment: Same
) -> list[str]:
    """Return the names of stale images and segments in `found`; the directories `current` are up to date.

    Args:
        oldest: txid of the oldest usable image in `current`, without rollback images.
    """
    images = [image.path for each in current for image in each.images]
    segments = [segment for each in current for segment in each.segments]
    first = min((segment.first for segment in segments), default=oldest)
    stale = [
        image.path.name
        for image in found.images
        if image.txid >= oldest and not _has_twin(image.path, images, same_image)
    ]
    for segment in found.segments:
        is_older = segment.last is not None and segment.last < min(first, oldest)
        if not is_older and not _has_twin(segment.path, (each.path for each in segments), same_segment):
            stale.append(segment.path.name)
    return stale


def set_aside_stale_contents(
    found: StorageDirectory, current: Sequence[StorageDirectory], *, keep_segments: bool = False
) -> None:
    """Set aside the files of `found` that the directories `current` do not have; the caller holds the lock of `found`.

    Ignore unusable files with the name of an image. If `current` contains no usable image, all files remain.

    Args:
        keep_segments: whether all segments remain, because the directories `current` do not contain edits.

    Raises:
        OSError: a file cannot be read or moved.
    """
    usable = [image.txid for each in current for image in with_usable_images(each).images if not image.rollback]
    if not usable:
        return
    returning = with_usable_images(found)
    if keep_segments:
        returning = replace(returning, segments=())
    stale = stale_contents(returning, current, min(usable), _same_image, _same_segment)
    if stale:
        target = set_aside(found.root, only=stale)
        _LOG.warning(
            "%s contains %d images or edits that the other storage directories do not have: moved to %s",
            found.root,
            len(stale),
            target,
        )


def bring_up_to_date(
    found: StorageDirectory,
    current: Sequence[StorageDirectory],
    info: StorageInfo,
    seen_txid: int,
    newest: Path | None,
    *,
    keep_segments: bool,
) -> None:
    """Check that a returning directory is writable, and set aside contents that the directories `current` do not have.

    After an upgrade or its rollback, or in an unfinished start-over, set aside all contents. There must be space for
    another image of the size of `newest`.

    Raises:
        StorageError: there is no space for another image.
        OSError: the directory cannot be read or written.
    """
    if problem := space_fault(found.root, newest):
        raise StorageError(problem, hint=FREE_SPACE_HINT)
    clean_leftovers(found.current)
    if found.start_over is not None:
        set_aside(found.root, found.start_over.parent)
    elif found.version is not None and found.version.c_time != info.c_time:
        set_aside(found.root)
    else:
        set_aside_stale_contents(found, current, keep_segments=keep_segments)
    # it remains if the directory contained neither images nor edits
    remove_durably(found.current / START_OVER)
    write_seen_txid(found.root, seen_txid)
    if found.version != info:
        write_version(found.root, info)


def _has_twin(path: Path, others: Iterable[Path], same: Same) -> bool:
    return any(other.name == path.name and same(path, other) for other in others)


def _same_image(path: Path, other: Path) -> bool:
    """Compare the digest files, because the reader of a copy verifies it; if `other` has no digest file, compare the
    images.
    """
    try:
        digest = read_md5_file(path)
        try:
            return digest == read_md5_file(other)
        except HdfsError:
            return filecmp.cmp(path, other, shallow=False)
    except (OSError, HdfsError):
        return False


def _same_segment(path: Path, other: Path) -> bool:
    return filecmp.cmp(path, other, shallow=False)
