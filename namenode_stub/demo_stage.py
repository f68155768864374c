"""What every demo has: processes of this machine with their logs in a scratch directory, and waiting for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests
from rich.console import Console

_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.1


class DemoError(Exception):
    """A demo did not go as it should; the message says what was waited for."""


@dataclass
class Stage:
    """Where one run of a demo takes place."""

    scratch: Path
    console: Console
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_process(self, name: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a module; what it prints is added to `NAME.log`."""
        with (self.scratch / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def run_process(self, module: str, *arguments: str) -> None:
        """Run a module to its end.

        Raises:
            DemoError: it failed.
        """
        done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DemoError(f"{module} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")

    def stop_all(self) -> None:
        """End whatever runs, in order where that takes no longer than 10 s."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                # one that is frozen cannot end
                process.send_signal(signal.SIGCONT)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait(self, what: str, reached: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
        """Until `reached`.

        Raises:
            DemoError: it took a minute, or `process` ended.
        """
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not reached():
            if process is not None and process.poll() is not None:
                raise DemoError(f"waited for {what}, but the process ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {_TIMEOUT_SECONDS:g} s in vain for {what}")
            time.sleep(_POLL_SECONDS)


def tree(url: str) -> list[dict[str, Any]]:
    """All inodes of the NameNode stub at `url`, which is active."""
    with requests.get(f"{url}/namespace/tree", timeout=60, stream=True) as response:
        return [json.loads(line) for line in response.iter_lines()]


def kill(process: subprocess.Popen[bytes]) -> None:
    """With SIGKILL; it is gone when this returns."""
    process.kill()
    process.wait()


S = TypeVar("S", bound=Stage)


def tell(stage: Callable[[Path, Console], S], story: Callable[[S], None], end: str) -> None:
    """Run a story in a scratch directory, which ends with the word `end`; exit 1 with the logs' ends where it fails."""
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="checkpointer-demo-") as scratch:
        there = stage(Path(scratch), console)
        try:
            story(there)
        except DemoError as error:
            console.print(f"[red]failed:[/] {error}")
            for log in sorted(there.scratch.glob("*.log")):
                console.print(f"--- end of {log.name}")
                console.print(log.read_text(errors="replace")[-3000:], markup=False)
            sys.exit(1)
        finally:
            there.stop_all()
    console.print(f"[green]done[/] in {time.monotonic() - started:.0f} s: {end}")
