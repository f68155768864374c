"""Images and edits that are set aside instead of deleted, so that an operator can examine them.

Files of a lost past are moved to `lost_past`. Files that could not be compared with the NameNode, for example because
every image is damaged, are moved to `not_compared`. The NameNode may still have their past.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hadoop_common.durable import fsync_directory, write_atomically
from hadoop_common.names import md5_name, parse_image, parse_segment

_LOG = logging.getLogger(__name__)
PROVENANCE = "provenance.json"
"""File next to images with the facts about their past (`checkpointer.set_back.provenance`)."""

LOST_PAST = "lost_past"
NOT_COMPARED = "not_compared"
KEPT = 3
"""Number of folders to keep in `LOST_PAST` and in `NOT_COMPARED`: the oldest folder and the newest folders."""
_STAMP = "%Y%m%dT%H%M%S.%fZ"


def set_aside(
    root: Path,
    parent: str = LOST_PAST,
    *,
    keep: Iterable[str] = (),
    only: Collection[str] | None = None,
    into: Path | None = None,
) -> Path | None:
    """Move images, edits and their records from `root`/current to a new folder below `root`/`parent`.

    Digest files move before their images, because an image without a digest file is never used.

    Args:
        parent: `LOST_PAST` or `NOT_COMPARED`.
        keep: names of images that remain, together with their digest files.
        only: names of images and edits that may be moved; None for all.
        into: folder of a preceding `link_aside`, to use instead of a new folder.

    Returns:
        The folder; None if there were no files to move.

    Raises:
        OSError: a file could not be moved.
    """
    current = root / "current"
    stay = {each for name in keep for each in (name, md5_name(name))}
    names = {path.name for path in current.iterdir()} - stay
    moving = _contents(names, only)
    if not moving and into is None:
        (current / PROVENANCE).unlink(missing_ok=True)
        return None
    target = into or _new_folder(root / parent)
    # not `rename_durably`, because one sync of both directories at the end is sufficient for thousands of segments
    for name in moving:
        # a segment that is being written may be renamed during the loop
        with suppress(FileNotFoundError):
            if md5_name(name) in names:
                _move(current / md5_name(name), target / md5_name(name))
            _move(current / name, target / name)
    if PROVENANCE in names:
        _move(current / PROVENANCE, target / PROVENANCE)
    fsync_directory(target)
    fsync_directory(current)
    _trim(root / parent)
    return target


def link_aside(root: Path, parent: str = LOST_PAST, *, only: Collection[str] | None = None) -> Path | None:
    """Link the files that `set_aside` moves into a folder below `root`/`parent`, before the NameNode's image replaces
    an image of the same name.

    If the process is killed, the folder still contains the whole lost past, although retention may purge the files in
    `root`/current as soon as the NameNode's image is stored. They remain there until `set_aside`, so that the directory
    still has an image if the process is killed or the fetch fails. On a file system without hard links, move the files.

    Args:
        parent, only: see `set_aside`.

    Returns:
        The folder, even if an earlier call created it; None if there are no files to link.

    Raises:
        OSError: a file could not be linked or moved.
    """
    current = root / "current"
    names = {path.name for path in current.iterdir()}
    linking = _contents(names, only)
    if not linking:
        return None
    begun = (folder for folder in folders_aside(root, parent)[-1:] if _has_only_links(folder, current))
    target = next(begun, None) or _new_folder(root / parent)
    for name in linking:
        # a segment that is being written may be renamed during the loop
        with suppress(FileNotFoundError):
            _link(current, name, target, [md5_name(name)] if md5_name(name) in names else [])
    if PROVENANCE in names and not _is_same(current / PROVENANCE, target / PROVENANCE):
        (target / PROVENANCE).unlink(missing_ok=True)
        _link(current, PROVENANCE, target)
    fsync_directory(target)
    return target


def folders_aside(root: Path, parent: str = LOST_PAST) -> tuple[Path, ...]:
    """Return the folders below `root`/`parent`, oldest first.

    Raises:
        OSError: the folders cannot be listed.
    """
    above = root / parent
    return tuple(sorted(path for path in above.iterdir() if path.is_dir())) if above.is_dir() else ()


def _contents(names: Collection[str], only: Collection[str] | None) -> list[str]:
    """Return the images and edits among `names`, sorted."""
    found = (name for name in names if parse_image(name) is not None or parse_segment(name) is not None)
    return sorted(name for name in found if only is None or name in only)


def _has_only_links(folder: Path, current: Path) -> bool:
    """Return whether an interrupted `link_aside` left `folder`: all its images and edits are still in `current`.

    A folder with any other file may contain another lost past, and two lost pasts must not be mixed.
    """
    names = {path.name for path in folder.iterdir()} - {PROVENANCE}
    return bool(names) and all(_is_same(folder / name, current / name) for name in names)


def _is_same(one: Path, other: Path) -> bool:
    with suppress(FileNotFoundError):
        return one.samefile(other)
    return False


def _link(current: Path, name: str, target: Path, digests: Sequence[str] = ()) -> None:
    """Link a file of `current` with its digest file, if any, into the folder `target`, unless `target` contains the
    file.
    """
    try:
        for each in (*digests, name):
            if not (target / each).exists():
                (target / each).hardlink_to(current / each)
    except FileNotFoundError:
        raise
    except OSError:
        # a kill must not leave the image without its digest file, because the next fetch would then overwrite the image
        for digest in digests:
            write_atomically(target / digest, (current / digest).read_bytes())
        (current / name).rename(target / name)
        for digest in digests:
            (current / digest).unlink()


def _move(source: Path, target: Path) -> None:
    # a rename to another link of the same file would leave both links
    if _is_same(source, target):
        source.unlink()
    else:
        source.rename(target)


def _new_folder(parent: Path) -> Path:
    parent.mkdir(mode=0o700, exist_ok=True)
    at = datetime.now(UTC)
    # names must sort by age, even after the clock was set back, because their order determines the folders to keep
    for folder in folders_aside(parent.parent, parent.name):
        with suppress(ValueError):
            at = max(at, datetime.strptime(folder.name, _STAMP).replace(tzinfo=UTC) + timedelta(microseconds=1))
    target = parent / at.strftime(_STAMP)
    target.mkdir(mode=0o700)
    fsync_directory(parent)
    fsync_directory(parent.parent)
    return target


def _trim(parent: Path) -> None:
    # keep the oldest folder until an operator removes it, because it contains the files that were lost first
    for folder in folders_aside(parent.parent, parent.name)[1 : 1 - KEPT]:
        try:
            shutil.rmtree(folder)
        except OSError as fault:
            # An operator may have written files there as another user; the present files must still be set aside.
            _LOG.warning("%s cannot be removed: %s", fault.filename or folder, fault.strerror or fault)
