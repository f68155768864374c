"""A second hard link to an image for a long-running reader, so that a purge does not delete the image's data."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from archive.scratch import scratch_folder
from hadoop_common.file_faults import error_text
from hadoop_common.names import VERSION
from image_format.md5_file import md5_path

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkedImage:
    """An image with a second name `path`; `stored` is its path in the storage directory."""

    path: Path
    stored: Path

    def in_storage(self, text: str) -> str:
        """Return the process's message with paths in the storage directory instead of the second name."""
        return text.replace(f"{self.path.parent}/", f"{self.stored.parent}/")


@contextmanager
def linked_image(image: Path) -> Iterator[LinkedImage]:
    """Yield an image with a second name that purges do not delete; if the file system has no hard links, yield the
    image under its own name.
    """
    with ExitStack() as held:
        linked = image
        try:
            folder = held.enter_context(scratch_folder(image.parent.parent))
            for path in (image, md5_path(image), image.with_name(VERSION)):
                with suppress(FileNotFoundError):
                    os.link(path, folder / path.name)
            if (folder / image.name).exists():
                linked = folder / image.name
        except OSError as fault:
            _LOG.debug("%s could not be linked, so the process reads it directly: %s", image, error_text(fault))
        yield LinkedImage(linked, image)
