"""Files that a killed run leaves in a `current` folder: unfinished images, downloads and atomic writes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hadoop_common.durable import TEMPORARY_SUFFIX
from hadoop_common.names import MD5_SUFFIX, SEEN_TXID, VERSION, parse_checkpoint, parse_image, parse_temporary_segment


def leftover_names(names: Collection[str]) -> list[str]:
    """Those of `names` that no reader of the folder needs, sorted; anything of unknown kind is not one."""
    return sorted(name for name in names if _is_leftover(name, names))


def clean_leftovers(current: Path) -> list[Path]:
    """Delete leftovers in a folder whose lock is held and in which nothing is being written; returns them.

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
        return written in (VERSION, SEEN_TXID) or _image_of(written) is not None
    image = _image_of(name)
    return image is not None and image not in names


def _image_of(name: str) -> str | None:
    """The image whose digest file `name` is."""
    image = name.removesuffix(MD5_SUFFIX)
    return image if image != name and parse_image(image) is not None else None
