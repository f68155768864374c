"""What a file that is to be written takes in its folder, and what is free there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.errors import StorageError
from hadoop_common.text_layout import byte_count


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """What a folder would have to take, and what is free there for this user; bytes."""

    folder: Path
    needed: int
    free: int

    @property
    def enough(self) -> bool:
        return self.needed <= self.free

    def estimate(self, short: str = "maybe too little") -> str:
        """A line for people where `needed` is a mere estimate; it ends with `short` if not enough is free."""
        verdict = "" if self.enough else f": {short}"
        return f"room in {self.folder}: about {byte_count(self.needed)} needed, {byte_count(self.free)} free{verdict}"

    def __str__(self) -> str:
        verdict = "" if self.enough else ": too little"
        return f"room in {self.folder}: {self.needed} bytes needed, {self.free} free{verdict}"


def disk_room(folder: Path, needed: int) -> DiskRoom:
    """Raises StorageError where the folder cannot be asked."""
    try:
        return DiskRoom(folder, needed, shutil.disk_usage(folder).free)
    except OSError as fault:
        raise StorageError(
            f"cannot ask for the free space of {folder}: {fault.strerror}",
            hint="Check the path, its disk and its permissions.",
        ) from fault
