"""Numba's files of compiled kernels, protected against stale and damaged code.

A wrong kernel would write a wrong image. The names of data files contain the stamp of the sources, because Numba writes
an index before its data. A loader compares the types of the arguments and treats a damaged file as missing.
Only one process at a time writes into a folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from numba.core.caching import CompileResultCacheImpl, FunctionCache

_LOG = logging.getLogger(__name__)

_LOCK: Final = "kernel-files.lock"
_PRIVATE: Final = ("_source_stamp", "_data_name_pattern", "_index_name", "_load_index")
"""Attributes of Numba's index file that a stamp requires."""
_UNREADABLE: Final = (
    OSError,
    EOFError,
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
)
"""Exceptions from reading a damaged file; a power failure may leave empty files, which are renamed without fsync."""


class KernelFiles(FunctionCache):
    """Cache for the machine code of one kernel.

    Args:
        stamp: stamp of everything from which the kernel was compiled; Numba itself checks only the modification time of
            the kernel's source file.

    Raises:
        RuntimeError: no folder for the code is writable, or this version of Numba names its files differently.
    """

    _impl_class: Any = CompileResultCacheImpl

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        self._folder = Path(self.cache_path)
        file = self._cache_file
        if not all(hasattr(file, name) for name in _PRIVATE):
            raise RuntimeError(
                "this version of Numba stores kernels in files whose names cannot contain the stamp of the sources"
            )
        self._base = file._index_name.removesuffix(".nbi")
        self._digest = hashlib.sha256(stamp.encode()).hexdigest()[:16]
        file._source_stamp = stamp
        # Numba writes the index before the data, so an index must never name data that was compiled from other sources.
        file._data_name_pattern = f"{self._base}.{self._digest}.{{number:d}}.nbc"

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the stored code for a signature, or None if no usable code exists."""
        try:
            found = self._read(signature, context)
        except _UNREADABLE as error:
            _LOG.debug("a stored kernel cannot be read and is compiled again: %s", error)
            return None
        wanted = tuple(getattr(signature, "args", signature))
        return found if found is not None and tuple(found.signature.args) == wanted else None

    def _read(self, signature: Any, context: Any) -> Any:
        return super().load_overload(signature, context)

    def holds(self, context: Any, types: tuple[Any, ...]) -> bool:
        """Return whether code for arguments of these types is stored."""
        try:
            name = self._cache_file._load_index().get(self._index_key(types, context.codegen()))
            return name is not None and (self._folder / name).exists()
        except _UNREADABLE:
            return False

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store a kernel if possible; only log errors, which must not end the call that compiled the kernel."""
        try:
            with _locked(self._folder / _LOCK):
                self._make_readable()
                super().save_overload(signature, result)
                self._remove_outdated()
        except OSError as error:
            _LOG.warning("a compiled kernel cannot be stored for the next start: %s", error)

    def _make_readable(self) -> None:
        """Replace a damaged index with an empty index."""
        try:
            self._cache_file._load_index()
        except _UNREADABLE:
            self._cache_file.flush()

    def _remove_outdated(self) -> None:
        """Remove data compiled from other sources, to which no index refers any more."""
        for path in self._folder.glob(f"{self._base}.*.nbc"):
            if not path.name.startswith(f"{self._base}.{self._digest}."):
                with suppress(OSError):
                    path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a folder against writers in other processes, because each writer reads, extends and rewrites an index.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
