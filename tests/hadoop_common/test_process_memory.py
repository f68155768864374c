"""Freed memory returns to the system."""

from __future__ import annotations

import subprocess
import sys

_MIB = 1 << 20
# Allocates blocks of 1 MiB, keeps only the last block, and prints how much memory the process has released.
_PROGRAM = """
import psutil
from hadoop_common.process_memory import return_large_blocks
{call}
bytearray(24 << 20)
blocks = [bytearray(1 << 20) for _ in range(64)]
full = psutil.Process().memory_info().rss
del blocks[:-1]
print(full - psutil.Process().memory_info().rss)
"""


def _returned(call: str) -> int:
    program = _PROGRAM.format(call=call)
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def test_freed_large_blocks_return_to_the_system_below_a_used_one() -> None:
    assert _returned("return_large_blocks()") > 60 * _MIB
    assert _returned("") < 60 * _MIB
