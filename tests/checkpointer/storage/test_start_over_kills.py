"""A node that is killed twice while it replaces its images in two directories: the whole lost past is in one folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import format_directory
from checkpointer.storage.lost_pasts import KEPT, LOST_PAST, PROVENANCE, START_OVER, folders_aside
from hadoop_common.durable import write_atomically
from hadoop_common.names import image_name, md5_name, segment_name
from image_format.md5_file import md5_path
from tests.checkpointer.kill_harness import kill, kills, record
from tests.checkpointer.set_back_support import image
from tests.checkpointer.storage_support import INFO
from tests.depth import chosen, sample

THEIRS = image_name(5)
CAUSE = "the NameNode was set back"


def roots_of(folder: Path) -> list[Path]:
    return [folder / "a", folder / "b"]


def refuse_link(self: Path, target: Path) -> None:
    raise OSError(1, "Operation not permitted")


def start_over(folder: str, links: bool) -> None:
    """Start over as a node does if its newest images are lost, or if a start-over is unfinished; called in a child."""
    if not links:
        Path.hardlink_to = refuse_link  # type: ignore[assignment, method-assign]
    storage = StorageDirectories(roots_of(Path(folder)))
    storage.lock()
    storage.clean_leftovers()
    currents = storage.current_folders()
    if storage.unfinished_start_over() is not None or not all(is_theirs(current / THEIRS) for current in currents):
        storage.link_aside(LOST_PAST, CAUSE)
        for current in currents:
            write_atomically(md5_path(current / THEIRS), b"digest of theirs")
            write_atomically(current / THEIRS, b"theirs")
        storage.finish_start_over(keep=[THEIRS])
    storage.release()


def is_theirs(path: Path) -> bool:
    return path.is_file() and path.read_bytes() == b"theirs"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in (START_OVER, PROVENANCE)}


def prepare(folder: Path) -> dict[str, bytes]:
    """Create two directories with older lost pasts; return the images and edits of each."""
    for root in roots_of(folder):
        root.mkdir(parents=True)
        format_directory(root, INFO, 1, 0o700)
        for txid in (3, 5, 9):
            image(root / "current", txid, "aa" * 16)
        for name in (segment_name(4, 5), segment_name(6, 9), PROVENANCE):
            (root / "current" / name).write_text(name)
        for year in range(2020, 2020 + KEPT):
            (root / LOST_PAST / f"{year}0101T000000.000000Z").mkdir(parents=True)
    return {name: content for name, content in files(root / "current").items() if name not in ("VERSION", "seen_txid")}


def copied(source: Path, target: Path) -> str:
    """Copy directories; files that are links of each other remain links."""
    shutil.copytree(source, target, copy_function=os.link)
    return str(target)


@pytest.mark.parametrize("links", [True, False])
def test_whole_lost_past_is_in_one_folder_after_two_kills(tmp_path: Path, links: bool) -> None:
    ours = prepare(tmp_path / "before")
    steps = record(start_over, copied(tmp_path / "before", tmp_path / "recorded"), links)
    assert {"link" if links else "rename", "unlink", "mkdir", "fsync"} <= set(steps)
    for first in sample(list(kills(steps)), 4, "start over once"):
        folder = copied(tmp_path / "before", tmp_path / "once")
        kill(first, start_over, folder, links)
        again = record(start_over, copied(tmp_path / "once", tmp_path / "recorded-again"), links)
        shutil.rmtree(tmp_path / "recorded-again")
        (second,) = chosen(list(kills(again)), 1, f"start over after {first}")
        kill(second, start_over, folder, links)
        # in a child, because it may patch `Path`
        record(start_over, folder, links)
        check(Path(folder), ours)
        shutil.rmtree(folder)


def check(folder: Path, ours: dict[str, bytes]) -> None:
    names = set()
    for root in roots_of(folder):
        oldest, *_, aside = folders = folders_aside(root)
        # a kill may prevent the removal of an older folder
        assert len(folders) in (KEPT, KEPT + 1)
        assert oldest.name.startswith("2020")
        assert files(aside) == ours
        assert set(files(root / "current")) == {"VERSION", "seen_txid", THEIRS, md5_name(THEIRS)}
        assert is_theirs(root / "current" / THEIRS)
        assert not (root / "current" / START_OVER).exists()
        assert CAUSE in (aside / START_OVER).read_text()
        names.add(aside.name)
    assert len(names) == 1
