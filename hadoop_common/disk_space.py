"""Required and free disk space for a new file in a directory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.errors import StorageError
from hadoop_common.text_layout import byte_count


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Required space in a directory and space available to this user, in bytes."""

    folder: Path
    needed: int
    free: int

    @property
    def enough(self) -> bool:
        return self.needed <= self.free

    def estimate(self, short: str = "this may be too little") -> str:
        """Return a rough estimate of `needed` as a line, which ends with `short` if the free space is too small."""
        verdict = "" if self.enough else f": {short}"
        return f"space in {self.folder}: about {byte_count(self.needed)} needed, {byte_count(self.free)} free{verdict}"

    def __str__(self) -> str:
        verdict = "" if self.enough else ": too little"
        return f"space in {self.folder}: {self.needed} bytes needed, {self.free} free{verdict}"


def disk_space(folder: Path, needed: int) -> DiskSpace:
    """Measure the free space of `folder`; raise StorageError if that fails."""
    try:
        return DiskSpace(folder, needed, shutil.disk_usage(folder).free)
    except OSError as fault:
        raise StorageError(
            f"cannot determine the free space of {folder}: {fault.strerror}",
            hint="Check the path, its disk and its permissions.",
        ) from fault
