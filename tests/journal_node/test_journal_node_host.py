"""Host names of this machine."""

from __future__ import annotations

import socket

import pytest

from journal_node.peers import is_this_machine


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost"])
def test_a_loopback_address_is_this_machine(host: str) -> None:
    assert is_this_machine(host)


def test_outgoing_address_is_this_machine() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no route")
        assert is_this_machine(probe.getsockname()[0])


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "a" * 300, ""])
def test_remote_or_unknown_host_is_not_this_machine(host: str) -> None:
    assert not is_this_machine(host)
