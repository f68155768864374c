"""Without the libraries of the extra `spark`, as in the Debian package, each command reports one error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hadoop_common.extras import install_hint
from tests.recorded_cases import RECORDED, Case

IMAGE = Case(RECORDED / "hadoop-3.4.1" / "renames").image("before")
WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys(("pyspark", "pyarrow", "deltalake")))
from checkpointer.cli import main
main()
"""


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("report", IMAGE), "PySpark"),
        (("export", IMAGE, "OUT"), "PySpark"),
        (("lake", "append", "--image", IMAGE, "LAKE"), "PyArrow"),
        (("lake", "list", "LAKE"), "PyArrow"),
        (("lake", "optimize", "LAKE"), "PyArrow"),
        (("lake", "report", "LAKE"), "PyArrow"),
    ],
)
def test_a_missing_library_is_one_error(words: tuple[str | Path, ...], missing: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, *map(str, words)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"checkpointer: {missing} is not installed", f"  next: {install_hint('spark')}"]
    assert list(tmp_path.iterdir()) == []
