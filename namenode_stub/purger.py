"""Purge of old images and edits after a checkpoint (FSImage.purgeOldStorage)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from checkpointer.storage.inspector import StoredImage, list_images
from checkpointer.storage.retention import apply_plan, edits_needed_from, plan_retention
from checkpointer.storage.usable_images import usable_images
from journal.errors import JournalError
from journal.journal_set import JournalSet
from namenode_stub.config import StubConfig

_LOG = logging.getLogger(__name__)


class Purger:
    """Thread-safe purger of the image folders and all journals, one purge at a time.

    Args:
        image_folders: `current` folders.
    """

    def __init__(self, config: StubConfig, image_folders: Sequence[Path], journals: JournalSet) -> None:
        self._config = config
        self._image_folders = image_folders
        self._journals = journals
        self._purging = threading.Lock()

    def purge(self) -> None:
        """Purge all but the newest images, the edits that follow the oldest kept image, and some earlier edits.

        If a purge fails, log a warning; the next checkpoint retries the purge.
        """
        with self._purging:
            try:
                images = usable_images(image for folder in self._image_folders for image in list_images(folder))
            except OSError as fault:
                _LOG.warning("nothing is purged because an image folder cannot be listed: %s", fault)
                return
            oldest = self._purge_images(images)
            try:
                self._purge_edits(oldest + 1)
            except JournalError as error:
                _LOG.warning("old edits are not purged: %s", error)

    def _purge_images(self, images: Sequence[StoredImage]) -> int:
        """Purge images; return the transaction id of the oldest remaining image."""
        plan = plan_retention(images, [], self._config.images_retained, 0, 0)
        for warning in apply_plan(plan):
            _LOG.warning("%s", warning)
        return plan.oldest_image_txid

    def _purge_edits(self, required: int) -> None:
        extra = self._config.extra_edits_retained
        segments = self._journals.finalized(max(0, required - extra))
        self._journals.purge(edits_needed_from(segments, required, extra, self._config.max_extra_segments))
