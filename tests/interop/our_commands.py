"""Our commands as an operator runs them, with JSON output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop.hadoop_conf import HadoopConf

CHECKOUT = (sys.executable, "-m", "checkpointer")
"""The command that runs the checkpointer of this working tree."""


def cli(*words: str | Path, code: int = 0, program: Sequence[str] = CHECKOUT) -> dict[str, Any]:
    """Return the output of `checkpointer WORDS --json`, which must exit with `code`."""
    command = [*program, *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == code, (done.stdout + done.stderr).decode("utf-8", "replace")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def check(conf: HadoopConf, *options: str, code: int = 0) -> dict[str, str]:
    answer = cli("check", "--conf", conf.folder, *options, code=code)
    assert answer["exitCode"] == code
    return {each["name"]: each["state"] for each in answer["checks"]}
