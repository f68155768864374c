"""One listing of a storage directory's contents, and its evaluation (NNStorage,
FSImageTransactionalStorageInspector).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from checkpointer.storage.lost_pasts import START_OVER, UnfinishedStartOver, unfinished_start_over
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text, file_faults
from hadoop_common.names import SEEN_TXID, VERSION, md5_name, parse_checkpoint, parse_image, parse_segment
from hadoop_common.path_status import exists, is_directory, is_file
from hadoop_common.seen_txid import read_seen_txid
from hadoop_common.storage_info import StorageInfo, read_version
from image_format.layout import check_readable
from journal.segment_file import EditLogSegment

CURRENT = "current"
# left by a NameNode that was killed during an upgrade, a rollback or an import
_INTERRUPTED = ("previous.tmp", "removed.tmp", "finalized.tmp", "lastcheckpoint.tmp")
MISSING_VERSION_HINT = "Restore VERSION from another directory of the same NameNode; do not format."


class StorageState(Enum):
    MISSING = "missing"
    NOT_FORMATTED = "not formatted"
    HALF_FORMATTED = "half-formatted"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image file; `has_md5` is True if its digest file exists."""

    txid: int
    path: Path
    has_md5: bool
    rollback: bool = False


@dataclass(frozen=True, slots=True)
class StorageDirectory:
    """A storage directory at one moment; images and segments are sorted by txid.

    Attributes:
        irregular: entries that have the name of an image but are not regular files.
        start_over: unfinished start-over; the images and edits must not be used.
    """

    root: Path
    state: StorageState
    version: StorageInfo | None = None
    images: tuple[StoredImage, ...] = ()
    segments: tuple[EditLogSegment, ...] = ()
    seen_txid: int | None = None
    leftovers: tuple[Path, ...] = ()
    irregular: tuple[Path, ...] = ()
    start_over: UnfinishedStartOver | None = None

    @property
    def current(self) -> Path:
        """Folder that contains the files."""
        return self.root / CURRENT


def has_version(root: Path, *, if_unreadable: bool) -> bool:
    """Return whether a directory has a VERSION. If its disk fails, return `if_unreadable`, because the next use of the
    directory reports the failure.
    """
    try:
        return is_file(root / "current" / VERSION)
    except OSError:
        return if_unreadable


def inspect(directory: Path, *, allow_unknown_layout: bool = False) -> StorageDirectory:
    """List a storage directory without changing it.

    Args:
        allow_unknown_layout: whether to accept a VERSION with a layout newer than all known layouts.

    Raises:
        StorageError: the directory cannot be read, its seen_txid is not a number, or an upgrade in it was interrupted.
        VersionFileError: its VERSION is damaged.
        UnsupportedLayoutError: the VERSION has an unknown layout.
    """
    try:
        return _inspect(directory, allow_unknown_layout)
    except (OSError, UnicodeDecodeError) as fault:
        raise StorageError(
            f"{directory} cannot be read: {error_text(fault, directory)}", hint="Check its disk and permissions."
        ) from fault


def read_storage_info(directory: Path) -> StorageInfo:
    """Read the VERSION of a storage directory.

    Raises:
        StorageError: the file does not exist or cannot be read.
        VersionFileError: the file is damaged.
    """
    path = directory / "current" / VERSION
    try:
        return read_version(path)
    except OSError as fault:
        hint = "Check that the directory is correct and that a NameNode has formatted it."
        if isinstance(fault, PermissionError):
            hint = (
                f"Allow the user of this process (uid {os.geteuid()}) to search {path.parent} and read {VERSION} there."
            )
        raise StorageError(f"{path} cannot be read: {fault.strerror or fault}", hint=hint) from fault


def classify(*, exists: bool, has_version: bool, has_image: bool, has_segment: bool) -> StorageState:
    """Return the state of a directory that contains these files."""
    if not exists:
        return StorageState.MISSING
    if has_version and has_image:
        return StorageState.NORMAL
    if has_version or has_image or has_segment:
        return StorageState.HALF_FORMATTED
    return StorageState.NOT_FORMATTED


def newest_copies(directories: Sequence[StorageDirectory]) -> list[StoredImage]:
    """Return all copies of the newest image, copies with a digest file first; never return an older or rollback image.

    As in Hadoop, ignore directories without VERSION.

    Raises:
        StorageError: no directory is formatted, or no formatted directory contains an image.
    """
    formatted = [each for each in directories if each.version is not None]
    names = ", ".join(str(each.root) for each in directories)
    if not formatted:
        raise StorageError(f"not formatted, VERSION is missing: {names}", hint=_format_hint(directories))
    images = [image for each in formatted for image in each.images if not image.rollback]
    if not images:
        raise StorageError(
            f"there is no image in {names}",
            hint="Copy the newest fsimage and its .md5 file from a NameNode into the current folder.",
        )
    highest = max(image.txid for image in images)
    return sorted((image for image in images if image.txid == highest), key=lambda image: not image.has_md5)


def newest_image(directories: Sequence[StorageDirectory]) -> StoredImage:
    """Return the first of `newest_copies`; raise the same errors."""
    return newest_copies(directories)[0]


