"""Kernels work where nothing can be kept on disk; each case in a process of its own with a fresh cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
from image_format.kernels.jit import kernel

@kernel
def double(x):
    return 2 * x
"""
FULL_DISK = """
import errno
from numba.core.caching import IndexDataCacheFile

def refuse(self, name, data):
    raise OSError(errno.ENOSPC, "No space left on device")

IndexDataCacheFile._save_data = refuse
"""
NO_FOLDER = """
from numba.core.caching import CacheImpl

CacheImpl._locator_classes = []
"""


def test_a_kernel_is_recompiled_where_what_it_is_made_of_changed(tmp_path: Path) -> None:
    (tmp_path / "a_kernel.py").write_text(
        "from image_format.kernels.jit import kernel\nfrom a_step import FACTOR\n\n"
        "@kernel\ndef times(x):\n    return FACTOR * x\n"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]),
    }
    for factor in (2, 30):
        (tmp_path / "a_step.py").write_text(f"FACTOR = {factor}\n")
        program = f"from a_kernel import times\nassert times(21) == {21 * factor}\n"
        found = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("fault", ["", FULL_DISK, NO_FOLDER], ids=["kept", "full disk", "no folder"])
def test_a_kernel_runs_whether_it_is_kept_or_not(tmp_path: Path, fault: str) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "a_kernel.py").write_text(KERNEL)
    program = f"{fault}\nfrom a_kernel import double\nassert double(21) == 42\n"
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]),
    }
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert bool(list(cache.rglob("*.nbc"))) == (not fault)
    assert ("not kept" in found.stderr) == (fault == FULL_DISK)
