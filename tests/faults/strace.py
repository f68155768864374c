"""Injects error codes into the system calls of a running process with strace."""

from __future__ import annotations

import functools
import os
import re
import selectors
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_ATTACH_SECONDS = 600.0
_LINE = re.compile(r"(\d+) +(\w+)\((.*)")
_SETUP = "run `make interop-setup`"
# placeholder in listed calls, which never occurs in the paths of a test
_PID = "{pid}"


class MissingStraceError(Exception):
    """The lack of a usable strace; the message gives the reason in one sentence."""


@dataclass(frozen=True)
class Call:
    """A system call of a process: call `number` (from 1) among the calls of its thread with this name and `path`.

    strace counts per thread, so another thread that makes the same call also receives the fault.

    `path` may contain "{pid}" for the id of the process.
    """

    name: str
    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}-{self.number}-{self.path.rpartition('/')[2]}"


@functools.cache
def strace_program() -> str:
    """Return the path of strace if it is installed and may trace our children.

    Raises:
        MissingStraceError: strace is missing, or the system does not allow tracing.
    """
    program = shutil.which("strace")
    if program is None:
        raise MissingStraceError(f"strace is not installed; {_SETUP}")
    tried = subprocess.run([program, "-o", os.devnull, "-e", "trace=none", "true"], capture_output=True, check=False)
    if tried.returncode:
        raise MissingStraceError(f"strace may not trace here: {tried.stderr.decode(errors='replace').strip()}")
    return program


@contextmanager
def traced(pid: int, root: Path, log: Path) -> Iterator[Callable[[], list[Call]]]:
    """Trace the process while the context is open; afterwards, the yielded function returns the calls of the process on
    files below `root`.
    """
    with _attached(pid, log, "-y", "-s", "1000", "-e", "trace=%file,%desc"):
        yield lambda: list(_calls(log.read_text(errors="replace"), str(root), pid))


@contextmanager
def injected(pid: int, call: Call, error: str, log: Path) -> Iterator[Callable[[], int]]:
    """Make `call` of the process fail with `error` while the context is open; the yielded function counts the
    failures.
    """
    path = call.path.replace(_PID, str(pid))
    tamper = f"inject={call.name}:error={error}:when={call.number}"
    with _attached(pid, log, "-P", path, "-e", f"trace={call.name}", "-e", tamper):
        yield lambda: log.read_text(errors="replace").count("(INJECTED)")


@contextmanager
def _attached(pid: int, log: Path, *options: str) -> Iterator[None]:
    """Run strace on the process until the process ends; the body of the context must wait for this end."""
    command = [strace_program(), "-f", "-o", str(log), *options, "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            _wait_until_attached(process.stderr)
        except BaseException:
            process.kill()
            raise
        yield
        process.communicate(timeout=_ATTACH_SECONDS)


def _wait_until_attached(stream: IO[bytes]) -> None:
    reported = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while b"attached" not in reported:
            part = os.read(stream.fileno(), 4096) if selector.select(_ATTACH_SECONDS) else b""
            assert part, f"strace does not attach: {reported.decode(errors='replace')}"
            reported += part


def _calls(text: str, root: str, pid: int) -> Iterator[Call]:
    inside = re.compile(rf"""["<]({re.escape(root)}(?:/[^">]*)?)[">]""")
    seen: Counter[tuple[str, str, str]] = Counter()
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, name, rest = match.groups()
        paths = list(dict.fromkeys(inside.findall(rest)))
        seen.update((thread, name, path) for path in paths)
        if paths:
            yield Call(name, paths[0].replace(str(pid), _PID), seen[thread, name, paths[0]])
