"""An image that the tasks of a host share: memory-mapped, and indexed once by the first task that needs it."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.names import md5_name
from image_format.errors import ImageStorageError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays, load_array
from image_format.inode_scan import inode_section
from image_format.reader import ImageFile
from image_tools.directory_paths import chain_directories, place_inodes, write_paths
from image_tools.dump.values import java_text
from pipeline.errors import SourceFileError
from pipeline.host_scratch import scratch_setting


def create_once(scratch: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name` in `scratch`; `make` fills it unless another process on this host did.

    While one process fills the folder, the others wait. The folder appears complete or not at all; the next process
    removes the files of a killed process.

    Raises:
        ImageStorageError: `scratch` cannot be written.
    """
    target = scratch / name
    if target.is_dir():
        return target
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        # The operating system releases the lock of a process that dies.
        with (scratch / f"{name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                for left in scratch.glob(f"{name}.making-*"):
                    shutil.rmtree(left)
                _make(target, make)
    except OSError as error:
        hint = f"Free space in {scratch}, or set {scratch_setting(scratch)} to another folder."
        raise ImageStorageError(f"cannot write {target}: {error}", hint=hint) from error
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    try:
        make(folder)
        # A plain rename is enough: a scratch folder is useless after a crash of the host.
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


UNPACKED = ("INODE", "INODE_DIR", "INODE_REFERENCE", "SNAPSHOT_DIFF")
"""Sections that the folder contains in decompressed form if the image is compressed."""


def build_host_index(image: ImageFile, folder: Path) -> None:
    """Fill `folder` with all files that `HostImage` maps.

    Raises:
        ImageFormatError: the image is damaged; the function compares the MD5 last, because the MD5 does not locate
            damage.
        OSError: the folder cannot be written.
    """
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(_verify, image)
        _unpack(image, folder)
        arrays = IndexArrays.scan(image)
        arrays.save(folder)
        parents = place_inodes(image, arrays)
        np.save(folder / "parent_rows.npy", parents)
        chain = chain_directories(image, arrays, parents)
        for name in ("parents", "in_tree", "bounds"):
            np.save(folder / f"{name}.npy", getattr(chain, name))
        write_paths(image, chain, _map_new(folder / "paths.npy", int(chain.bounds[-1])))
        digest.result()


def _verify(image: ImageFile) -> None:
    if image.path.with_name(md5_name(image.path.name)).exists():
        image.verify_md5()


def _map_new(path: Path, size: int) -> npt.NDArray[np.uint8]:
    """Map a new file as a byte array, because the array may not fit into memory.

    Raises:
        OSError: the disk is full. The function reserves the space first, because the kernel kills a process that writes
            to a mapping on a full disk.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(size,))
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array.view(np.ndarray)


def _unpack(image: ImageFile, folder: Path) -> None:
    if not image.codec:
        return
    for name in UNPACKED:
        if image.has_section(name):
            path = section_file(folder, name)
            with path.open("wb") as out:
                image.unpack_section(name, out)
            image.use_unpacked(name, map_section(path))


def section_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.section"


def map_section(path: Path) -> npt.NDArray[np.uint8]:
    """Map a decompressed section read-only.

    Raises:
        ImageStorageError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            if path.stat().st_size == 0:
                return np.frombuffer(b"", np.uint8)
            return np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise ImageStorageError(f"cannot read {path}: {error}", hint="Start the job again.") from error


Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.signedinteger]

_FORMAT = 2
"""Format of the folder that `build_host_index` fills; part of the folder's name."""
_CACHED_IMAGES = 4


@dataclass(frozen=True, slots=True)
class DirectoryPaths:
    """Directories with current children, one row each, by ascending id.

    Attributes:
        ids: inode ids.
        parents: row of each directory's parent, -1 for the root and for a directory without a parent.
        in_tree: whether the directory is reachable from the root; other directories have no path.
        bounds: start of each path in `paths`, followed by the end of the last path.
        paths: bytes of all paths, concatenated, without a trailing slash; the root's path is empty.
    """

    ids: Ids
    parents: Ids
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    paths: Bytes

    def path(self, row: int) -> bytes | None:
        """Return the path of a row, b"" for the root; None for a directory outside the tree."""
        if not self.in_tree[row]:
            return None
        return self.paths[self.bounds[row] : self.bounds[row + 1]].tobytes()


