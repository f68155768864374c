"""A process that holds the lock of the leading checkpointer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDER = """
import sys
from pathlib import Path
from checkpointer.leadership.lock_backend import FileLock
from checkpointer.leadership.leadership_state import Leader
backend = FileLock(Path(sys.argv[1]))
print(backend.ask(Leader(host="b", pid=2, role="standby", address="b:9870", since=2.0))[0].name, flush=True)
sys.stdin.read()
"""


@contextmanager
def leading_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run another process that holds the lock on `path` as `OTHER`."""
    command = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ACQUIRED\n"
        yield process
        process.kill()
