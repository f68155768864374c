"""A warm namespace on a small image, and edits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.warm_namespace import WarmNamespace
from journal.ops import EditOp
from tests.engine.image_builder import ImageBuilder, numbered
from tests.engine.op_makers import delete, mkdir, rename

STEPS: list[list[EditOp]] = [
    [mkdir("/a", 20001), mkdir("/a/b", 20002)],
    [rename("/a/b", "/c"), mkdir("/d", 20003)],
    [delete("/c")],
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    return ImageBuilder(-67).save(folder)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture
def warm(base: Path) -> Iterator[WarmNamespace]:
    with WarmNamespace() as namespace:
        namespace.load(base)
        yield namespace


def play(warm: WarmNamespace, ops: list[EditOp]) -> list[EditOp]:
    given = list(numbered(ops, warm.last_txid))
    assert warm.apply(given) == len(given)
    return given


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()
