"""Reports of the standby and the backup role about their storage directories and uploads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.usable_images import ImageCopy
from checkpointer.transfer.upload_target import UploadTarget
from checkpointer.transfer.uploader import Uploader
from hadoop_common.storage_info import StorageInfo
from node_state.state import IN_USE
from site_config.checkpoint_config import CheckpointConfig


class StoredRole(ABC):
    """The part of `CheckpointRole` that depends only on storage and uploads."""

    _config: CheckpointConfig
    _storage: StorageDirectories
    _uploader: Uploader

    @abstractmethod
    def _confirm(self, image: Path, txid: int) -> None:
        """Check that an image belongs to the cluster's present past; raise HdfsError if it does not, if this is
        unknown, or if a start-over is unfinished.
        """

    def _usable_image(self) -> ImageCopy | None:
        """Return the newest image; None while a start-over is unfinished.

        Raises:
            StorageError: no start-over is unfinished, and no usable image exists.
        """
        return None if self._storage.unfinished_start_over() is not None else self._storage.latest_image()

    def storage_info(self) -> StorageInfo:
        return self._storage.storage_info()

    def image_folders(self) -> list[Path]:
        return self._storage.current_folders()

    def serving_folders(self) -> list[Path]:
        self._storage.refuse_unfinished()
        return self.image_folders()

    def latest_image(self) -> Path:
        self._storage.refuse_unfinished()
        return self._storage.latest_image().path

    def confirm_image(self) -> Path:
        self._storage.refuse_unfinished()
        image = self._storage.latest_image()
        self._confirm(image.path, image.txid)
        return image.path

    @property
    def targets(self) -> tuple[UploadTarget, ...]:
        return self._uploader.targets

    def storage(self) -> dict[str, str]:
        dropped = self._storage.dropped
        return {str(root): dropped.get(root, IN_USE) for root in self._config.image_directories}

    def space_shortage(self) -> str:
        return self._storage.space_shortage()
