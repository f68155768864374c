"""An open image with its index, and the namespace that edits are replayed onto above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkpointer.compaction import IndexMerger, write_image
from checkpointer.namespace import Namespace
from checkpointer.namespace.rules import ReplayRules
from image_format.index import ImageIndex
from image_format.layout import newer_layout
from image_format.reader import ImageFile
from image_format.sub_sections import SubSectionRule
from image_format.writer import ImageWriter, Sink

__all__ = ["LoadedImage", "load_image", "next_layout"]


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An open image with its index and the namespace above it."""

    image: ImageFile
    index: ImageIndex
    namespace: Namespace

    def write(
        self,
        sink: Sink,
        *,
        codec: str | None = None,
        sub_sections: SubSectionRule | None = None,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Write the namespace as it is now; `codec` None keeps the base image's, `sub_sections` about its number."""
        chosen = self.image.codec if codec is None else codec
        writer = ImageWriter(sink, self.image.layout_version, chosen, template=self.image.summary)
        write_image(
            self.namespace,
            self.image,
            IndexMerger(self.index),
            writer,
            sub_sections=sub_sections,
            progress=progress,
            cancelled=cancelled,
        )


def load_image(image: ImageFile, rules: ReplayRules | None = None) -> LoadedImage:
    """Index an open image and put an empty delta on it.

    Raises:
        ImageFormatError: a section is missing or damaged.
    """
    index = ImageIndex(image)
    return LoadedImage(image, index, Namespace(index, image.string_table(), rules))


def next_layout(path: Path, cluster: int) -> int:
    """Layout of what is made of the image at `path` in a cluster whose VERSION says `cluster`.

    Behind an upgrade that is the cluster's; in a rolling upgrade VERSION may lag behind images.

    Raises:
        ImageFormatError: it is damaged.
        ImageStorageError: it cannot be read.
    """
    with ImageFile.open(path, verify_md5=False) as image:
        return newer_layout(image.layout_version, cluster)
