"""The file `provenance.json` next to images, which the daemon reads at its start. It contains the edit log's runs at
the end of each image.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkpointer.storage.inspector import list_images
from checkpointer.storage.lost_pasts import PROVENANCE
from checkpointer.storage.usable_images import usable_images
from engine.txn_runs import ImageId, Provenance
from hadoop_common.durable import write_atomically
from hadoop_common.errors import HdfsError
from hadoop_common.regular_file import read_regular
from image_format.md5_file import read_md5_file

_LOG = logging.getLogger(__name__)
_FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024


Provenances = Mapping[str, Provenance]
"""Provenances by the images' MD5 in hex."""


def write_provenances(folders: Sequence[Path], provenances: Provenances) -> None:
    """Write the provenances to every folder; log a warning for folders that cannot be written.

    A node uses an image without provenance only after it has found the image at the NameNode.
    """
    values = {md5: provenance.to_json() for md5, provenance in sorted(provenances.items())}
    content = json.dumps({"format": _FORMAT, "images": values}, indent=1).encode()
    for folder in folders:
        try:
            write_atomically(folder / PROVENANCE, content)
        except OSError as fault:
            _LOG.warning("%s could not be written: %s", folder / PROVENANCE, fault.strerror or fault)


def read_provenances(folders: Sequence[Path]) -> Provenances:
    """Read the provenances in the folders; skip files that cannot be read, with a warning."""
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
    if (found := values.get("format", 1)) != _FORMAT:
        raise ValueError(f"its format is {found!r}, expected {_FORMAT}")
    return {md5: Provenance.from_json(provenance) for md5, provenance in values["images"].items()}


class ProvenanceStore:
    """The provenances of one node's images, keyed by MD5 in hex. Only one thread may write at a time; any thread may
    read.

    Args:
        folders: returns the present `current` folders of the images.
    """

    def __init__(self, folders: Callable[[], Sequence[Path]]) -> None:
        self._folders = folders
        self._provenances: Provenances | None = None

    def of(self, md5: str) -> Provenance | None:
        """Return the stored provenance of an image; None if there is none."""
        return self._known().get(md5)

    def add(self, md5: str, provenance: Provenance) -> None:
        """Store the provenance of an image, and drop provenances of images that no longer exist."""
        known, present = self._known(), None
        # A fault in another image must not cause the loss of this entry, because the daemon never offers an image
        # without an entry.
        with suppress(HdfsError, OSError):
            images = [each for folder in self._folders() for each in list_images(folder) if each.has_md5]
            usable = usable_images(images)
            # an image without a readable digest may belong to any entry, so all entries remain
            present = {image_md5(each.path) for each in usable} if len(usable) == len(images) else None
        kept = {name: each for name, each in known.items() if present is None or name in present}
        self._provenances = {**kept, md5: provenance}
        write_provenances(self._folders(), self._provenances)

    def forget(self) -> None:
        """Drop all provenances after their file was set aside with the images."""
        self._provenances = {}

    def _known(self) -> Provenances:
        if self._provenances is None:
            self._provenances = read_provenances(self._folders())
        return self._provenances


def image_md5(image: Path) -> str:
    """Return the digest in an image's digest file, in hex; raise the same errors as `read_md5_file`."""
    return read_md5_file(image).hex()


def held_images(folders: Sequence[Path]) -> list[ImageId]:
    """Return the usable images with a digest file in `current` folders, newest first, without rollback images.

    Raises:
        OSError: a folder cannot be read.
        ImageFormatError, ImageStorageError: a digest file has just been damaged or removed.
    """
    listed = [image for folder in folders for image in list_images(folder) if image.has_md5 and not image.rollback]
    found = {image.txid: image.path for image in usable_images(listed)}
    return [ImageId(txid, image_md5(path)) for txid, path in sorted(found.items(), reverse=True)]