def holds_image(found: Sequence[StorageDirectory]) -> bool:
    """Return whether any directory contains an image, or contained one before an unfinished start-over; ignore
    directories with an interrupted format.

    Raises:
        StorageError: VERSION is missing next to images or edits, or the VERSIONs differ.
    """
    for each in found:
        if each.version is None and each.state is StorageState.HALF_FORMATTED:
            raise StorageError(
                f"{each.current / VERSION} is missing next to images or edits", hint=MISSING_VERSION_HINT
            )
    normal = [
        each
        for each in found
        if each.state is StorageState.NORMAL or (each.version is not None and each.start_over is not None)
    ]
    if normal:
        agree_on_version(found)
    elif with_edits := next((each for each in found if each.segments), None):
        raise StorageError(
            f"{with_edits.current} contains edits but no image",
            hint="Copy the newest fsimage and its .md5 file from a NameNode to this directory.",
        )
    return bool(normal)


def agree_on_version(directories: Iterable[StorageDirectory]) -> StorageInfo:
    """Return the common VERSION of all formatted directories.

    Raises:
        StorageError: no directory is formatted, or the directories belong to different namespaces or layouts.
    """
    versions = [(each.current / VERSION, each.version) for each in directories if each.version is not None]
    if not versions:
        raise StorageError(
            "no storage directory is formatted",
            hint="Specify the storage directory of a NameNode, or bootstrap from a NameNode.",
        )
    first_path, first = versions[0]
    for path, other in versions[1:]:
        for name in StorageInfo.__dataclass_fields__:
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise StorageError(
                    f"{path}: {name} is {theirs}, but {ours} in {first_path}",
                    hint="List only directories of one namespace; omit the directory that does not belong to this "
                    "NameNode.",
                )
    return first


def list_images(current: Path) -> list[StoredImage]:
    """List the images in a `current` folder, including rollback images, by txid; skip entries that are not regular
    files.

    Raises:
        OSError: the folder cannot be read.
    """
    names = {path.name for path in current.iterdir()}
    return _images(current, names - _irregular(current, names))


def list_segment_files(current: Path) -> list[EditLogSegment]:
    """List the segments in a `current` folder by first txid.

    Raises:
        OSError: the folder cannot be read.
    """
    return _segments(current, {path.name for path in current.iterdir()})


def _inspect(directory: Path, allow_unknown_layout: bool) -> StorageDirectory:
    if not is_directory(directory):
        if exists(directory):
            raise StorageError(f"{directory} is not a directory", hint="Specify a directory.")
        return StorageDirectory(directory, StorageState.MISSING)
    _refuse_interrupted(directory)
    current = directory / CURRENT
    names = {path.name for path in current.iterdir()} if is_directory(current) else set()
    irregular = _irregular(current, names)
    images = _images(current, names - irregular)
    segments = _segments(current, names)
    version = _read_version(current / VERSION, allow_unknown_layout) if VERSION in names else None
    state = classify(exists=True, has_version=version is not None, has_image=bool(images), has_segment=bool(segments))
    return StorageDirectory(
        directory,
        state,
        version,
        tuple(images),
        tuple(segments),
        read_seen_txid(current / SEEN_TXID) if SEEN_TXID in names else None,
        tuple(current / name for name in sorted(names) if parse_checkpoint(name) is not None),
        tuple(current / name for name in sorted(irregular)),
        unfinished_start_over(directory) if START_OVER in names else None,
    )


def _refuse_interrupted(directory: Path) -> None:
    for name in _INTERRUPTED:
        if exists(directory / name):
            raise StorageError(
                f"{directory / name} shows that an upgrade, rollback or import was interrupted",
                hint="Do not change the directory: its NameNode completes or undoes the operation when the NameNode "
                "starts.",
            )


def _read_version(path: Path, allow_unknown_layout: bool) -> StorageInfo:
    with file_faults(path, "cannot be read"):
        info = read_version(path)
    check_readable(info.layout_version, str(path), allow_unknown=allow_unknown_layout)
    return info


def _irregular(current: Path, names: set[str]) -> set[str]:
    """Return the entries that have the name of an image but are directories, pipes or dangling links."""
    return {name for name in names if parse_image(name) is not None and not (current / name).is_file()}


def _images(current: Path, names: set[str]) -> list[StoredImage]:
    parsed = ((name, parse_image(name)) for name in names)
    images = (
        StoredImage(image.txid, current / name, md5_name(name) in names, image.rollback)
        for name, image in parsed
        if image is not None
    )
    return sorted(images, key=lambda image: (image.txid, image.rollback, image.path.name))


def _segments(current: Path, names: set[str]) -> list[EditLogSegment]:
    parsed = ((name, parse_segment(name)) for name in names)
    files = (EditLogSegment(each.first, each.last, current / name) for name, each in parsed if each is not None)
    return sorted(files, key=lambda each: (each.first, each.last is None, each.last or 0))


def _format_hint(directories: Sequence[StorageDirectory]) -> str:
    if any(each.images or each.segments for each in directories):
        return (
            "Restore VERSION from another directory of the same NameNode; do not format: the directory contains data."
        )
    return "Specify the directory that contains current/VERSION, or bootstrap it from a NameNode."


def directory_fault(root: Path, *, formatted: bool = True) -> str:
    """Return the fault of the storage directory `root`, or "" if it is usable; a `formatted` directory must have a
    VERSION.
    """
    try:
        if inspect(root).version is None:
            return f"{root} lost its current/VERSION" if formatted else ""
    except HdfsError as error:
        return error.message
    return "" if os.access(root / CURRENT, os.W_OK | os.X_OK) else f"{root / CURRENT} cannot be written"


def all_unusable(faults: Iterable[HdfsError]) -> HdfsError:
    """Return the error for directories that are all unusable."""
    first, *others = faults
    if not others:
        return first
    return StorageError(
        f"no storage directory can be used: {'; '.join(fault.message for fault in (first, *others))}", hint=first.hint
    )
