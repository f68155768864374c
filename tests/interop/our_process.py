"""One of our programs in a separate process: start, wait, stop and kill."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.interop.hadoop_process import OPENER, wait_until

STOP_SECONDS = 600.0


class OurProcess:
    """A program whose log grows across restarts.

    Args:
        what: name of the program in errors.
    """

    def __init__(self, what: str, log: Path) -> None:
        self.log = log
        self._what = what
        self._process: subprocess.Popen[bytes] | None = None
        # whether `stop` or `kill` ended the process, or is ending it
        self._ended = False

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def crashed(self) -> bool:
        """Whether the process ended without `stop` and `kill`."""
        return self._process is not None and not self.running and not self._ended

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self, command: Sequence[str | Path]) -> None:
        words = list(map(str, command))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._ended = False

    def await_ready(self, ready: Callable[[], object]) -> None:
        """Wait until `ready` is true; an OSError counts as false.

        Raises:
            AssertionError: the process ended.
        """

        def is_ready() -> bool:
            assert self.running, f"{self._what} ended: {self.log.read_text()[-3000:]}"
            try:
                return bool(ready())
            except OSError:
                return False

        wait_until(is_ready, self._what)

    def stop(self) -> int:
        """Stop the program with SIGTERM and return its exit code."""
        assert self._process is not None
        self._ended = self._ended or self.running
        self._process.terminate()
        return self._process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """Kill the program with SIGKILL."""
        assert self._process is not None
        self._ended = self._ended or self.running
        self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)


def status_of(url: str) -> dict[str, Any]:
    """Return the response to GET /status."""
    with OPENER.open(f"{url}/status", timeout=600) as answer:
        values: dict[str, Any] = json.load(answer)
    return values
