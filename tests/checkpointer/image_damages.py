"""Files that are named like images but are not usable images."""

from __future__ import annotations

import os
from pathlib import Path

from hadoop_common.names import md5_name
from tests.checkpointer.storage_support import Damage, put_image

OLD, FAR = 3, 9_000_000


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def empty(path: Path) -> None:
    put_image(path.parent, _txid(path))
    path.write_bytes(b"")


def cut(path: Path) -> None:
    content = put_image(path.parent, _txid(path)).read_bytes()
    path.write_bytes(content[:-20])


def another_txid(path: Path) -> None:
    put_image(path.parent, _txid(path) + 1).rename(path)


def empty_digest(path: Path) -> None:
    put_image(path.parent, _txid(path)).with_name(md5_name(path.name)).write_bytes(b"")


def digest_of_another(path: Path) -> None:
    digest = put_image(path.parent, _txid(path)).with_name(md5_name(path.name))
    digest.write_bytes(digest.read_bytes().replace(b"fsimage", b"fsimgae"))


def digest_directory(path: Path) -> None:
    digest = put_image(path.parent, _txid(path)).with_name(md5_name(path.name))
    digest.unlink()
    digest.mkdir()


def no_digest(path: Path) -> None:
    put_image(path.parent, _txid(path)).with_name(md5_name(path.name)).unlink()


def digest_dangling(path: Path) -> None:
    digest = put_image(path.parent, _txid(path)).with_name(md5_name(path.name))
    digest.unlink()
    digest.symlink_to("nowhere")


def wrong_digest(path: Path) -> None:
    """Write an intact image whose digest file contains another digest."""
    put_image(path.parent, _txid(path)).with_name(md5_name(path.name)).write_text(f"{'0' * 32} *{path.name}\n")


NOT_REGULAR: list[Damage] = [directory, pipe, dangling, loop]


BAD_FRAME: list[Damage] = [
    empty,
    cut,
    another_txid,
    empty_digest,
    digest_of_another,
    digest_directory,
    no_digest,
    digest_dangling,
]


ALL: list[Damage] = [*NOT_REGULAR, *BAD_FRAME, wrong_digest]


def _txid(path: Path) -> int:
    return int(path.name.rpartition("_")[2])
