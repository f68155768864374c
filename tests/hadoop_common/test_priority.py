"""Only the thread that lowers its priority is affected."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from hadoop_common.process_tuning import lower_thread_priority


@pytest.mark.skipif(sys.platform != "linux", reason="niceness is the process's here")
def test_the_calling_thread_alone_steps_back() -> None:
    before = os.nice(0)
    found: list[int] = []

    def work() -> None:
        lower_thread_priority()
        found.append(os.nice(0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [min(before + 10, 19)]
    assert os.nice(0) == before
