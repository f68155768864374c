"""Stubs in scratch directories, and helpers of their tests."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.tls.settings import WebAddresses
from namenode_stub.config import StubConfig
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub

DEADLINE_SECONDS = 600.0


def uris(*directories: Path) -> tuple[str, ...]:
    return tuple(directory.as_uri() for directory in directories)


def stub_config_for(root: Path, **changes: Any) -> StubConfig:
    """Configure one name directory and a shared edits directory below `root`; nothing runs automatically."""
    config = StubConfig(
        image_directories=(root / "name",),
        edits=uris(root / "name", root / "shared"),
        shared_edits=(root / "shared").as_uri(),
        web=WebAddresses(("127.0.0.1", 0)),
        checkpoint_period=3600.0,
        checkpoint_transactions=10,
        roll_transactions=1_000_000,
        roll_period=0.0,
        images_retained=2,
        extra_edits_retained=0,
        max_extra_segments=100,
    )
    return dataclasses.replace(config, **changes)


def formatted(root: Path, layout: int = -67, **changes: Any) -> StubConfig:
    config = stub_config_for(root, **changes)
    format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(layout))
    return config


def restarted_tree(config: StubConfig) -> list[Any]:
    with NameNodeStub(config) as stub:
        return stub.namespace.walk()


def wait_until(what: str, reached: Callable[[], bool]) -> None:
    """Poll a condition; the deadline only ends a hanging test."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not reached():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def copy_while_written(source: Path, target: Path) -> None:
    """Copy a storage directory as a crash would leave it; repeat the copy if a roll renames a file.

    Copy seen_txid first, because a copy takes time, and seen_txid must not include segments that began in the meantime.
    """
    while True:
        shutil.rmtree(target, ignore_errors=True)
        (target / "current").mkdir(parents=True)
        try:
            shutil.copy(source / "current" / "seen_txid", target / "current")
            for path in sorted((source / "current").iterdir()):
                if path.name != "seen_txid" and path.suffix != ".tmp":
                    shutil.copy(path, target / "current")
        except FileNotFoundError:
            continue
        return


def checkpoint_of(config: StubConfig, scratch: Path) -> Path:
    """Make an image of all finalized edits outside the stub's directory; return its file."""
    copy_while_written(config.image_directories[0], scratch)
    for unfinished in (scratch / "current").glob("edits_inprogress_*"):
        unfinished.unlink()
    (scratch / "current" / "seen_txid").write_text("0\n")
    return merge_directory(plan_directory(scratch)).saved.paths[0]


def write_edits(stub: NameNodeStub, label: str, count: int = 10) -> None:
    """Write a segment that creates `count` directories."""
    for number in range(count):
        stub.namespace.mkdirs(f"/{label}/{number}")
    stub.active.roll()
