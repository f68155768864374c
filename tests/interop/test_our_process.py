"""Programs of the tests in separate processes."""

from __future__ import annotations

from pathlib import Path

from tests.interop.hadoop_process import wait_until
from tests.interop.our_process import OurProcess


def test_a_program_that_ends_by_itself_has_crashed(tmp_path: Path) -> None:
    process = OurProcess("program", tmp_path / "log")
    assert not process.crashed
    for end in (process.stop, process.kill):
        process.spawn(["sleep", "600"])
        assert not process.crashed
        end()
        assert not process.crashed
    process.spawn(["false"])
    wait_until(lambda: not process.running, "the end")
    assert process.stop() == 1
    assert process.crashed