class HostImage:
    """A memory-mapped image with the arrays that its readers need, shared by the processes of a host; created by
    `open`.

    Attributes:
        image: the open file; if the image is compressed, the large sections are decompressed on disk.
        arrays: positions of the records.
        parent_rows: row of an inode's parent in `directories`, by slot; -1 for the root and for an inode without a
            parent.
        directories: see `DirectoryPaths`.
    """

    def __init__(self, image: ImageFile, folder: Path) -> None:
        self.image = image
        if image.codec:
            for name in UNPACKED:
                if image.has_section(name):
                    image.use_unpacked(name, map_section(section_file(folder, name)))
        self.arrays = IndexArrays.load(folder)
        self.parent_rows: Rows = load_array(folder, "parent_rows")
        parents, in_tree, bounds, paths = (
            load_array(folder, name) for name in ("parents", "in_tree", "bounds", "paths")
        )
        self.directories = DirectoryPaths(self.arrays.directory_ids, parents, in_tree, bounds, paths)

    @classmethod
    def open(cls, path: Path, scratch: Path, staged: str = "") -> HostImage:
        """Open the image at `path`; build its index in `scratch` if this host does not yet have the index.

        Args:
            staged: name under which Spark sent a copy to each executor on this host; all copies share one index.

        The process that builds the index compares the image's MD5 with the `.md5` file, if one exists. If Spark sent
        the copies, one process of each executor checks the MD5 of its copy.

        Raises:
            ImageFormatError: the image is damaged; see the subclasses.
            ImageStorageError: the file cannot be read, or its index cannot be written.
            SourceFileError: the file does not exist.
        """
        return _open(path, scratch, _identity(path, staged), _identity(path) if staged else "")

    @classmethod
    def indexed(cls, image: ImageFile, scratch: Path) -> HostImage:
        """Return an open image with its index; see `open`. The caller closes the image; no process caches it."""
        return cls._indexed(image, scratch, _identity(image.path))

    @classmethod
    def _indexed(cls, image: ImageFile, scratch: Path, identity: str, copy: str = "") -> HostImage:
        def build(folder: Path) -> None:
            build_host_index(image, folder)
            if copy:
                (scratch / verified).mkdir(exist_ok=True)

        verified = f"verified-{copy}"
        folder = create_once(scratch, f"image-{identity}", build)
        if copy:
            create_once(scratch, verified, lambda _: _verify(image))
        return cls(image, folder)

    @functools.cached_property
    def index(self) -> ImageIndex:
        """The index that replay uses. Raises InconsistentSnapshotsError if snapshots refer to missing inodes."""
        return ImageIndex(self.image, self.arrays)

    @functools.cached_property
    def inode_buffer(self) -> Bytes:
        """The INODE section. Raises MissingSectionError if the section is missing."""
        return inode_section(self.image)

    @property
    def count(self) -> int:
        """Number of inodes in the image; their slots are 0 to `count` - 1."""
        return self.arrays.offsets.size

    @functools.cached_property
    def root_slot(self) -> int:
        """Slot of the root directory, or -1 if the image has no root directory."""
        return self.slot(ROOT_INODE_ID)

    def slot(self, inode_id: int) -> int:
        """Return the slot of an inode, or -1 if the image does not contain the id."""
        return self.arrays.slot(inode_id)

    def in_tree(self, slots: range | Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of the inodes that are in the current tree and not only in snapshots."""
        slots = np.arange(slots.start, slots.stop) if isinstance(slots, range) else slots
        rows = self.parent_rows[slots]
        reached = self.directories.in_tree[rows] if self.directories.in_tree.size else np.zeros(rows.size, np.bool_)
        reached &= rows >= 0
        reached |= slots == self.root_slot
        return reached

    def path(self, slot: int, name: bytes) -> str | None:
        """Return the current path of the inode in `slot` with this name; None for an inode outside the tree."""
        if slot == self.root_slot:
            return "/"
        row = int(self.parent_rows[slot])
        directory = None if row < 0 else self.directories.path(row)
        return None if directory is None else java_text(directory + b"/" + name)


def _identity(path: Path, staged: str = "") -> str:
    try:
        at = path.stat()
    except OSError as error:
        raise SourceFileError(
            f"cannot read {path}: {error}", hint="Check the path; all hosts of a cluster must share it."
        ) from error
    # copies for several executors differ in path and time, so the name identifies a file; Spark keeps one file per name
    which = (staged,) if staged else (os.path.realpath(path), str(at.st_mtime_ns))
    text = "\0".join((*which, str(at.st_size), str(_FORMAT)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@functools.lru_cache(_CACHED_IMAGES)
def _open(path: Path, scratch: Path, identity: str, copy: str) -> HostImage:
    return HostImage._indexed(ImageFile.open(path, verify_md5=False, spool_dir=scratch), scratch, identity, copy)
