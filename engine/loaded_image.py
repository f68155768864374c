"""An open image with its index, and the namespace onto which edits are replayed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.compaction import IndexMerger, write_image
from engine.live_sums import LiveSums
from engine.namespace import Namespace
from engine.namespace.op_paths import RESERVED_NAME
from engine.replay import compiled_replay
from engine.settings import ReplayRules
from hadoop_common.errors import HdfsError
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.inode_scan import Inspector
from image_format.layout import newer_layout
from image_format.reader import ImageFile
from image_format.sub_section_rules import SubSectionRule
from image_format.writer import ImageWriter, Sink
from image_tools.directory_sums import directory_sums


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An open image with its index and its namespace.

    Attributes:
        allocator: allocator of the arrays of the index, the namespace and the sums, which share one memory limit.
        sums: sums of the namespace's subtrees; None unless `with_sums` was called.
    """

    image: ImageFile
    index: ImageIndex
    namespace: Namespace
    allocator: ArrayAllocator
    sums: LiveSums | None = None

    @property
    def expected_size(self) -> int:
        """Estimated uncompressed size of the next image in bytes, based on the average inode size in this image."""
        namespace = self.namespace
        return self.image.unpacked_size * namespace.tree.inode_count // max(1, namespace.base.slot_count)

    def with_sums(self) -> LoadedImage:
        """Return this image with the sums below its directories; its namespace must still be unchanged.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: not enough disk space.
        """
        marked = np.union1d(self.namespace.recorder.lookup.diffs.owners, self.index.snapshot_index.referred)
        policies = self.namespace.erasure_coding.by_id()
        base = directory_sums(self.image, self.index, policies, self.allocator, marked=marked)
        return replace(self, sums=LiveSums(base, self.index, self.namespace, marked, self.allocator))

    def update_sums(self) -> None:
        """Update the sums after replayed edits; if the update fails, the next reader receives the error."""
        if self.sums is not None:
            with suppress(HdfsError, MemoryError):
                self.sums.keep_up()

    def write(
        self,
        sink: Sink,
        *,
        codec: str | None = None,
        sub_sections: SubSectionRule | None = None,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Callable[[], IndexArrays | None]:
        """Write the present namespace; `codec` None keeps the codec of the base image.

        Returns:
            A function that derives the index of the new image from this image's index, or None if only a scan can
            create it.
        """
        chosen = self.image.codec if codec is None else codec
        writer = ImageWriter(sink, self.image.layout_version, chosen, template=self.image.summary)
        merger = IndexMerger(self.index, self.allocator)
        written = write_image(
            self.namespace,
            self.image,
            merger,
            writer,
            sub_sections=sub_sections,
            progress=progress,
            cancelled=cancelled,
        )
        return lambda: merger.updated_arrays(written)


def check_root(index: ImageIndex) -> None:
    """Raise RecordError if the root has a child named `.reserved`, which a NameNode refuses to load."""
    if index.child(ROOT_INODE_ID, RESERVED_NAME):
        what = "the root has a child '.reserved', so a NameNode cannot load the image"
        hint = "`checkpointer image verify IMAGE --repair OUT` writes a copy with that child in /lost+found."
        raise index.place("INODE_DIR").error(RecordError, what, 0, hint)


def load_image(
    image: ImageFile,
    rules: ReplayRules | None = None,
    allocator: ArrayAllocator | None = None,
    arrays: IndexArrays | None = None,
    progress: Callable[[int], None] | None = None,
    inspector: Inspector | None = None,
) -> LoadedImage:
    """Index an open image and create its namespace, which does not contain any changes yet.

    Args:
        inspector: examines the INODE section while it is scanned.
        arrays: the result of a scan of the image, if known.
        progress: called with the number of scanned bytes of the image.

    Raises:
        ImageFormatError: a section is missing or damaged.
        ImageStorageError: the disk of the allocator is full.
    """
    allocator = allocator or ArrayAllocator()
    index = ImageIndex(image, arrays, allocator=allocator, progress=progress, inspector=inspector)
    namespace = Namespace(index, image.string_table(), rules, allocator, compiled_replay)
    return LoadedImage(image, index, namespace, allocator)


def next_layout(path: Path, cluster: int) -> int:
    """Return the layout of a cluster's next image, determined from its newest image and the layout in VERSION.

    After an upgrade, the result is the layout in VERSION; during a rolling upgrade, VERSION may be older than the
    images.

    Raises:
        ImageFormatError: the image is damaged.
        ImageStorageError: the image cannot be read.
    """
    with ImageFile.open(path, verify_md5=False) as image:
        return newer_layout(image.layout_version, cluster)
