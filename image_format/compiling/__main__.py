"""Background compiler (see `background`), which compiles the kernels that it reads from its standard input."""

from __future__ import annotations

import os
import resource
import select
import socket
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

from hadoop_common.process_tuning import lower_session_priority
from image_format.compiling.mode import UNTIL

_IDLE: Final = 10.0
"""The compiler exits after this number of seconds without a request."""
_MAX_MESSAGE: Final = 1 << 18
_NICE: Final = 19


def _be_last() -> None:
    """Use only idle processors, let the OOM killer end this process first, and lift the memory limit."""
    with suppress(OSError):
        os.nice(_NICE)
    lower_session_priority(os.getpid(), _NICE)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _end_with(process: int) -> None:
    """Exit when `process` ends; stored kernels remain, and the next process requests all other kernels again."""
    with suppress(OSError):
        select.select([os.pidfd_open(process)], [], [])
    os._exit(0)


def main() -> None:
    """Compile until no more requests arrive, or until the process of `CHECKPOINTER_KERNELS_UNTIL` ends."""
    _be_last()
    if until := os.environ.get(UNTIL):
        threading.Thread(target=_end_with, args=(int(until),), daemon=True).start()
    import pickle

    from image_format.compiling.background import Request

    with socket.socket(fileno=0) as requests:
        requests.settimeout(_IDLE)
        with suppress(OSError):
            while message := requests.recv(_MAX_MESSAGE):
                request = Request(*pickle.loads(message))
                with suppress(Exception):
                    # A kernel that cannot be compiled raises the error again when it is called.
                    getattr(import_module(request.module), request.name).dispatcher.compile(request.signature)


if __name__ == "__main__":
    main()
