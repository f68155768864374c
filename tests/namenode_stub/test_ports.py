"""Demos and tests of one machine never choose the same port."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from namenode_stub import ports
from namenode_stub.ports import free_port

_OTHER = "import sys; from namenode_stub import ports; print(ports._mark(int(sys.argv[1])) is None)"


def other_sees_it_used(port: int) -> bool:
    """Return whether another process regards a port as used."""
    command = [sys.executable, "-c", _OTHER, str(port)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout == "True\n"


def test_a_chosen_port_is_not_chosen_again_before_a_server_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    assert other_sees_it_used(port)
    others = [free_port() for _ in range(50)]
    assert len({port, *others}) == 51
    monkeypatch.setattr(ports, "_MAX_MARKS", 10)
    for _ in range(60):
        free_port()
    assert not other_sees_it_used(port)


def test_a_port_in_use_is_not_chosen() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        ports._marks.pop().close()
        assert other_sees_it_used(port)
    assert not other_sees_it_used(port)
