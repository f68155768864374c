"""A short `make demo-ha`: clients write, the active stub is killed, and the standby becomes active automatically."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from namenode_stub.demo_ha import FAILURES, HaDemo, run
from namenode_stub.demo_zookeeper import MISSING
from tests.depth import scaled

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.mark.deep
def test_automatic_failover_loses_no_acknowledged_change(tmp_path: Path) -> None:
    demo = HaDemo(tmp_path, Console(file=io.StringIO(), width=200))
    happenings = FAILURES[: scaled(len(FAILURES), 1)]
    try:
        run(demo, happenings)
    finally:
        demo.stop_all()
    assert [gap.what for gap in demo.gaps] == [each[0] for each in happenings]
    assert all(gap.milliseconds > 0 for gap in demo.gaps)
    assert isinstance(demo.console.file, io.StringIO)
    reported = demo.console.file.getvalue()
    assert f" {demo.gaps[0].milliseconds} ms without an acknowledgement" in reported
    fenced = demo.site.fence_log.read_text().splitlines()
    # a NameNode that answers is asked to stand down; other NameNodes are fenced, which is more frequent on a busy
    # machine
    assert len(fenced) >= sum(each[0] != "asked" for each in happenings)
    assert all(process.poll() is not None for process in demo.processes)
