"""Snapshot history of a fetched image: the driver reads the sections, tasks answer questions on the whole image."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin
from image_format.history_sections import HistorySections, Ids, Marks
from image_format.reader import ImageFile


class HistoryQueries(Protocol):
    """Questions to the index of the whole image, see `image_format.history_index.BaseHistory`."""

    def holders(self) -> Ids: ...

    def chains(self, inode_ids: Ids) -> list[Ids]: ...

    def on_the_way_to(self, inode_ids: Ids) -> Ids:
        """Return the marked slots, ascending."""

    def deleters(self, inode_ids: Ids) -> Ids: ...


class ClosureHistory(HistorySections):
    """`BaseHistory` of an image whose inodes are not on the driver.

    Args:
        image: the open file.
        load: fetches inodes and passes them to `add`.
    """

    def __init__(
        self, image: ImageFile, slot_count: int, questions: HistoryQueries, load: Callable[[Iterable[int]], None]
    ) -> None:
        def place(name: str) -> BufferOrigin:
            return image.place(name) if image.has_section(name) else BufferOrigin(str(image.path), name)

        super().__init__(image.section("SNAPSHOT_DIFF"), image.section("INODE_REFERENCE"), place)
        self._slot_count = slot_count
        self._questions = questions
        self._load = load
        self._in_tree: dict[int, bool] = {}
        self._held: Ids | None = None

    def add(self, inode_ids: Ids, in_tree: npt.NDArray[np.bool_]) -> None:
        """Record whether these inodes are reachable from the root."""
        if self.owners.size or self.reference_count:
            self._in_tree.update(zip(inode_ids.tolist(), in_tree.tolist(), strict=True))

    def is_reached(self, directory_id: int, inode_id: int) -> bool:
        """See `BaseHistory`; only used for the root directory."""
        if inode_id not in self._in_tree and (self.owners.size or self.reference_count):
            self._load([inode_id])
        return self._in_tree.get(inode_id, True)

    def older_diffs(self, directory_id: int, snapshots: Ids) -> int:
        """See `BaseHistory`; always unknown (-1) here."""
        return -1

    def holders(self) -> Ids:
        if not self.reference_count:
            return np.zeros(0, np.int64)
        if self._held is None:
            self._held = self._questions.holders()
        return self._held

    def chains(self, inode_ids: Ids) -> list[Ids]:
        if not inode_ids.size:
            return []
        chains = self._questions.chains(inode_ids)
        self._load({int(inode_id) for chain in chains for inode_id in chain})
        return chains

    def on_the_way_to(self, inode_ids: Ids) -> Marks:
        marks = np.zeros(self._slot_count, np.bool_)
        marks[self._questions.on_the_way_to(inode_ids)] = True
        return marks

    def deleters(self, inode_ids: Ids) -> Ids:
        if not self.owners.size:
            return np.zeros(inode_ids.size, np.int64)
        return self._questions.deleters(inode_ids)
