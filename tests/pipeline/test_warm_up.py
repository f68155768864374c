"""`checkpointer compile` compiles all kernels that tables and reports need, for every image."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.pipeline.first_report import CASES

ROOT = Path(__file__).parents[2]


def test_the_first_report_compiles_no_kernels(tmp_path: Path) -> None:
    """The report runs in a separate process, since this process may have compiled kernels before."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.first_report"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {case: [] for case in CASES}
