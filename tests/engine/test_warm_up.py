"""`checkpointer compile` compiles all kernels that a first checkpoint or count requires, for every role and image."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_first_checkpoint_compiles_no_kernels(tmp_path: Path) -> None:
    """The checkpoint runs in a separate process, because this process may have compiled kernels before."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.checkpointer.first_checkpoints"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    compiled = json.loads(ended.stdout)
    assert {"secondary", "standby", "standby, in progress", "backup"} <= compiled.keys()
    assert {name: kernels for name, kernels in compiled.items() if kernels} == {}
