"""An append in a separate process, which SIGKILL ends before one of its steps in the lake."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pipeline.lake import append_edits
from pipeline.lake.files import HadoopFiles
from pipeline.session import build_session


def main(edits: str, root: str, step: int) -> None:
    """Kill this process before step `step` (from 0) of those that change the lake."""
    left = step

    def counted(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return method(*arguments)

        return call

    for name in ("_rename", "remove"):
        setattr(HadoopFiles, name, counted(getattr(HadoopFiles, name)))
    append_edits(build_session(master="local[1]"), edits, root)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
