"""Whether a host is this machine; nothing is sent to find out."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

_ANY_PORT = 9


def is_this_machine(host: str) -> bool:
    """Whether all addresses of `host` are this machine's own; one that cannot be resolved has none here."""
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
        return all(_is_own(family, address) for family, _, _, _, address in found)
    except (OSError, UnicodeError):
        return False


def _is_own(family: socket.AddressFamily, address: tuple[Any, ...]) -> bool:
    """Packets to an own address come from there; binding to it would tell nothing with ip_nonlocal_bind."""
    if ip_address(address[0]).is_loopback:
        return True
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return bool(probe.getsockname()[0] == address[0])
