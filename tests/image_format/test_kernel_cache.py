"""Kernels work even if they cannot be stored on disk; each case runs in a separate process with a fresh cache."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import CodeType

import numpy as np
import pytest
from numba import version_info

from image_format.kernels.jit import _TESTED_NUMBA, Kernel, made_of
from tests.image_format.kernel_folders import FOLDERS, ROOT

KERNEL = """
from image_format.kernels.jit import kernel

@kernel
def double(x):
    return 2 * x
"""
LINKED = """
from image_format.kernels.jit import kernel

@kernel
def doubled(values):
    return 2 * values

@kernel
def total(values):
    return doubled(values).sum()
"""
BOUNDED = """
from hadoop_common import process_memory
from kept import double

process_memory._SLACK = 0
with process_memory.bounded_memory(8 << 20):
    assert double(21) == 42
    assert double(2.5) == 5
    kept = bytearray(1 << 20)
    try:
        bytearray(1 << 28)
    except MemoryError:
        print("bounded")
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


def ran(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that imports modules of `folder` and keeps its kernels there."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
    }
    words = [sys.executable, "-c", program]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_a_kernel_is_recompiled_if_its_dependencies_changed(tmp_path: Path) -> None:
    """The kernel receives a number from another folder through a kernel that it calls."""
    for folder in ("kernels", "elsewhere"):
        (tmp_path / folder).mkdir()
    step, kernel = "from elsewhere.factors import FACTORS\n", "from kernels.a_step import scaled\n"
    head = "from image_format.kernels.jit import kernel\n"
    (tmp_path / "kernels/a_step.py").write_text(f"{head}{step}@kernel\ndef scaled(x):\n    return FACTORS.of_x * x\n")
    (tmp_path / "kernels/a_kernel.py").write_text(f"{head}{kernel}@kernel\ndef times(x):\n    return scaled(x)\n")
    for factor in (2, 30):
        named = f"from collections import namedtuple\nFACTORS = namedtuple('Factors', 'of_x')({factor})\n"
        (tmp_path / "elsewhere/factors.py").write_text(named)
        program = f"from kernels.a_kernel import times\nassert times(21) == {21 * factor}\n"
        found = ran(tmp_path, program)
        assert found.returncode == 0, found.stderr


@pytest.mark.skipif(
    version_info.short != _TESTED_NUMBA,
    reason="with other versions of Numba, their own cache is used, which loads the compiler",
)
def test_a_kernel_on_disk_is_loaded_without_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KERNEL)
    # modules that Numba loads for every compilation, and for kernels that were compiled in this process
    program = (
        "from kept import double\nassert double(21) == 42\nimport sys\n"
        "print(any(f'numba.{name}' in sys.modules for name in ('np.polynomial', 'np.arrayobj')))"
    )
    reported = [ran(tmp_path, program).stdout.strip() for _ in range(2)]
    assert reported == ["True", "False"]


@pytest.mark.deep
def test_a_compiled_kernel_can_call_a_kernel_loaded_from_disk(tmp_path: Path) -> None:
    """The kernel's arguments and result are arrays, so a loaded kernel needs Numba's runtime support for arrays."""
    (tmp_path / "kept.py").write_text(LINKED)
    kept = "import numpy as np\nfrom kept import doubled, total\nassert doubled(np.arange(3)).tolist() == [0, 2, 4]\n"
    for program in (kept, f"{kept}assert total(np.arange(3)) == 6\nassert total(np.ones(2)) == 4", kept):
        found = ran(tmp_path, program)
        assert found.returncode == 0, found.stderr


@pytest.mark.deep
def test_a_memory_limit_does_not_apply_to_the_compiler(tmp_path: Path) -> None:
    """LLVM ends the process if memory is exhausted."""
    (tmp_path / "kept.py").write_text(KERNEL)
    found = ran(tmp_path, BOUNDED)
    assert (found.returncode, found.stdout) == (0, "bounded\n"), found.stderr


def _kernels() -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.py")):
            module = import_module(f"{folder.replace('/', '.')}.{path.stem}")
            found |= {
                f"{value.__module__}.{name}": value for name, value in vars(module).items() if type(value) is Kernel
            }
    return found


def test_the_stamp_of_a_kernel_covers_all_its_dependencies() -> None:
    """The stamp depends on the values themselves, but only on the names of modules and functions."""
    reported = (bool, int, float, str, bytes, np.generic, np.ndarray, tuple, type(None))
    for name, kernel in _kernels().items():
        function = kernel.py_func
        assert made_of(function)
        assert not any(isinstance(each, CodeType) for each in function.__code__.co_consts), (
            f"{name} contains a function"
        )
        assert not function.__closure__, f"{name} has a closure"
        for each in set(function.__code__.co_names) & function.__globals__.keys():
            value = function.__globals__[each]
            module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            beside = value is np or module.startswith("numpy") or module.rpartition(".")[0].replace(".", "/") in FOLDERS
            assert isinstance(value, (Kernel, np.ndarray)) or callable(value) or " at 0x" not in repr(value), (
                f"{name}: {each}"
            )
            assert isinstance(value, (Kernel, *reported)) or beside, (
                f"{name} uses {each}, which is missing from its stamp"
            )


@pytest.mark.deep
def test_kernels_are_stored_with_an_untested_numba_version_too(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KERNEL)
    program = (
        "from image_format.kernels import jit\njit._TESTED_NUMBA = (0, 0)\nfrom kept import double\n"
        "assert double(21) == 42\nprint(sum(double.dispatcher.stats.cache_hits.values()))"
    )
    reported = [ran(tmp_path, program).stdout.strip() for _ in range(2)]
    assert reported == ["0", "1"]


@pytest.mark.parameters(1)
@pytest.mark.parametrize("fault", ["", FULL_DISK, NO_FOLDER], ids=["kept", "full disk", "no folder"])
def test_a_kernel_runs_even_if_it_cannot_be_stored(tmp_path: Path, fault: str) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "a_kernel.py").write_text(KERNEL)
    program = f"{fault}\nfrom a_kernel import double\nassert double(21) == 42\n"
    found = ran(tmp_path, program)
    assert found.returncode == 0, found.stderr
    assert bool(list(cache.rglob("*.nbc"))) == (not fault)
    assert ("cannot be stored" in found.stderr) == (fault == FULL_DISK)
