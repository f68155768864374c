"""Loads the base image of a namespace, converts it to the layout of the edits, and heals it if necessary."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from engine.healing import HealingMode, healed_finding
from engine.loaded_image import LoadedImage, check_root, load_image
from engine.scan_verification import ScanVerification
from engine.settings import MergeSettings
from image_format.errors import InconsistentSnapshotsError
from image_format.index_arrays import IndexArrays
from image_format.reader import ImageFile
from image_format.snapshot_check import check_snapshots
from image_tools.convert import at_layout

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BaseLoader:
    """Loader of base images.

    Attributes:
        layout: layout version of the loaded image; None keeps the image's layout.
        resources: closes the converted and healed copies of images.
        progress: called with the number of scanned bytes.
    """

    settings: MergeSettings
    layout: int | None
    resources: ExitStack
    progress: Callable[[int], None]

    def load(self, image: ImageFile, arrays: IndexArrays | None, scan: ScanVerification | None) -> LoadedImage:
        """Index an image; if its snapshots are inconsistent, index a healed copy.

        Args:
            arrays: the result of an earlier scan of the image, if known.
            scan: verifies the image while it is scanned.

        Raises:
            ImageFormatError: the image is damaged.
            ImageStorageError: there is not enough disk space.
        """
        healing = self.settings.rules.healing
        try:
            loaded = self._load_at_layout(image, arrays, scan)
            if arrays is None and healing is not HealingMode.AS_HADOOP:
                check_snapshots(loaded.index)
                check_root(loaded.index)
            return loaded
        except InconsistentSnapshotsError as error:
            if healing is not HealingMode.HEAL:
                raise
            fault = error
        # Imported here, because few merges need this large module.
        from image_tools.verify.snapshot_repair import repair_snapshots

        repaired, changes = repair_snapshots(image, spool_dir=self.settings.memory.folder)
        _LOG.warning("%s; a healed copy of the image is read instead", fault)
        loaded = self._load_at_layout(self.resources.enter_context(repaired), None, None)
        for change in changes:
            loaded.namespace.healing_log.add(healed_finding(change, "in the old image"))
        return loaded

    def _load_at_layout(
        self, image: ImageFile, arrays: IndexArrays | None, scan: ScanVerification | None
    ) -> LoadedImage:
        memory = self.settings.memory
        base = self.resources.enter_context(at_layout(image, self.layout, spool_dir=memory.folder))
        kept = arrays if base is image else None
        allocator = memory.allocator(taken=0 if kept is None else kept.nbytes)
        return load_image(base, self.settings.rules, allocator, kept, self.progress, scan if base is image else None)
