"""The files of a host's index of an image: arrays as .npy, and decompressed sections of a compressed image."""

from __future__ import annotations

import mmap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.names import md5_name
from image_format.errors import ImageStorageError
from image_format.index_arrays import IndexArrays
from image_format.reader import ImageFile
from image_tools.directory_paths import chain_directories, place_inodes, write_paths

UNPACKED = ("INODE", "INODE_DIR", "INODE_REFERENCE", "SNAPSHOT_DIFF")
"""Sections of a compressed image that the folder contains decompressed."""


def build_host_index(image: ImageFile, folder: Path) -> None:
    """Fill `folder` with all files that `HostImage` maps.

    Raises:
        ImageFormatError: the image is damaged; the MD5 is compared last, because it does not locate the damage.
        OSError: the folder cannot be written.
    """
    with ThreadPoolExecutor(1) as beside:
        has_digest = image.path.with_name(md5_name(image.path.name)).exists()
        digest = beside.submit(image.verify_md5) if has_digest else None
        _unpack(image, folder)
        arrays = IndexArrays.scan(image)
        arrays.save(folder)
        parents = place_inodes(image, arrays)
        np.save(folder / "parent_rows.npy", parents)
        chain = chain_directories(image, arrays, parents)
        for name in ("parents", "in_tree", "bounds"):
            np.save(folder / f"{name}.npy", getattr(chain, name))
        # Written through a mapping, because the paths of deep trees may not fit into memory.
        paths = np.lib.format.open_memmap(
            folder / "paths.npy", mode="w+", dtype=np.uint8, shape=(int(chain.bounds[-1]),)
        )
        write_paths(image, chain, paths.view(np.ndarray))
        if digest is not None:
            digest.result()


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
    """Return the path of a decompressed section."""
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
