"""A journal's folder in the file system."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO

from hadoop_common.durable import (
    fsync_directory,
    fsync_file,
    make_with_mode,
    remove_durably,
    rename_durably,
    write_atomically,
)
from hadoop_common.file_faults import file_faults
from hadoop_common.path_status import exists, is_directory
from hadoop_common.regular_file import open_regular, read_regular
from hadoop_common.storage_info import JOURNAL_NODE
from hadoop_common.storage_lock import StorageLock
from journal.primitives import Buffer
from journal.segment_file import map_file
from journal_node.disk import JournalDisk

DEFAULT_PERMISSION = 0o700  # dfs.journalnode.edits.dir.perm
# epochs, VERSION and records of accepted recoveries
_MAX_BYTES = 64 * 1024


def below(root: Path, *, permission: int = DEFAULT_PERMISSION) -> Callable[[str], JournalDisk]:
    """Return a function that maps a journal's id to its folder below `root`, as in Hadoop.

    Args:
        permission: mode of created directories.
    """
    return lambda journal_id: FileDisk(root / journal_id, permission=permission)


class FileDisk:
    """`JournalDisk` in `root`, which need not exist yet; symbolic links are not followed, because segments are served.

    Segments from a peer are written in parallel with the writer's calls. A lock therefore protects the file that stays
    open. Without the lock, a number could be written to a descriptor that was closed and now refers to another file.
    """

    def __init__(self, root: Path, *, permission: int = DEFAULT_PERMISSION) -> None:
        self._root = root
        self._permission = permission
        self._lock: StorageLock | None = None
        self._keeping = threading.Lock()
        self._kept: tuple[str, int] | None = None

    @property
    def location(self) -> str:
        return str(self._root)

    def path(self, name: str) -> Path:
        return self._root / name

    def lock(self) -> None:
        if self._lock is None and is_directory(self._root):
            lock = StorageLock(self._root, of=(JOURNAL_NODE,))
            lock.acquire()
            self._lock = lock

    def unlock(self) -> None:
        self._close_moved("")
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def is_replaced(self) -> bool:
        return self._lock is not None and self._lock.is_elsewhere()

    def exists(self, name: str) -> bool:
        return exists(self.path(name))

    def names(self, directory: str) -> list[str]:
        try:
            return [path.name for path in self.path(directory).iterdir()]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        with self._faults(name, "read"):
            return read_regular(self.path(name), _MAX_BYTES, follow=False)

    def open(self, name: str) -> BinaryIO:
        return open_regular(self.path(name), follow=False)

    def content(self, name: str) -> AbstractContextManager[Buffer]:
        return map_file(self.path(name), follow=False)

    def write(self, name: str, data: bytes) -> None:
        self._close_moved(name)
        write_atomically(self.path(name), data)

    def overwrite(self, name: str, data: bytes) -> None:
        with self._keeping:
            if self._kept is None or self._kept[0] != name:
                self._close_kept()
                self._kept = (name, os.open(self.path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            try:
                with self._faults(name, "written"):
                    os.pwrite(self._kept[1], data, 0)
            except OSError:
                # After a remount of the disk, the descriptor would belong to a file system that no longer exists.
                self._close_kept()
                raise

    def create(self, name: str) -> FileOutput:
        return FileOutput(self.path(name))

    def sync(self, name: str) -> None:
        with self._faults(name, "synced"):
            fsync_file(self.path(name))

    def rename(self, source: str, target: str) -> None:
        self._close_moved(source, target)
        rename_durably(self.path(source), self.path(target))

    def link(self, source: str, target: str) -> None:
        os.link(self.path(source), self.path(target))
        fsync_directory(self.path(target).parent)

    def remove(self, name: str) -> None:
        remove_durably(self.path(name))

    def make_directory(self, name: str) -> None:
        path = self.path(name)
        if is_directory(path):
            return
        if name:
            self.make_directory(name.rpartition("/")[0])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        make_with_mode(path, self._permission)
        fsync_directory(path.parent)

    def remove_tree(self, name: str) -> None:
        self._close_moved(name)
        path = self.path(name)
        if exists(path):
            shutil.rmtree(path)
            fsync_directory(path.parent)

    def _faults(self, name: str, done: str) -> AbstractContextManager[None]:
        return file_faults(self.path(name), f"cannot be {done}")

    def _close_moved(self, *names: str) -> None:
        """Close the file that stays open if it is at or below one of `names`, before these names are moved."""
        with self._keeping:
            kept = "" if self._kept is None else self._kept[0]
            if any(name in ("", kept) or kept.startswith(f"{name}/") for name in names):
                self._close_kept()

    def _close_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            # Each write has already reported its error.
            with suppress(OSError):
                os.close(kept[1])


class FileOutput:
    """`JournalOutput` that writes to the new file `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._written = 0
        self._synced = 0

    @property
    def written(self) -> int:
        return self._written

    def append(self, data: bytes, *, sync: bool) -> None:
        with file_faults(self._path, "cannot be written"), memoryview(data) as rest:
            done = 0
            while done < len(rest):
                count = self._file.write(rest[done:]) or 0
                done += count
                self._written += count
        if sync:
            self.sync()

    def sync(self) -> None:
        if self._synced < self._written:
            # fdatasync also syncs the size; the file's times are not needed.
            with file_faults(self._path, "cannot be synced"):
                os.fdatasync(self._file.fileno())
            self._synced = self._written

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
