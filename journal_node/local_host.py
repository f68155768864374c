"""Detection of this machine's own addresses, without sending anything."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

_ANY_PORT = 9


def is_this_machine(host: str) -> bool:
    """Whether all addresses of `host` belong to this machine; False if it cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
        return all(_is_own(family, address) for family, _, _, _, address in found)
    except (OSError, UnicodeError):
        return False


def _is_own(family: socket.AddressFamily, address: tuple[Any, ...]) -> bool:
    """Whether packets to the address come from it; a bind would prove nothing with ip_nonlocal_bind."""
    if ip_address(address[0]).is_loopback:
        return True
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return bool(probe.getsockname()[0] == address[0])
