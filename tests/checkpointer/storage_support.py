"""Storage directories for tests, made from recorded directories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore
from checkpointer.storage.inspector import list_images
from engine.saver import save_image
from hadoop_common.durable import write_atomically
from hadoop_common.names import md5_name
from hadoop_common.storage_info import StorageInfo
from image_format.errors import RecordError
from image_format.reader import ImageFile
from journal.segment_file import list_segments, read_ops
from journal.segment_format import HEADER_SIZE
from tests.engine.image_builder import ImageBuilder

RECORDED = Path(__file__).parents[1] / "recorded" / "hadoop-2.7.3"
IMAGE_TXID = 30
NEW_TXID = 183
INFO = StorageInfo(-63, 1, 0, "CID-x", "BP-x")
Damage = Callable[[Path], None]


class OpenDirectories(StorageDirectories):
    """A context manager that opens and releases the directories, as a role does."""

    def __enter__(self) -> Self:
        self.lock()
        try:
            self.clean_leftovers()
            restore(self)
            self.storage_info()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def recorded_directory(target: Path, case: str = "renames") -> Path:
    """Return a storage directory whose `current` folder has the files at the start of the case."""
    shutil.copytree(RECORDED / case / "before", target / "current", copy_function=shutil.copyfile)
    for path in (target, target / "current"):
        path.chmod(0o755)
    return target


def put_image(folder: Path, txid: int) -> Path:
    """Write an image of an empty namespace at `txid`, with its digest file."""
    builder = ImageBuilder()
    builder.info.transactionId = txid
    return builder.save(folder)


def refuse_to_load(monkeypatch: pytest.MonkeyPatch, unloadable: Path) -> None:
    """Damage this image so that no NameNode loads it."""

    def check(image: ImageFile, *_: object) -> None:
        if image.path == unloadable:
            raise RecordError("no NameNode loads it", file=str(unloadable))

    # after this rewrite, the file no longer counts as written by this process
    unloadable.write_bytes(unloadable.read_bytes())
    monkeypatch.setattr("engine.image_verification.check_loadable", check)


def recorded_image(case: str = "renames", txid: int = NEW_TXID) -> bytes:
    """Return the bytes of an image that Hadoop saved at `txid`."""
    return next((RECORDED / case).rglob(f"fsimage_{txid:019d}")).read_bytes()


def save(storage: StorageDirectories) -> None:
    """Save an image at `NEW_TXID` in all directories."""
    image = recorded_image()
    save_image(storage.current_folders(), NEW_TXID, lambda sink: sink(image))


def damage_frame(path: Path) -> None:
    """Damage the magic bytes, which every listing reads."""
    write_atomically(path, b"damaged!" + path.read_bytes()[8:])


def damage_content(path: Path) -> None:
    """Damage a record, which only a comparison with the digest finds."""
    write_atomically(path, path.read_bytes().replace(b"supergroup", b"otherGroup"))


def damage_digest(path: Path) -> None:
    """Store the digest of another image, as if a process was killed while it replaced the image with an image of the
    same name.
    """
    path.with_name(md5_name(path.name)).write_text(f"{'0' * 32} *{path.name}\n")


def damage_all(folder: Path, damage: Damage) -> dict[str, bytes]:
    """Damage every image; return the damaged images by name."""
    paths = [image.path for image in list_images(folder)]
    for path in paths:
        damage(path)
    return {path.name: path.read_bytes() for path in paths}


@contextmanager
def unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse to open a file, as for a daemon without root rights."""
    real = os.open

    def refuse(name: str | Path, *arguments: int, **more: int) -> int:
        if Path(name) == path:
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        yield


def whole_images(current: Path) -> dict[int, Path]:
    """Return the images with a digest file by txid, after comparing each image with that file."""
    found = {}
    for image in list_images(current) if current.is_dir() else []:
        if image.has_md5:
            ImageFile.open(image.path).close()
            found[image.txid] = image.path
    return found


def stored_txids(current: Path) -> set[int]:
    """Return the transactions in all segments of a folder; a segment may end with its header."""
    segments = [each for each in list_segments(current) if each.path.stat().st_size > HEADER_SIZE]
    return {op.txid for segment in segments for op in read_ops(segment)}
