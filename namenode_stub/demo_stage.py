"""Common parts of the demos: processes with logs in a scratch directory, and waiting for states.

A demo waits for states instead of a fixed time (`demo_progress`), and reports the awaited state during a long wait. A
failed demo prints a sentence and keeps its scratch directory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from hadoop_common.cli.output import next_line
from hadoop_common.cluster_http import open_request, send_request
from hadoop_common.errors import HdfsError
from image_format.compiling.mode import UNTIL
from namenode_stub.demo_progress import SILENCE_SECONDS, ProgressWatch

_POLL_SECONDS = 0.1
# interval of messages during a wait
_SAY_SECONDS = 20.0
# a working server is silent for this long only if the machine was suspended
HTTP_SECONDS = 600.0


class DemoError(Exception):
    """Failure of a demo; the message states what was expected."""


@dataclass(frozen=True, slots=True)
class RunningModule:
    """A module started by a demo.

    Attributes:
        words: the call without options and paths.
        log, out: files for standard error and standard output.
    """

    words: str
    process: subprocess.Popen[bytes]
    log: Path
    out: Path


@dataclass
class DemoStage:
    """The scratch directory, console and processes of one demo run."""

    scratch: Path
    console: Console
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_process(self, name: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a module; its output is appended to `NAME.log`."""
        with (self.scratch / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def run_process(
        self, module: str, *arguments: str, environment: Mapping[str, str] | None = None, accept: Collection[int] = (0,)
    ) -> tuple[int, str]:
        """Run a module until it ends; return its exit code and its standard output.

        Args:
            environment: additional variables.
            accept: exit codes of success.

        Raises:
            DemoError: the module failed.
        """
        return self.finish(self.begin(module, *arguments, environment=environment), accept)

    def begin(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> RunningModule:
        """Start a module that `finish` waits for."""
        words = " ".join([module, *takewhile(lambda word: word[0] not in "-/", arguments)])
        log = self.scratch / f"{words.replace(' ', '-')}.log"
        out = log.with_suffix(".out")
        with log.open("wb") as errors, out.open("wb") as output:
            command = [sys.executable, "-m", module, *arguments]
            process = subprocess.Popen(command, stdout=output, stderr=errors, env={**os.environ, **(environment or {})})
        self.processes.append(process)
        return RunningModule(words, process, log, out)

    def finish(self, running: RunningModule, accept: Collection[int] = (0,)) -> tuple[int, str]:
        """Wait for the end of a module; see `run_process`."""
        process = running.process
        self.wait(f"{running.words} to end", lambda: process.poll() is not None)
        self.processes.remove(process)
        if process.returncode not in accept:
            text = running.log.read_text(errors="replace")
            lines = [line for line in text.splitlines() if not line.startswith(next_line(""))]
            why = lines[-1] if lines else "it printed nothing"
            raise DemoError(f"{running.words} exited with code {process.returncode}: {why}")
        return process.returncode, running.out.read_text(errors="replace").rstrip()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Terminate a process; kill it if it does not end in time."""
        if process.poll() is None:
            process.terminate()
            # a stopped process cannot terminate
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(SILENCE_SECONDS)
            except subprocess.TimeoutExpired:
                kill(process)

    def stop_all(self) -> None:
        """Stop all processes in reverse order of their start, because a process may need processes that started
        earlier.
        """
        for process in reversed(self.processes):
            self.stop(process)

    def kill_all(self) -> None:
        for process in self.processes:
            kill(process)

    def wait(self, what: str, reached: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until `reached` returns True; abort after a minute without progress.

        Raises:
            DemoError: there was no progress for a minute, or `process` ended.
        """
        started = printed_at = time.monotonic()
        silence = ProgressWatch(self.scratch, lambda: [each.pid for each in self.processes], time.monotonic)
        while not reached():
            if process is not None and process.poll() is not None:
                raise DemoError(f"waited for {what}, but the process exited with code {process.returncode}")
            if silence.seconds() > SILENCE_SECONDS:
                raise DemoError(f"waited for {what}: no progress for {SILENCE_SECONDS:g} s")
            if time.monotonic() - printed_at > _SAY_SECONDS:
                printed_at = time.monotonic()
                self.console.print(f"  waiting for {what}, {printed_at - started:.0f} s so far")
            time.sleep(_POLL_SECONDS)


def tree(url: str) -> list[dict[str, Any]]:
    """Return all inodes of the active NameNode stub at `url`.

    Raises:
        OSError: the stub does not answer, or is not active.
    """
    with open_request("GET", f"{url}/namespace/tree", timeout=HTTP_SECONDS) as answer:
        if answer.status != HTTPStatus.OK:
            raise OSError(f"{url} answered with HTTP {answer.status} {answer.reason}")
        return [json.loads(line) for line in answer]


def perform(url: str, operation: str, **arguments: Any) -> None:
    """Perform an operation on the namespace of the active NameNode stub at `url`.

    Raises:
        DemoError: the operation is refused.
        OSError: the stub does not answer.
    """
    answer = send_request(
        "POST",
        f"{url}/namespace/{operation}",
        headers={"Content-Type": "application/json"},
        body=json.dumps(arguments).encode(),
        timeout=HTTP_SECONDS,
    )
    if answer.status != HTTPStatus.OK:
        raise DemoError(f"{operation} {arguments} was refused: {answer.text}")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with SIGKILL and wait for its end."""
    process.kill()
    process.wait()


S = TypeVar("S", bound=DemoStage)


def run_demo(
    stage: Callable[[Path, Console], S],
    story: Callable[[S], None],
    end: str,
    afterwards: Callable[[S], None] = lambda stage: None,
) -> None:
    """Run a demo in a scratch directory, print `end` and run `afterwards`.

    On failure, print a sentence and the location of the logs, and exit with code 1. SIGTERM ends the demo as Ctrl-C
    does. The function also ends background compilers that the demo's processes started.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ[UNTIL] = str(os.getpid())
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="checkpointer-demo-"))
    there = stage(scratch, console)
    try:
        story(there)
        there.stop_all()
        console.print(f"[green]done[/] in {time.monotonic() - started:.0f} s: {end}")
        afterwards(there)
        there.stop_all()
    except Exception as error:
        there.kill_all()
        if not isinstance(error, DemoError | HdfsError | OSError):
            raise
        console.print("[red]failed:[/]", end=" ")
        console.print(f"{error}; the logs are in {scratch}", markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        there.kill_all()
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    shutil.rmtree(scratch)
