"""Stores of the objects of an archive: a directory, or a file system that fsspec supports.

Objects are immutable and have unique names. `put` is atomic: a reader sees a complete object or none.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from archive.errors import ArchiveError
from archive.scratch import scratch_folder
from hadoop_common.addresses import without_password
from hadoop_common.durable import fsync_directory, make_with_mode, remove_durably, removed_on_fault, sync_output
from hadoop_common.errors import HdfsError
from hadoop_common.extras import install_hint
from hadoop_common.file_faults import error_text, hint_for

INCOMING = "incoming"
"""Folder of objects that are being written; leftovers of a crash are garbage."""
_PRIVATE = 0o700
_OBJECT_STORES = frozenset({"abfs", "abfss", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"})
"""Protocols of fsspec with atomic uploads; with other protocols, an object is renamed after its upload."""
_HINT = "Check that the archive can be reached, is writable and has space; listed objects were not changed."
_NO_FOLDER = (
    "Check --archive, or checkpointer.archive.dir of a daemon: the value must be a directory or the URL of a directory."
)


class ObjectStore(Protocol):
    """A store of objects. Names are relative paths with `/`; every method can raise ArchiveError."""

    @property
    def location(self) -> str:
        """Path or URL for messages, without a password."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size in bytes of each object in `folder`, by the object's name, which begins with the folder."""

    def read(self, name: str) -> bytes:
        """Return a whole object; raise KeyError if it does not exist."""

    def open(self, name: str) -> IO[bytes]:
        """Open an object for reading at any position; raise KeyError if it does not exist."""

    def put(self, name: str, source: Path, *, contested: bool = False) -> None:
        """Store the file `source` durably as `name`, and remove `source`; an existing object is not changed.

        Args:
            contested: whether other writers may store other content as `name` at the same time. If the file system
                cannot decide between the writers, the last writer replaces the object.
        """

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""

    def age(self, name: str) -> float | None:
        """Return the seconds since an object was stored; None if unknown, or if it does not exist."""

    def scratch(self) -> Path:
        """Return the path of a new file in which an object can be built."""

    def incoming(self) -> list[str]:
        """Return the names of unfinished objects of this and other writers."""


