"""What a role's images and segments are to the transfer servlets."""

from __future__ import annotations

from pathlib import Path

from checkpointer.roles.role import CheckpointRole
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from servlets.parameters import ImageKind


class RoleImages:
    """Serves a role's images and segments; takes no uploads (`ImageStore`)."""

    def __init__(self, role: CheckpointRole) -> None:
        self._role = role

    def storage_info(self) -> StorageInfo:
        return self._role.storage_info()

    def find_image(self, txid: int) -> Path | None:
        names = (image_name(txid), image_name(txid, rollback=True))
        paths = (folder / name for folder in self._role.image_folders() for name in names)
        return next((path for path in paths if path.is_file()), None)

    def latest_image(self) -> Path | None:
        return self._role.latest_image()

    def find_segment(self, first: int, last: int) -> Path | None:
        segments = (s for s in self._role.segments() if (s.first, s.last) == (first, last))
        return next((segment.path for segment in segments), None)

    def image_directories(self) -> list[Path]:
        return self._role.image_folders()

    def is_active(self) -> bool:
        return False

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        return "this node makes checkpoints and takes none"

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        raise AssertionError("a checkpointer takes no uploads")
