"""The socket loop survives faults of its tasks."""

from __future__ import annotations

import socket

import pytest

from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.socket_loop import Channel, SocketLoop

SECONDS = 600.0


def make_channel(connection: socket.socket, peer: str) -> Channel:
    raise AssertionError(f"{peer} connects")


def fail() -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize("tasks_fail", [True, False])
def test_fault_does_not_prevent_later_tasks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tasks_fail: bool
) -> None:
    loop = SocketLoop("the loop", PortLimits(), Refusals(), make_channel)
    host, port = loop.listen("127.0.0.1", 0)

    def accept() -> None:
        loop._close_listener()
        fail()

    with socket.create_connection((host, port)):
        if tasks_fail:
            loop.call(fail)
        else:
            # the fault follows the wake-up, in the same turn
            monkeypatch.setattr(loop, "_accept", accept)
        loop.call(loop._end)
        loop.start()
        loop._thread.join(SECONDS)
    assert not loop._thread.is_alive()
    assert "failed because of a bug" in caplog.text
