"""The memory that a process can use: free memory, and the limits of the process's control groups and their parents."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.available_memory import available_memory

FREE = 8 << 30


def available(tmp_path: Path, own: str, limits: dict[str, str]) -> int:
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {FREE >> 10} kB\nCached: 1 kB\n")
    (tmp_path / "own").write_text(own)
    for name, text in limits.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return available_memory(tmp_path / "meminfo", tmp_path / "own", tmp_path / "groups")


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("", {}, FREE),
        # version 2: the smallest limit up to the root; "max" is no limit
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.high": "3000", "a/memory.max": "4000"}, 3000),
        ("0::/a/b\n", {"other/memory.max": "5"}, FREE),
        # version 1: only the hierarchy of the memory controller
        ("5:cpu,cpuacct:/a\n4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "77", "cpu/a/memory.max": "5"}, 77),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": str((1 << 63) - 4096)}, FREE),
        # a container that does not contain the path of its group
        ("0::/docker/1\n", {"memory.max": "900"}, 900),
    ],
)
def test_smallest_memory_limit_applies(tmp_path: Path, own: str, limits: dict[str, str], expected: int) -> None:
    assert available(tmp_path, own, limits) == expected


def test_available_memory_is_unknown_without_system_files(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert available_memory(missing, missing, missing) == 0


def test_this_machine_reports_its_memory() -> None:
    assert available_memory() > 1 << 20