class FolderStore:
    """Objects as files below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def location(self) -> str:
        return str(self._root)

    def sizes(self, folder: str) -> dict[str, int]:
        with _faults(self._root / folder, "cannot be listed"):
            path = self._root / folder
            if not path.is_dir():
                return {}
            sizes: dict[str, int] = {}
            for each in sorted(path.iterdir()):
                # another process may remove the object
                with suppress(FileNotFoundError):
                    sizes[f"{folder}/{each.name}"] = each.stat().st_size
            return sizes

    def read(self, name: str) -> bytes:
        with self.open(name) as stream, _faults(self._root / name, "cannot be read"):
            return stream.read()

    def open(self, name: str) -> IO[bytes]:
        with _faults(self._root / name, "cannot be read"):
            try:
                return (self._root / name).open("rb")
            except FileNotFoundError:
                raise KeyError(name) from None

    def put(self, name: str, source: Path, *, contested: bool = False) -> None:
        target = self._root / name
        with _faults(target, "cannot be written"):
            self._make(target.parent)
            with source.open("rb+") as content:
                sync_output(content)
            try:
                # unlike a rename, a link never replaces an object that has since appeared
                os.link(source, target)
            except FileExistsError:
                pass
            except OSError:
                if not target.exists():
                    # the file system does not support hard links
                    source.replace(target)
            fsync_directory(target.parent)
            source.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        with _faults(self._root / name, "cannot be removed"):
            if (self._root / name).exists():
                remove_durably(self._root / name)

    def age(self, name: str) -> float | None:
        with _faults(self._root / name, "cannot be read"):
            try:
                return time.time() - (self._root / name).stat().st_mtime
            except FileNotFoundError:
                return None

    def scratch(self) -> Path:
        with _faults(self._root, "cannot be written"):
            self._make(self._root / INCOMING)
        return self._root / INCOMING / secrets.token_hex(8)

    def incoming(self) -> list[str]:
        return list(self.sizes(INCOMING))

    def _make(self, folder: Path) -> None:
        if not self._root.is_dir():
            make_with_mode(self._root, _PRIVATE)
            fsync_directory(self._root.parent)
        if not folder.is_dir():
            make_with_mode(folder, _PRIVATE)
            fsync_directory(folder.parent)


class FsspecStore:
    """Objects in a file system of fsspec, such as `s3://bucket/folder`; objects are built in a local scratch folder."""

    def __init__(self, url: str, file_system: Any, root: str) -> None:
        self._url = without_password(url)
        self._fs = file_system
        self._root = root.rstrip("/")
        self._resources = ExitStack()
        self._scratch: Path | None = None

    @property
    def location(self) -> str:
        return self._url

    def sizes(self, folder: str) -> dict[str, int]:
        with _faults(f"{self._url}/{folder}", "cannot be listed"):
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(f"{self._root}/{folder}", detail=True)
            except FileNotFoundError:
                return {}
        names = {f"{folder}/{PurePosixPath(each['name']).name}": each for each in found if each["type"] == "file"}
        return {name: int(names[name]["size"]) for name in sorted(names)}

    def read(self, name: str) -> bytes:
        with self.open(name) as stream, _faults(f"{self._url}/{name}", "cannot be read"):
            return stream.read()

    def open(self, name: str) -> IO[bytes]:
        with _faults(f"{self._url}/{name}", "cannot be read"):
            try:
                stream: IO[bytes] = self._fs.open(f"{self._root}/{name}", "rb")
            except FileNotFoundError:
                raise KeyError(name) from None
            return stream

    def put(self, name: str, source: Path, *, contested: bool = False) -> None:
        target = f"{self._root}/{name}"
        with _faults(f"{self._url}/{name}", "cannot be written"):
            self._fs.invalidate_cache()
            if not self._fs.exists(target):
                self._upload(source, target, contested)
        source.unlink(missing_ok=True)

    def _upload(self, source: Path, target: str, contested: bool) -> None:
        protocols = {self._fs.protocol} if isinstance(self._fs.protocol, str) else set(self._fs.protocol)
        if protocols & _OBJECT_STORES:
            if not (contested and self._create(source, target)):
                self._fs.put_file(str(source), target)
            return
        aside = f"{self._root}/{INCOMING}/{secrets.token_hex(8)}"
        for folder in (str(PurePosixPath(target).parent), str(PurePosixPath(aside).parent)):
            self._fs.makedirs(folder, exist_ok=True)
        self._fs.put_file(str(source), aside)
        size, refused = source.stat().st_size, None
        try:
            self._fs.mv(aside, target)
        except OSError as fault:
            refused = fault
        self._fs.invalidate_cache()
        # WebHDFS refuses a rename without an error; another writer may have stored the same bytes
        if not self._fs.exists(target) or self._fs.info(target)["size"] != size:
            raise refused or OSError(f"{aside} was not renamed to {target}")
        if self._fs.exists(aside):
            self._fs.rm_file(aside)

    def _create(self, source: Path, target: str) -> bool:
        """Store an object unless it already exists (If-None-Match); return whether the object exists afterwards."""
        # some stores, and all file systems of fsspec before 2024.12, lack conditional writes and raise errors of many
        # types
        with suppress(Exception):
            self._fs.put_file(str(source), target, mode="create")
        self._fs.invalidate_cache()
        return bool(self._fs.exists(target))

    def remove(self, name: str) -> None:
        with _faults(f"{self._url}/{name}", "cannot be removed"):
            self._fs.invalidate_cache()
            if self._fs.exists(f"{self._root}/{name}"):
                self._fs.rm_file(f"{self._root}/{name}")

    def age(self, name: str) -> float | None:
        with _faults(f"{self._url}/{name}", "cannot be read"):
            try:
                modified: datetime = self._fs.modified(f"{self._root}/{name}")
            except (NotImplementedError, FileNotFoundError, KeyError):
                return None
        # some file systems report UTC without a zone
        at = modified if modified.tzinfo is not None else modified.replace(tzinfo=UTC)
        return time.time() - at.timestamp()

    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = self._resources.enter_context(scratch_folder())
        return self._scratch / secrets.token_hex(8)

    def incoming(self) -> list[str]:
        return list(self.sizes(INCOMING))

    def close(self) -> None:
        """Remove the scratch folder."""
        self._resources.close()
        self._scratch = None


@contextmanager
def opened_store(location: str) -> Iterator[ObjectStore]:
    """Yield the store at a path or URL.

    Raises:
        ArchiveError: fsspec or the package of its file system is not installed.
    """
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        yield FolderStore(Path(unquote(parts.path) if parts.scheme else location))
        return
    store = _remote_store(location)
    try:
        yield store
    finally:
        store.close()


def _remote_store(location: str) -> FsspecStore:
    shown = without_password(location)
    try:
        # imported here, because the package is optional
        from fsspec.core import url_to_fs
    except ImportError as fault:
        raise ArchiveError(
            f"{shown} needs fsspec, which is not installed",
            hint=f"{install_hint('archive')} The URL also needs the package of its file system, such as s3fs.",
        ) from fault
    try:
        file_system, root = url_to_fs(location)
    except Exception as fault:
        # file systems of fsspec raise errors of many types
        raise ArchiveError(
            without_password(f"{shown} cannot be opened: {fault}"),
            hint="Check the URL, and install the package that fsspec needs for this kind of URL.",
        ) from fault
    return FsspecStore(location, file_system, root)


@contextmanager
def built(store: ObjectStore) -> Iterator[Path]:
    """Yield a scratch file, which is removed unless `put` has consumed it."""
    path = store.scratch()
    with removed_on_fault(path):
        yield path
    path.unlink(missing_ok=True)


@contextmanager
def _faults(place: Path | str, what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, HdfsError):
        raise
    except Exception as fault:
        # file systems of fsspec raise errors of many types
        path = place if isinstance(place, Path) else None
        text = error_text(fault, path) if isinstance(fault, OSError) else f"{type(fault).__name__}: {fault}"
        hint = _NO_FOLDER if isinstance(fault, NotADirectoryError) else hint_for(fault, _HINT)
        raise ArchiveError(without_password(f"{place} {what}: {text}"), hint=hint) from fault
