"""Files for code that maps files; they are in memory if the system has an in-memory file system."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Self

_IN_MEMORY = Path("/dev/shm")


class Scratch:
    """A folder that is removed at the end of the `with` block."""

    def __init__(self) -> None:
        parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="hdfs-checkpointer-fuzz-", dir=parent))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def file(self, name: str, data: bytes) -> Path:
        """Empty the folder, then create a file with this name and content."""
        self.clear()
        path = self.folder / name
        path.write_bytes(data)
        return path

    def clear(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()
