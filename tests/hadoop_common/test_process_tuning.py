"""Priorities of threads and sessions: lowering a priority affects only that thread or session."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from hadoop_common.process_tuning import LARGE_WORK, lower_session_priority, lower_thread_priority


def test_only_the_calling_thread_gets_a_low_priority_for_large_work() -> None:
    """A thread with little work keeps its priority, because other threads may wait for its interpreter lock."""
    before = os.nice(0)
    found: list[int] = []

    def work() -> None:
        for size in (LARGE_WORK - 1, LARGE_WORK):
            lower_thread_priority(size)
            found.append(os.nice(0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, min(before + 10, 19)]
    assert os.nice(0) == before


def session_niceness(process: int) -> str:
    """Return the niceness of a process's session, or "" if there is none."""
    group = Path(f"/proc/{process}/autogroup")
    return group.read_text().rpartition(" ")[2].strip() if group.exists() else ""


def test_priority_of_another_session_is_lowered() -> None:
    own = session_niceness(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    before = session_niceness(child.pid)
    lower_session_priority(child.pid, 7)
    found = session_niceness(child.pid)
    child.communicate(b"\n")
    # a process of the first session of a machine has no group; its child in a new session may have a group
    assert (before, found) in (("0", "7"), ("", ""))
    assert session_niceness(os.getpid()) == own
    # a process that has ended
    lower_session_priority(child.pid, 8)


def test_priority_of_the_own_session_is_not_lowered() -> None:
    own = session_niceness(os.getpid())
    program = "import os, hadoop_common.process_tuning as t; t.lower_session_priority(os.getpid(), 3)"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert session_niceness(os.getpid()) == own
