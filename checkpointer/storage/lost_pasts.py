"""Images and edits that are set aside instead of deleted, so that an operator can examine them.

Files of a lost past are moved to `lost_past`. Files that could not be compared with the NameNode, for example because
every image is damaged, are moved to `not_compared`: the NameNode may still have their past.

A node that starts over replaces its files with the NameNode's image in three steps, which survive a kill:

1. `link_aside` links all images and edits into a folder, because retention may purge them once the NameNode's image is
   stored. They also remain in `current`, so that the directory still has an image after a kill or a failed fetch.
2. The caller fetches the NameNode's image, which may replace an image of the same name.
3. `finish_start_over` removes all other files from `current`. It moves those of which the folder has no copy: a link
   proves nothing, because a restored directory has no links. An image that an earlier attempt fetched also goes to the
   folder, because the NameNode may have lost its past since.

From the first step to the last, `start_over.json` in `current` contains the reason and the folder. A node that finds
this file does not use its images, and repeats the steps with the same folder. Otherwise, nothing would prove the loss
once the node's newest image is the NameNode's.
"""

from __future__ import annotations

import filecmp
import json
import logging
import shutil
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from hadoop_common.durable import fsync_directory, make_with_mode, remove_durably, write_atomically
from hadoop_common.names import md5_name, parse_image, parse_segment
from hadoop_common.regular_file import read_regular

_LOG = logging.getLogger(__name__)
PROVENANCE = "provenance.json"
"""File next to images with the facts about their past (`checkpointer.set_back.provenance`)."""
START_OVER = "start_over.json"
"""File in `current` while a start-over is unfinished; later, it is in the folder with the files that were set aside."""

LOST_PAST = "lost_past"
NOT_COMPARED = "not_compared"
KEPT = 3
"""Number of folders to keep in `LOST_PAST` and in `NOT_COMPARED`: the oldest folder and the newest folders."""
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UnfinishedStartOver:
    """Contents of `START_OVER`.

    Attributes:
        cause: why the node starts over, as a sentence.
        parent: `LOST_PAST` or `NOT_COMPARED`.
        folder: name of the folder below `parent` for the images and edits.
    """

    cause: str
    parent: str
    folder: str


def unfinished_start_over(root: Path) -> UnfinishedStartOver | None:
    """Return the unfinished start-over of a storage directory, or None if there is none.

    A damaged record does not prove a loss, but its directory must not be used either: the files go to `NOT_COMPARED`.

    Raises:
        OSError: the record cannot be read.
    """
    path = root / "current" / START_OVER
    try:
        content = read_regular(path, _MAX_BYTES)
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    try:
        values = json.loads(content)
        found = UnfinishedStartOver(str(values["cause"]), values["parent"], values["folder"])
        if found.parent not in (LOST_PAST, NOT_COMPARED):
            raise ValueError(f"its parent folder is {found.parent!r}")
        datetime.strptime(found.folder, _STAMP)
    except (ValueError, TypeError, LookupError) as fault:
        cause = f"the record {path} is damaged ({fault})"
        # each call must return the same folder
        return UnfinishedStartOver(cause, NOT_COMPARED, changed.strftime(_STAMP))
    return found


def start_over_of(roots: Sequence[Path], parent: str, cause: str) -> UnfinishedStartOver:
    """Return the unfinished start-over of the storage directories `roots`, or a new one for the reason `cause`.

    All directories of a node use folders of the same name. Ignore a directory that cannot be read: the next step
    reports it.
    """
    stamps = [_next_stamp(())]
    for root in roots:
        with suppress(OSError):
            if (begun := unfinished_start_over(root)) is not None:
                return begun
            stamps.append(_next_stamp(folders_aside(root, parent)))
    return UnfinishedStartOver(cause, parent, max(stamps))


def begin_start_over(root: Path, begun: UnfinishedStartOver) -> UnfinishedStartOver | None:
    """Record in `root`/current that its images are not used. Return the record; None if the start-over is already
    finished in this directory.

    Raises:
        OSError: the record could not be read or written.
    """
    if (own := unfinished_start_over(root)) is not None:
        return own
    if (root / begun.parent / begun.folder / START_OVER).exists():
        return None
    content = json.dumps({"format": 1, **asdict(begun)}, indent=1).encode()
    write_atomically(root / "current" / START_OVER, content)
    return begun


def link_aside(root: Path, begun: UnfinishedStartOver, *, only: Collection[str] | None = None) -> None:
    """Link all images, edits and their records into the folder of the start-over `begun`, which this call records if
    necessary. On a file system without hard links, move the files. Keep the files that the folder already contains.

    Args:
        only: names of images and edits that may be set aside; None for all.

    Raises:
        OSError: a file could not be linked or moved.
    """
    own = begin_start_over(root, begun)
    if own is None:
        return
    target, current = root / own.parent / own.folder, root / "current"
    make_with_mode(target.parent, 0o700)
    make_with_mode(target, 0o700)
    names = {path.name for path in current.iterdir()}
    for name in _contents(names, only):
        # a segment that is being written may be renamed during the loop
        with suppress(FileNotFoundError):
            _link(current, name, target, [md5_name(name)] if md5_name(name) in names else [])
    if PROVENANCE in names:
        _link(current, PROVENANCE, target)
    for folder in (target, target.parent, root):
        fsync_directory(folder)


