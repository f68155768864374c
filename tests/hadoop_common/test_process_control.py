"""A process that must end, or whose start failed, ends within its time limit even if a part of the process hangs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAIT = 600

BEGIN = """
import faulthandler, signal, sys, threading
from hadoop_common.process_control import Control
from hadoop_common.errors import HdfsError

def no_threads(*_, **__):
    raise RuntimeError("unable to start watchdog thread")

hang = threading.Lock()
hang.acquire()
"""

TOLD = """
with Control(0.2):
    print("begun", flush=True)
    hang.acquire()
"""
# printing the traceback is slow on a slow machine
FAILED = """
with Control(3.0):
    threading.Thread(target=hang.acquire).start()
    raise HdfsError("the start failed")
"""
ENDED = """
with Control(0.2):
    threading.Thread(target=hang.acquire).start()
"""
WITHOUT_THREADS = "faulthandler.dump_traceback_later = no_threads"


@pytest.mark.parametrize(
    ("work", "code", "message"),
    [
        (TOLD, 1, "Timeout"),
        (FAILED, 1, "the start failed"),
        (ENDED, 1, "Timeout"),
        (WITHOUT_THREADS + TOLD, -signal.SIGALRM, ""),
    ],
)
def test_process_ends_even_if_a_part_of_it_hangs(work: str, code: int, message: str) -> None:
    command = [sys.executable, "-c", BEGIN + work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        if "begun" in work:
            assert running.stdout.readline() == "begun\n"
            running.terminate()
        try:
            _, reported = running.communicate(timeout=WAIT)
        finally:
            running.kill()
    assert (running.returncode, message in reported) == (code, True), reported


def test_sigquit_prints_the_stacks_of_all_threads() -> None:
    """Operators send this signal to Hadoop's daemons, which then continue."""
    work = """
def waiting_for_the_disk():
    hang.acquire()

threading.Thread(target=waiting_for_the_disk, daemon=True).start()
with Control(30.0) as control:
    print("begun", flush=True)
    control.wait_for_stop()
"""
    command = [sys.executable, "-c", BEGIN + work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stderr is not None
            assert running.stdout.readline() == "begun\n"
            running.send_signal(signal.SIGQUIT)
            while "waiting_for_the_disk" not in running.stderr.readline():
                assert running.poll() is None
            running.terminate()
            running.communicate(timeout=WAIT)
        finally:
            running.kill()
    assert running.returncode == 0
