"""A merge on Spark in a separate process that SIGKILL ends at one of its steps.

Usage: `python -m tests.pipeline.merge_child DIRECTORY STEP`, with a name of `STEPS`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from pipeline.merge import parallel_merger
from pipeline.session import build_session
from tests.pipeline.merge_support import merge_on_spark

_content = parallel_merger._content


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_after_one(part: Any) -> Iterator[bytes]:
    yield from _content(part)
    _die()


STEPS: dict[str, tuple[str, Callable[..., Any]]] = {
    "before-replay": ("pipeline.merge.checkpoint.replay", _die),
    "with-parts-made": ("pipeline.merge.parallel_merger._content", _die),
    "amid-joining": ("pipeline.merge.parallel_merger._content", _die_after_one),
    "before-the-rename": ("image_format.publish.rename_durably", _die),
}


if __name__ == "__main__":
    with mock.patch(*STEPS[sys.argv[2]]):
        build_session(master="local[2]")
        merge_on_spark(Path(sys.argv[1]))