def finish_start_over(root: Path, *, keep: Iterable[str], only: Collection[str] | None = None) -> Path | None:
    """Remove all images and edits of the unfinished start-over from `root`/current, after the NameNode's image was
    stored. Return their folder; None if there were no files, or no start-over is unfinished.

    Args:
        keep: names of the NameNode's images, which remain, together with their digest files.
        only: see `link_aside`.

    Raises:
        OSError: a file could not be compared or moved.
    """
    begun = unfinished_start_over(root)
    if begun is None:
        return None
    target, current = root / begun.parent / begun.folder, root / "current"
    # an operator may have removed the folder
    make_with_mode(target.parent, 0o700)
    make_with_mode(target, 0o700)
    names = {path.name for path in current.iterdir()}
    moving = _contents(names - set(keep), only)
    if moving or _contents([path.name for path in target.iterdir()], None):
        _move_files(current, moving, names, target)
        return target
    # this directory contained neither images nor edits
    shutil.rmtree(target, ignore_errors=True)
    (current / PROVENANCE).unlink(missing_ok=True)
    remove_durably(current / START_OVER)
    return None


def set_aside(root: Path, parent: str = LOST_PAST, *, only: Collection[str] | None = None) -> Path | None:
    """Move images, edits and their records from `root`/current to a new folder below `root`/`parent`.

    Args:
        parent: `LOST_PAST` or `NOT_COMPARED`.
        only: names of images and edits that may be moved; None for all.

    Returns:
        The folder; None if there were no files to move.

    Raises:
        OSError: a file could not be moved.
    """
    current = root / "current"
    names = {path.name for path in current.iterdir()}
    moving = _contents(names, only)
    if not moving:
        return None
    target = new_folder(root, parent)
    _move_files(current, moving, names, target)
    return target


def new_folder(root: Path, parent: str) -> Path:
    """Create the newest folder below `root`/`parent`.

    Raises:
        OSError: the folder could not be created.
    """
    target = root / parent / _next_stamp(folders_aside(root, parent))
    make_with_mode(target.parent, 0o700)
    target.mkdir(mode=0o700)
    fsync_directory(target.parent)
    fsync_directory(root)
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


def _is_same(one: Path, other: Path) -> bool:
    if one.samefile(other):
        return True
    # the keys of its cache contain modification times, which can repeat after the clock was set back
    filecmp.clear_cache()
    return filecmp.cmp(one, other, shallow=False)


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


def _move_files(current: Path, moving: Iterable[str], names: Collection[str], target: Path) -> None:
    """Move files of `current` into the folder `target`, then their records, which end an unfinished start-over.

    Remove a file of which the folder has a copy. If the folder has another file of the same name, add a number to it.
    Digest files move before their images, because an image without a digest file is never used.
    """
    # not `rename_durably`, because one sync of both directories at the end is sufficient for thousands of segments
    for name in moving:
        # a segment that is being written may be renamed during the loop
        with suppress(FileNotFoundError):
            moved = _free_name(current / name, target)
            if md5_name(name) in names:
                _move(current / md5_name(name), target / md5_name(moved))
            _move(current / name, target / moved)
    if PROVENANCE in names:
        _move(current / PROVENANCE, target / PROVENANCE)
    fsync_directory(target)
    fsync_directory(current)
    if START_OVER in names:
        _move(current / START_OVER, target / START_OVER)
        fsync_directory(target)
        fsync_directory(current)
    _trim(target)


def _free_name(source: Path, target: Path) -> str:
    """Return the first name in the folder `target` that is free or belongs to a copy of `source`."""
    names = (source.name if number == 0 else f"{source.name}.{number}" for number in count())
    return next(name for name in names if not (target / name).exists() or _is_same(source, target / name))


def _move(source: Path, target: Path) -> None:
    # A record that was linked into the folder first is ours; a later record of the same name is the NameNode's.
    if target.exists():
        source.unlink()
    else:
        source.rename(target)


def _next_stamp(folders: Iterable[Path]) -> str:
    """Return the name of a new folder, after the names of the existing `folders`.

    Names must sort by age, even after the clock was set back, because their order determines the folders to keep.
    """
    at = datetime.now(UTC)
    for folder in folders:
        with suppress(ValueError):
            at = max(at, datetime.strptime(folder.name, _STAMP).replace(tzinfo=UTC) + timedelta(microseconds=1))
    return at.strftime(_STAMP)


def _trim(filled: Path) -> None:
    """Remove older folders next to the folder `filled`.

    Keep the oldest folder until an operator removes it, because it contains the files that were lost first. The folder
    of an old record is not the newest.
    """
    for folder in folders_aside(filled.parent.parent, filled.parent.name)[1 : 1 - KEPT]:
        if folder == filled:
            continue
        try:
            shutil.rmtree(folder)
        except OSError as fault:
            # An operator may have written files there as another user; the present files must still be set aside.
            _LOG.warning("%s cannot be removed: %s", fault.filename or folder, fault.strerror or fault)
