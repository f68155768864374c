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


def ended_after_sigquit(work: str, *, closes_stderr: bool = False) -> tuple[int, str]:
    """Send SIGQUIT, then SIGTERM, to a process that has printed a line; return its exit code and its errors."""
    command = [sys.executable, "-c", BEGIN + work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        try:
            assert running.stdout.readline() == "begun\n"
            if closes_stderr:
                running.stderr.close()
            # Python handles pending signals in the order of their numbers, so SIGQUIT is first
            running.send_signal(signal.SIGQUIT)
            running.terminate()
            reported = "" if closes_stderr else running.stderr.read()
            return running.wait(WAIT), reported
        finally:
            running.kill()


def test_sigquit_prints_the_stacks_of_all_threads() -> None:
    """Operators send this signal to Hadoop's daemons, which then continue."""
    work = """
waits = threading.Event()

def waiting_for_the_disk():
    waits.set()
    hang.acquire()

threading.Thread(target=waiting_for_the_disk, daemon=True).start()
waits.wait()
with Control(600.0) as control:
    print("begun", flush=True)
    control.wait_for_stop()
"""
    code, reported = ended_after_sigquit(work)
    assert code == 0
    assert " in waiting_for_the_disk\n" in reported
    assert " in wait_for_stop\n" in reported or " in <module>\n" in reported


def test_sigquit_without_a_reader_of_stderr_does_not_end_the_process() -> None:
    work = """
with Control(600.0) as control:
    print("begun", flush=True)
    control.wait_for_stop()
"""
    assert ended_after_sigquit(work, closes_stderr=True) == (0, "")
