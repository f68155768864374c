"""A `JournalDisk` in memory that loses unsynced content in a crash, and a disk on which a chosen step fails."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, cast

from journal.primitives import Buffer
from journal_node.disk import JournalDisk, JournalOutput

CHANGING = ("write", "overwrite", "create", "sync", "rename", "link", "remove", "make_directory", "remove_tree")
"""The methods of `JournalDisk` that are steps of durability."""


@dataclass
class Inode:
    """Content of a file: the whole content, and the part that survives a crash."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


class MemoryOutput:
    """`JournalOutput` to an inode, independent of its current name."""

    def __init__(self, inode: Inode) -> None:
        self._inode = inode
        self._closed = False

    @property
    def written(self) -> int:
        return len(self._inode.data)

    def append(self, data: bytes, *, sync: bool) -> None:
        if self._closed:
            raise ValueError("the file is closed")
        self._inode.data += data
        if sync:
            self.sync()

    def sync(self) -> None:
        self._inode.durable = bytes(self._inode.data)

    def close(self) -> None:
        self._closed = True


class MemoryDisk:
    """`JournalDisk` in memory; names are durable immediately, and content is durable only after a sync."""

    def __init__(self, location: str = "memory") -> None:
        self.location = location
        self.files: dict[str, Inode] = {}
        self.directories: set[str] = set()
        self.locked = False

    def crash(self) -> None:
        """Lose unsynced content and close all files, as in a power failure."""
        self.locked = False
        for inode in self.files.values():
            inode.data = bytearray(inode.durable)

    def lock(self) -> None:
        self.locked = True

    def unlock(self) -> None:
        self.locked = False

    def is_replaced(self) -> bool:
        return False

    def exists(self, name: str) -> bool:
        return name in self.files or name in self.directories

    def names(self, directory: str) -> list[str]:
        prefix = f"{directory}/"
        known = [*self.files, *self.directories]
        return sorted(
            {name[len(prefix) :] for name in known if name.startswith(prefix) and "/" not in name[len(prefix) :]}
        )

    def read(self, name: str) -> bytes:
        return bytes(self._inode(name).data)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))

    @contextmanager
    def content(self, name: str) -> Iterator[Buffer]:
        yield self.read(name)

    def write(self, name: str, data: bytes) -> None:
        self._need_parent(name)
        self.files[name] = Inode(bytearray(data), data)

    def overwrite(self, name: str, data: bytes) -> None:
        self._need_parent(name)
        inode = self.files.setdefault(name, Inode())
        inode.data[: len(data)] = data

    def create(self, name: str) -> JournalOutput:
        self._need_parent(name)
        inode = self.files[name] = Inode()
        return MemoryOutput(inode)

    def sync(self, name: str) -> None:
        inode = self._inode(name)
        inode.durable = bytes(inode.data)

    def rename(self, source: str, target: str) -> None:
        self._need_parent(target)
        if source in self.files:
            self.files[target] = self.files.pop(source)
            return
        if source not in self.directories:
            raise FileNotFoundError(source)
        if target in self.directories:
            raise FileExistsError(target)
        below = f"{source}/"
        self.directories = {_moved(name, source, target) for name in self.directories}
        self.files = {
            (_moved(name, source, target) if name.startswith(below) else name): i for name, i in self.files.items()
        }

    def link(self, source: str, target: str) -> None:
        self._need_parent(target)
        self.files[target] = self._inode(source)

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def make_directory(self, name: str) -> None:
        parts = name.split("/") if name else []
        self.directories.update("/".join(parts[: count + 1]) for count in range(len(parts)))

    def remove_tree(self, name: str) -> None:
        below = f"{name}/"
        self.files = {each: inode for each, inode in self.files.items() if not each.startswith(below)}
        self.directories = {each for each in self.directories if each != name and not each.startswith(below)}

    def _inode(self, name: str) -> Inode:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def _need_parent(self, name: str) -> None:
        parent = name.rpartition("/")[0]
        if parent and parent not in self.directories:
            raise FileNotFoundError(parent)


def _moved(name: str, source: str, target: str) -> str:
    return target + name[len(source) :] if name == source or name.startswith(f"{source}/") else name


class Killed(BaseException):
    """The simulated end of the process: no later code runs."""


class FaultyDisk:
    """A wrapper of `disk` with one fault: `fault` is raised before or after step number `at` (counted from 0).

    Appends and syncs of files that the disk creates are steps too. A killed disk raises `fault` at every later step.
    """

    def __init__(self, disk: JournalDisk, at: int, fault: Callable[[], BaseException], *, after: bool = False) -> None:
        self._disk = disk
        self._at = at
        self._fault = fault
        self._after = after
        self.steps: list[str] = []
        self.tripped = False

    def step(self, what: str, work: Callable[[], Any]) -> Any:
        """Perform one step, or make it fail."""
        if self.tripped and isinstance(self._fault(), Killed):
            raise self._fault()
        here = len(self.steps) == self._at
        self.steps.append(what)
        self.tripped = self.tripped or here
        if here and not self._after:
            raise self._fault()
        result = work()
        if here:
            raise self._fault()
        return result

    def arm(self, at: int) -> None:
        """Make step number `at` fail."""
        self._at = at

    def disarm(self) -> None:
        """End the fault."""
        self._at = -1

    def wrapped(self, output: JournalOutput) -> JournalOutput:
        """Return an output whose appends and syncs are steps of this disk."""
        return _FaultyOutput(self, output)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)
        if name not in CHANGING:
            return method

        if name == "remove_tree":
            return self._remove_tree

        def work(*arguments: Any) -> Any:
            result = self.step(f"{name} {' '.join(map(str, arguments[:1]))}", lambda: method(*arguments))
            return self.wrapped(cast(JournalOutput, result)) if name == "create" else result

        return work

    def _remove_tree(self, name: str) -> None:
        """Remove the files one after another, with VERSION last, which is the worst order."""
        for each in sorted(self._disk.names(name), key=lambda each: (each == "VERSION", each)):
            self.step(f"remove {name}/{each}", partial(self._remove, f"{name}/{each}"))
        self.step(f"remove_tree {name}", partial(self._disk.remove_tree, name))

    def _remove(self, name: str) -> None:
        self._disk.remove(name)
        self._disk.remove_tree(name)


class _FaultyOutput:
    def __init__(self, disk: FaultyDisk, output: JournalOutput) -> None:
        self._disk = disk
        self._output = output

    @property
    def written(self) -> int:
        return self._output.written

    def append(self, data: bytes, *, sync: bool) -> None:
        self._disk.step("append", lambda: self._output.append(data, sync=False))
        if sync:
            self.sync()

    def sync(self) -> None:
        self._disk.step("sync", self._output.sync)

    def close(self) -> None:
        self._output.close()
