"""Replacement of a damaged newest image by an older image with complete edits after it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from checkpointer.merging.offline import MergePlan
from checkpointer.storage.inspector import StoredImage
from checkpointer.storage.usable_images import content_fault, is_damage, usable_images
from hadoop_common.errors import HdfsError
from image_format.md5_file import md5_path
from journal.errors import TransactionGapError
from journal.segment_file import EditLogSegment, list_segments, select_segments

DAMAGED = "damaged"
"""Folder in a storage directory for damaged images that an operator sets aside."""


class OlderImage(NamedTuple):
    """An intact image, and the last transaction of the edits after it."""

    path: Path
    txid: int
    last_txid: int


def older_image(
    images: Sequence[StoredImage], segments: Sequence[EditLogSegment], unreadable_txid: int
) -> OlderImage | None:
    """Return the newest intact image before `unreadable_txid` with edits up to that txid, or None if there is none.

    The function reads the whole image.
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


def set_aside_command(directory: Path, images: Sequence[Path], conf_dir: Path | None) -> str:
    """Return a command that sets damaged images aside and merges the older image with the edits.

    The settings in `conf_dir` determine the rules of replay.
    """
    aside = directory / DAMAGED
    files = [each for image in images for each in (image, md5_path(image)) if each.exists()]
    move = shlex.join(["mv", *map(str, files), f"{aside}/"])
    conf = [] if conf_dir is None else ["--conf", str(conf_dir)]
    merge = shlex.join(["checkpointer", "merge", str(directory), *conf])
    return f"mkdir -p {shlex.quote(str(aside))} && {move} && {merge}"


def describe(older: OlderImage) -> str:
    return f"the image at txid {older.txid} is intact, and the edits after it reach txid {older.last_txid}"


@contextmanager
def naming_older_image(plan: MergePlan, conf_dir: Path | None) -> Iterator[None]:
    """If an error reports damage in the plan's image, add a hint that names an older image and the command to use it.

    Raises:
        HdfsError: raised by the body of the `with` statement.
    """
    try:
        yield
    except HdfsError as error:
        if is_damage(error) and str(plan.image) in error.message:
            with suppress(OSError):
                _add_older(error, plan, conf_dir)
        raise


def _add_older(error: HdfsError, plan: MergePlan, conf_dir: Path | None) -> None:
    older = older_image(plan.images, list_segments(plan.folder), plan.image_txid)
    if older is None:
        return
    error.message = f"{error.message}; but {describe(older)}"
    error.args = (error.message,)
    error.hint = (
        "This command sets the damaged image aside, and makes a new image from the older image and the edits: "
        f"{set_aside_command(plan.folder.parent, [plan.image], conf_dir)}"
    )
