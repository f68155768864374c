"""An older image that takes the place of a newest one that cannot be read, where the edits lead from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from checkpointer.merging.offline import MergePlan
from checkpointer.storage.fitness import content_fault, usable_images
from checkpointer.storage.inspector import StoredImage
from hadoop_common.errors import HdfsError
from image_format.errors import ImageFormatError, ImageStorageError, UnsupportedCodecError, UnsupportedLayoutError
from image_format.md5_file import md5_path
from journal.errors import TransactionGapError
from journal.segment_file import EditLogSegment, list_segments, select_segments

DAMAGED = "damaged"
"""Folder below a storage directory for what is set aside by hand."""


class OlderImage(NamedTuple):
    """A whole image, and the last transaction that edits lead to from it."""

    path: Path
    txid: int
    last_txid: int


def older_image(
    images: Sequence[StoredImage], segments: Sequence[EditLogSegment], unreadable_txid: int
) -> OlderImage | None:
    """The newest image before `unreadable_txid` that is whole and from which the segments lead at least as far.

    Its content is read.
    """
    finalized = [segment for segment in segments if segment.last is not None]
    older = [image for image in images if image.txid < unreadable_txid and not image.rollback]
    for image in reversed(usable_images(older)):
        try:
            chosen = select_segments(finalized, image.txid + 1)
        except TransactionGapError:
            return None
        last = chosen[-1].last if chosen else None
        if last is None or last < unreadable_txid:
            return None
        if not content_fault(image.path):
            return OlderImage(image.path, image.txid, last)
    return None


def set_aside_command(directory: Path, images: Sequence[Path]) -> str:
    """The command that moves unreadable images out of the way and makes a good one of what is left."""
    aside = directory / DAMAGED
    files = [each for image in images for each in (image, md5_path(image)) if each.exists()]
    move = shlex.join(["mv", *map(str, files), f"{aside}/"])
    return f"mkdir -p {shlex.quote(str(aside))} && {move} && checkpointer merge {shlex.quote(str(directory))}"


def sentence(older: OlderImage) -> str:
    return f"the image at txid {older.txid} is whole, and the edits lead from it to txid {older.last_txid}"


@contextmanager
def naming_older_image(plan: MergePlan) -> Iterator[None]:
    """Inside, an error of the plan's image also names the older one that can take its place, and the command for it.

    Raises:
        HdfsError: as the body does.
    """
    try:
        yield
    except (UnsupportedLayoutError, UnsupportedCodecError):
        raise
    except (ImageFormatError, ImageStorageError) as error:
        if str(plan.image) in error.message:
            _add_older(error, plan)
        raise


def _add_older(error: HdfsError, plan: MergePlan) -> None:
    older = older_image(plan.images, list_segments(plan.folder), plan.image_txid)
    if older is None:
        return
    error.message = f"{error.message}; but {sentence(older)}"
    error.args = (error.message,)
    error.hint = (
        "This keeps the unreadable image aside, and makes a new one of the older image and the edits: "
        f"{set_aside_command(plan.folder.parent, [plan.image])}"
    )
