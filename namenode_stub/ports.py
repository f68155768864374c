"""Chooses loopback ports on which servers can restart; only one demo or test on this machine uses each port.

The ports are outside the kernel's range for outgoing connections. Nothing listens on a port before its server starts,
or between two starts. Therefore, an abstract Unix socket marks each chosen port. The mark disappears with the process.
"""

from __future__ import annotations

import random
import socket
from collections import deque

_LOOPBACK = "127.0.0.1"
_PORTS = range(12000, 32000)
_MAX_MARKS = 400
_CHOICE = random.SystemRandom()
_marks: deque[socket.socket] = deque()


def free_port() -> int:
    """Return an unused port; the port stays marked until this process has chosen 400 others."""
    while (mark := _mark(port := _CHOICE.choice(_PORTS))) is None:
        pass
    _marks.append(mark)
    while len(_marks) > _MAX_MARKS:
        _marks.popleft().close()
    return port


def _mark(port: int) -> socket.socket | None:
    """Mark a port and return the mark, or None if a process has marked or bound the port."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0hdfs-checkpointer-port-{port}")
        with socket.socket() as probe:
            probe.bind((_LOOPBACK, port))
    except OSError:
        mark.close()
        return None
    return mark
