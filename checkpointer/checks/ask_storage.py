"""Read-only queries about storage directories and images."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from checkpointer.checks.bounded import ask, ask_all
from checkpointer.checks.facts import DirectoryFacts, ImageFacts, Observation
from checkpointer.merging.older_image import describe, older_image, set_aside_command
from checkpointer.storage.directory_history import DirectoryHistory
from checkpointer.storage.disk_space import free_inodes, unfinished_bytes
from checkpointer.storage.inspector import StorageDirectory, inspect, newest_copies
from checkpointer.storage.lost_pasts import NOT_COMPARED, folders_aside, unfinished_start_over
from checkpointer.storage.usable_images import is_damaged, unusable, with_usable_images
from hadoop_common.errors import HdfsError
from hadoop_common.storage_lock import storage_user
from image_format.reader import ImageFile
from image_tools.verify.catalogue import Severity
from image_tools.verify.checker import verify_image
from journal.segment_file import EditLogSegment


def ask_directories(roots: Sequence[Path], limit: float, others: Sequence[Path] = ()) -> tuple[DirectoryFacts, ...]:
    """Return the facts of each directory; a directory on a dead mount does not block the queries of other
    directories.

    Args:
        others: other directories of the same daemon, whose contents show whether a directory has lost its contents.
    """
    answers = ask_all({root: lambda root=root: _directory(root) for root in roots}, limit)  # type: ignore[misc]
    found = {
        root: answer.value or DirectoryFacts(root=root, listing=Observation(error=answer.error))
        for root, answer in answers.items()
    }
    history = DirectoryHistory((*roots, *others), ())
    listings = {root: facts.listing.value for root, facts in found.items() if facts.listing.value is not None}
    # a separate query, because the comparison of an empty directory reads the other directories
    compared = ask_all(
        {root: lambda listing=listing: history.refuse_lost(listing) for root, listing in listings.items()},  # type: ignore[misc]
        limit,
    )
    for root, answer in compared.items():
        if answer.error and not answer.late:
            # the daemon does not use a directory that has lost its contents
            found[root] = replace(found[root], listing=Observation(error=answer.error, hint=answer.hint))
    return tuple(found.values())


def _directory(root: Path) -> DirectoryFacts:
    nearest = next((path for path in (root, *root.parents) if path.exists()), root)
    listing = ask(lambda: inspect(root, allow_unknown_layout=True))
    unfinished = ask(lambda: unfinished_bytes(root / "current")).value or 0
    return DirectoryFacts(
        root=root,
        listing=listing,
        writable=os.access(nearest, os.W_OK | os.X_OK),
        free=ask(lambda: shutil.disk_usage(nearest).free + unfinished),
        inodes=ask(lambda: free_inodes(nearest)),
        holder=ask(lambda: storage_user(root)).value or "",
        lost_pasts=ask(lambda: folders_aside(root)).value or (),
        not_compared=ask(lambda: folders_aside(root, NOT_COMPARED)).value or (),
        unusable=() if listing.value is None else tuple(unusable(listing.value)),
        start_over=ask(lambda: unfinished_start_over(root)).value,
    )


def ask_image(
    directories: Sequence[DirectoryFacts], limit: float, *, content: bool, deep: bool, conf_dir: Path | None = None
) -> Observation[ImageFacts]:
    """Return the newest image of the directories. With `content`, read every copy. With `deep`, also check the records
    of one copy.

    Consider unusable files only if no usable image exists. `conf_dir` is the configuration folder for the command that
    replaces a damaged image.
    """

    def way_out(of: Sequence[StorageDirectory], unreadable_txid: int) -> str:
        return _way_out(of, unreadable_txid, limit, conf_dir)

    listings = [_checkpoints(each.listing.value) for each in directories if each.listing.value is not None]
    if not listings:
        return Observation(error="no storage directory can be read")
    usable = [with_usable_images(each) for each in listings]
    if not any(each.images for each in usable):
        return ask(lambda: _image(listings, limit, way_out, content=content, deep=deep))
    found = ask(lambda: _image(usable, limit, way_out, content=content, deep=deep))
    newest = max(image.txid for each in listings for image in each.images)
    if found.value is None or found.value.txid == newest or not content:
        return found
    return Observation(replace(found.value, way_out=way_out(listings, newest)))


def _checkpoints(listing: StorageDirectory) -> StorageDirectory:
    """Return `listing` without rollback images, because checkpoints do not start from them."""
    return replace(listing, images=tuple(image for image in listing.images if not image.rollback))


def _image(
    listings: Sequence[StorageDirectory],
    limit: float,
    way_out: Callable[[Sequence[StorageDirectory], int], str],
    *,
    content: bool,
    deep: bool,
) -> ImageFacts:
    copies = newest_copies(listings)
    found = copies[0].path.stat()
    digests: dict[Path, Observation[str]] = {}
    errors: Observation[int] = Observation()
    if content:
        digests = ask_all({copy.path: lambda path=copy.path: _digest(path) for copy in copies}, limit)  # type: ignore[misc]
    late = any(digest.late for digest in digests.values())
    whole = next((path for path, digest in digests.items() if digest.value), None)
    if deep and whole is not None:
        errors = ask_all({whole: lambda: _errors(whole)}, limit)[whole]
    codec, layout_version = _format(copies[0].path)
    return ImageFacts(
        txid=copies[0].txid,
        size=found.st_size,
        modified=found.st_mtime,
        copies=tuple(digests.items()),
        deep=errors,
        way_out=way_out(listings, copies[0].txid) if digests and whole is None and not late else "",
        codec=codec,
        layout_version=layout_version,
    )


def _format(path: Path) -> tuple[str, int] | tuple[None, None]:
    """Return the codec and the layout version of an image; both are None if its summary cannot be read."""
    try:
        with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
            return image.codec, image.layout_version
    except HdfsError:
        return None, None


def _way_out(listings: Sequence[StorageDirectory], unreadable_txid: int, limit: float, conf_dir: Path | None) -> str:
    """Describe how an earlier image can replace the damaged image.

    Return "" if the edits after every earlier image are incomplete, if a later image is intact, or if the reads take
    too long.
    """
    found = ask_all({"way out": lambda: _replacement(listings, unreadable_txid, conf_dir)}, limit)["way out"]
    return found.value or ""


def _replacement(listings: Sequence[StorageDirectory], unreadable_txid: int, conf_dir: Path | None) -> str:
    for each in listings:
        segments = [EditLogSegment(segment.first, segment.last, segment.path) for segment in each.segments]
        older = older_image(each.images, segments, unreadable_txid)
        newer = [] if older is None else [image.path for image in each.images if image.txid > older.txid]
        # a merge would start from a newer image that is intact, but lacks its .md5 file or a permission
        if older is not None and all(map(is_damaged, newer)):
            return (
                f"In {each.root} {describe(older)}. A running daemon makes its next image without the damaged "
                f"image. Without a daemon, run: {set_aside_command(each.root, newer, conf_dir)}"
            )
    return ""


def _digest(path: Path) -> str:
    with ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image:
        return image.verify_md5().hex()


def _errors(path: Path) -> int:
    return verify_image(path, limit=1).findings.severities[Severity.ERROR]
