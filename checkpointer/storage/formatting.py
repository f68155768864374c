"""Creation, format and cleanup of one storage directory, with atomic writes of each file, and VERSION last.

A killed run may leave unfinished images, downloads and atomic writes in a `current` folder; `clean_leftovers` removes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from checkpointer.storage.inspector import StorageDirectory
from checkpointer.storage.lost_pasts import PROVENANCE, START_OVER
from hadoop_common.durable import TEMPORARY_SUFFIX, fsync_directory, make_with_mode, write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.names import MD5_SUFFIX, SEEN_TXID, VERSION, parse_checkpoint, parse_image, parse_temporary_segment
from hadoop_common.storage_info import StorageInfo, format_version


def make_directory(root: Path, permission: int) -> None:
    """Create `root` with the mode `permission` and its missing parents, unless `root` exists.

    Raises:
        StorageError: the directory cannot be created.
    """
    for each in (root, *root.parents):
        if each.is_symlink() and not each.exists():
            raise StorageError(
                f"{each} is a link to {each.readlink()}, which does not exist",
                hint="Mount the file system of its target, or correct the link.",
            )
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        make_with_mode(root, permission)
    except OSError as fault:
        raise StorageError(
            f"{root} cannot be created: {fault.strerror or fault}",
            hint="Check the disk, and the permissions of the parent directory.",
        ) from fault


def format_directory(root: Path, info: StorageInfo, seen_txid: int, permission: int) -> None:
    """Create the `current` folder of `root` with seen_txid and VERSION.

    Raises:
        OSError: a file could not be written; a directory without VERSION does not count as formatted.
    """
    current = root / "current"
    if not current.is_dir():
        make_with_mode(current, permission)
        fsync_directory(root)
    write_seen_txid(root, seen_txid)
    write_version(root, info)


def unformat_directory(root: Path) -> None:
    """Remove VERSION, seen_txid and leftovers, and then `current` if it is empty.

    Raises:
        OSError: a file could not be removed.
    """
    current = root / "current"
    if not current.is_dir():
        return
    (current / VERSION).unlink(missing_ok=True)
    (current / SEEN_TXID).unlink(missing_ok=True)
    clean_leftovers(current)
    if not any(current.iterdir()):
        current.rmdir()
    fsync_directory(root)


def write_version(root: Path, info: StorageInfo) -> None:
    """Write VERSION atomically; raise OSError on failure."""
    write_atomically(root / "current" / VERSION, format_version(info, datetime.now(UTC)))


def write_seen_txid(root: Path, txid: int) -> None:
    """Write seen_txid atomically; raise OSError on failure."""
    write_atomically(root / "current" / SEEN_TXID, f"{txid}\n".encode("ascii"))


def require_empty(found: Iterable[StorageDirectory], *, hint: str) -> None:
    """Check that directories contain neither images nor edits.

    Raises:
        StorageError: a directory contains images or edits.
    """
    for each in found:
        if each.images or each.segments:
            raise StorageError(f"{each.current} contains images or edits", hint=hint)


def check_formattable(found: Iterable[StorageDirectory], info: StorageInfo) -> None:
    """Check that directories are empty and unformatted, or formatted for the namespace of `info`.

    Layout and cTime may differ, because a start that was interrupted before the first image may have left an older
        VERSION.

    Raises:
        StorageError: a directory has other contents.
    """
    for each in found:
        require_empty([each], hint="Format only empty directories.")
        if each.version is not None and not same_namespace(each.version, info):
            raise StorageError(
                f"{each.current / VERSION} belongs to another namespace, {each.version.colon_string()}",
                hint="Check that the directory belongs to this cluster. To use the directory on this node, move its "
                "contents away first, and leave an empty folder `current` there.",
            )


def same_namespace(version: StorageInfo, other: StorageInfo) -> bool:
    """Return whether two VERSIONs belong to one namespace; layout and cTime may differ."""
    return replace(version, layout_version=other.layout_version, c_time=other.c_time) == other


def leftover_names(names: Collection[str]) -> list[str]:
    """Return the sorted names of leftovers; files of unknown kinds are not leftovers."""
    return sorted(name for name in names if _is_leftover(name, names))


def clean_leftovers(current: Path) -> list[Path]:
    """Delete and return the leftovers in a folder. The caller must hold the folder's lock, and no write may be in
    progress.

    Raises:
        OSError: the folder cannot be read, or a file cannot be deleted.
    """
    leftovers = [current / name for name in leftover_names({path.name for path in current.iterdir()})]
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers


def _is_leftover(name: str, names: Collection[str]) -> bool:
    if parse_checkpoint(name) is not None or parse_temporary_segment(name) is not None:
        return True
    if name.endswith(TEMPORARY_SUFFIX):
        written = name.removesuffix(TEMPORARY_SUFFIX)
        return written in (VERSION, SEEN_TXID, PROVENANCE, START_OVER) or _image_of(written) is not None
    image = _image_of(name)
    return image is not None and image not in names


def _image_of(name: str) -> str | None:
    """Return the name of the image to which the digest file `name` belongs, or None for other files."""
    image = name.removesuffix(MD5_SUFFIX)
    return image if image != name and parse_image(image) is not None else None
