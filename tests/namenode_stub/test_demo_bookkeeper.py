"""`make demo-bookkeeper`: a bookie and the stub are killed under load, and no acknowledged change is lost."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from namenode_stub.demo import Demo
from namenode_stub.demo_bookkeeper import run
from namenode_stub.demo_zookeeper import MISSING

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(autouse=True)
def level_of_kazoo() -> Iterator[None]:
    logger = logging.getLogger("kazoo")
    before = logger.level
    yield
    logger.setLevel(before)


def test_kills_of_a_bookie_and_the_stub_lose_no_acknowledged_change(tmp_path: Path) -> None:
    printed = io.StringIO()
    demo = Demo(tmp_path, Console(file=printed, width=200))
    try:
        run(demo)
    finally:
        demo.kill_all()
    assert " acknowledged directories exist" in printed.getvalue()
