"""Commands start fast: they load a module only when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "pyspark", "pyarrow", "requests", "flask", "apscheduler", "h11")

COMMANDS = (
    "",
    "check",
    "checkpoint",
    "merge",
    "run",
    "status",
    "fetch-image",
    "compile",
    "image verify",
    "journalnode run",
    "zkfc run",
)

PROGRAM = f"""
import sys
sys.argv = ["checkpointer", *sys.argv[1:]]
from checkpointer.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
print([name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_no_large_modules(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split(), "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage:" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


def test_commands_without_a_request_do_not_load_the_http_client() -> None:
    program = (
        "import sys, checkpointer.cli.check_command, checkpointer.cli.merge_command, hadoop_rpc.spnego\n"
        "assert not {'requests', 'urllib3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
