"""Peak anonymous memory of a child process: what it holds apart from mapped file pages."""

from __future__ import annotations

import json
import subprocess

import psutil

_POLL_SECONDS = 0.005


def run_measured(command: list[str]) -> dict[str, float]:
    """Run a command that prints a JSON object of numbers; adds `anonymous`, its peak in bytes.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        peak = 0
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                memory = process.memory_info()
                peak = max(peak, memory.rss - memory.shared)
                child.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            except psutil.NoSuchProcess:
                break
        assert child.stdout is not None
        output = child.stdout.read()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return {**json.loads(output), "anonymous": peak}
