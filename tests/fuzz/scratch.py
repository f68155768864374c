"""Files that targets hand to code that maps them, in memory where the system has a place for that."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_MEMORY = Path("/dev/shm")


class Scratch:
    """A folder that goes with the `with` block."""

    def __init__(self) -> None:
        parent = _IN_MEMORY if _IN_MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="hdfs-checkpointer-fuzz-", dir=parent))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder)

    def file(self, name: str, data: bytes) -> Path:
        """A new file of that name and content, alone in the folder."""
        self.clear()
        path = self.folder / name
        path.write_bytes(data)
        return path

    def clear(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()
