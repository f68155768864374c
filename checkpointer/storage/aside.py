"""Moves a lost past out of the way: nothing of it is deleted that nobody has looked at."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from hadoop_common.durable import fsync_directory
from hadoop_common.names import md5_name, parse_image, parse_segment

PROVENANCE = "provenance.json"
"""Beside images: what is known of their past (`past.provenance`)."""

LOST_PAST = "lost_past"
KEPT = 3
"""Lost pasts that a storage directory keeps: the oldest and the newest ones."""


def set_aside(root: Path, *, keep: Iterable[str] = (), only: Collection[str] | None = None) -> Path | None:
    """Move images, edits and their records from `root`/current to a new folder below `root`/lost_past.

    Digest files move before their images: an image without one counts for nothing here, and its digest is kept.

    Args:
        keep: names of images that stay, with their digest files.
        only: names of images and edits that may be moved; None for all.

    Returns:
        The folder; None where there was nothing to move.

    Raises:
        OSError: a file could not be moved.
    """
    current = root / "current"
    stay = {each for name in keep for each in (name, md5_name(name))}
    names = {path.name for path in current.iterdir()} - stay
    moving = sorted(
        name
        for name in names
        if (parse_image(name) is not None or parse_segment(name) is not None) and (only is None or name in only)
    )
    if not moving:
        (current / PROVENANCE).unlink(missing_ok=True)
        return None
    target = _new_folder(root / LOST_PAST)
    # not `rename_durably`: thousands of segments, and both directories are synced once behind the last one
    for name in moving:
        # A segment may get another name meanwhile: then it is one that is being written.
        with suppress(FileNotFoundError):
            if md5_name(name) in names:
                (current / md5_name(name)).rename(target / md5_name(name))
            (current / name).rename(target / name)
    if PROVENANCE in names:
        (current / PROVENANCE).rename(target / PROVENANCE)
    fsync_directory(target)
    fsync_directory(current)
    _trim(root / LOST_PAST)
    return target


def lost_pasts(root: Path) -> tuple[Path, ...]:
    """The lost pasts that a storage directory keeps, the oldest first.

    Raises:
        OSError: they cannot be listed.
    """
    parent = root / LOST_PAST
    return tuple(sorted(path for path in parent.iterdir() if path.is_dir())) if parent.is_dir() else ()


def _new_folder(parent: Path) -> Path:
    parent.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = parent / stamp
    target.mkdir(mode=0o700)
    fsync_directory(parent)
    fsync_directory(parent.parent)
    return target


def _trim(parent: Path) -> None:
    # The first one stays until somebody looks at it: it has what was lost first.
    for folder in lost_pasts(parent.parent)[1 : 1 - KEPT]:
        shutil.rmtree(folder)
