"""Recognition of addresses of this host."""

from __future__ import annotations

import socket


def is_local(host: str) -> bool:
    """Return whether `host` is an address of this host (NetUtils.isLocalAddress); False if it cannot be resolved.

    Loopback and wildcard addresses belong to every host.
    """
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in addresses)


def _can_bind(family: int, address: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
        return True
