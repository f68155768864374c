"""Reading a stored kernel returns the requested code or no code."""

from __future__ import annotations

import importlib.util
import linecache
import shutil
from pathlib import Path
from typing import Any

import pytest

SOURCE = """
from image_format.kernels.jit import kernel

@kernel
def scaled(value):
    return value * {factor}
"""


def scaled_by(folder: Path, factor: int) -> Any:
    """Return the kernel of a module with this factor, as in a new process."""
    path = folder / "a_kernel.py"
    path.write_text(SOURCE.format(factor=factor))
    # Python considers a source unchanged if its size and its modification time in seconds are the same
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location("a_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scaled


def kept(folder: Path, ending: str) -> list[Path]:
    return sorted((folder / "__pycache__").glob(f"a_kernel.scaled-*.{ending}"))


def hits(kernel: Any) -> int:
    return sum(kernel.dispatcher.stats.cache_hits.values())


def test_code_compiled_from_other_sources_is_removed_unread(tmp_path: Path) -> None:
    assert scaled_by(tmp_path, 2)(21) == 42
    (old,) = kept(tmp_path, "nbc")
    assert scaled_by(tmp_path, 3)(21) == 63
    (new,) = kept(tmp_path, "nbc")
    assert old.name != new.name
    # an index was written, but its data was not, for example because the process was killed between the two
    new.unlink()
    shutil.copy(kept(tmp_path, "nbi")[0], tmp_path / "index")
    assert scaled_by(tmp_path, 2)(21) == 42
    shutil.copy(tmp_path / "index", kept(tmp_path, "nbi")[0])
    again = scaled_by(tmp_path, 3)
    assert (again(21), hits(again)) == (63, 0)


def test_code_for_other_types_is_not_used(tmp_path: Path) -> None:
    scaled = scaled_by(tmp_path, 2)
    assert (scaled(21), scaled(1.5)) == (42, 3.0)
    whole, fraction = kept(tmp_path, "nbc")
    shutil.copy(whole, fraction)
    again = scaled_by(tmp_path, 2)
    assert (again(1.5), hits(again)) == (3.0, 0)
    # the kernel was stored again
    last = scaled_by(tmp_path, 2)
    assert (last(1.5), last(21), hits(last)) == (3.0, 42, 2)


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"\x80\x05nothing", b"\x00" * 64])
def test_a_damaged_file_counts_as_a_missing_one(tmp_path: Path, ending: str, damage: bytes) -> None:
    assert scaled_by(tmp_path, 2)(21) == 42
    kept(tmp_path, ending)[0].write_bytes(damage)
    damaged = scaled_by(tmp_path, 2)
    assert (damaged(21), hits(damaged)) == (42, 0)
    healed = scaled_by(tmp_path, 2)
    assert (healed(21), hits(healed)) == (42, 1)
