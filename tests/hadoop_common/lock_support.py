"""A process that holds the lock of a storage directory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hadoop_common.storage_info import NAME_NODE

_ROOT = Path(__file__).parents[2]
_HOLD = """
import sys
from pathlib import Path
from hadoop_common.storage_lock import StorageLock
with StorageLock(Path(sys.argv[1]), of=sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(directory: Path, of: str = NAME_NODE) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that holds the lock of a `directory` of a node of kind `of` until its input ends."""
    command = [sys.executable, "-c", _HOLD, str(directory), of]
    process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        process.stdout.close()
