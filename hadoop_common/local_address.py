"""Which addresses are of this host."""

from __future__ import annotations

import socket


def is_local(host: str) -> bool:
    """Whether `host` is an address of this host (NetUtils.isLocalAddress); one that cannot be looked up is none.

    Loopback and wildcard addresses are of every host.
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
