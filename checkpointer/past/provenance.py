"""`provenance.json` beside images: the runs of the edit log that each ends with, for the next start."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpointer.storage.aside import PROVENANCE
from checkpointer.storage.fitness import usable_images
from checkpointer.storage.inspector import list_images
from engine.txn_runs import ImageId, Provenance
from hadoop_common.durable import write_atomically
from hadoop_common.errors import HdfsError
from hadoop_common.regular_file import read_regular
from image_format.md5_file import read_md5_file

_LOG = logging.getLogger(__name__)
_FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024


Provenances = Mapping[str, Provenance]
"""By the MD5 of an image, in hex."""


def write_provenances(folders: Sequence[Path], claims: Provenances) -> None:
    """Keep the claims in every folder; one that does not take them is told of in the log.

    An image without its claim has to be found at the NameNode before anything is built on it.
    """
    values = {md5: claim.to_json() for md5, claim in sorted(claims.items())}
    content = json.dumps({"format": _FORMAT, "images": values}, indent=1).encode()
    for folder in folders:
        try:
            write_atomically(folder / PROVENANCE, content)
        except OSError as fault:
            _LOG.warning("%s could not be written: %s", folder / PROVENANCE, fault.strerror or fault)


def read_provenances(folders: Sequence[Path]) -> Provenances:
    """The claims that lie in any of the folders; what cannot be read is none."""
    found: dict[str, Provenance] = {}
    for folder in folders:
        path = folder / PROVENANCE
        try:
            found |= _parse(json.loads(read_regular(path, _MAX_BYTES)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as fault:
            _LOG.warning("%s cannot be used: %s", path, fault)
    return found


def _parse(values: Mapping[str, Any]) -> dict[str, Provenance]:
    if values["format"] != _FORMAT:
        raise ValueError(f"its format is {values['format']!r}, expected {_FORMAT}")
    return {md5: Provenance.from_json(claim) for md5, claim in values["images"].items()}


class ProvenanceStore:
    """The claims of one node's images, by their MD5 in hex. One thread at a time changes it, any may look.

    Args:
        folders: the `current` folders of the images as they are now.
    """

    def __init__(self, folders: Callable[[], Sequence[Path]]) -> None:
        self._folders = folders
        self._claims: Provenances | None = None

    def of(self, md5: str) -> Provenance | None:
        """What is known of an image of ours, None where it came from elsewhere."""
        return self._known().get(md5)

    def add(self, md5: str, claim: Provenance) -> None:
        """Keep what an image of ours was made of; claims of images that are gone go, too."""
        known, there = self._known(), None
        # What is in vain for the others must not cost this one: without it the image would never be offered.
        with suppress(HdfsError, OSError):
            images = [each for folder in self._folders() for each in list_images(folder) if each.has_md5]
            usable = usable_images(images)
            # nobody knows which claim is that of an image whose digest cannot be read
            there = {image_md5(each.path) for each in usable} if len(usable) == len(images) else None
        kept = {name: each for name, each in known.items() if there is None or name in there}
        self._claims = {**kept, md5: claim}
        write_provenances(self._folders(), self._claims)

    def forget(self) -> None:
        """The images were set aside with what is known of them."""
        self._claims = {}

    def _known(self) -> Provenances:
        if self._claims is None:
            self._claims = read_provenances(self._folders())
        return self._claims


def image_md5(image: Path) -> str:
    """What the digest file of an image says, in hex; raises as `read_md5_file`."""
    return read_md5_file(image).hex()


def held_images(folders: Sequence[Path]) -> list[ImageId]:
    """The usable images in `current` folders that have a digest file, rollback images left out, the newest first.

    Raises:
        OSError: a folder cannot be read.
        ImageFormatError, ImageStorageError: a digest file was damaged or removed in this moment.
    """
    listed = [image for folder in folders for image in list_images(folder) if image.has_md5 and not image.rollback]
    found = {image.txid: image.path for image in usable_images(listed)}
    return [ImageId(txid, image_md5(path)) for txid, path in sorted(found.items(), reverse=True)]
