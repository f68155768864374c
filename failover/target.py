"""NameNodes as a failover controller acts on them, and their addresses as Hadoop's controllers write them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from hadoop_common.endpoint import host_port


@dataclass(frozen=True, slots=True)
class Target:
    """A NameNode.

    Attributes:
        host, port: its service RPC address, RPC address without one; transitions go there and nowhere else.
        name: of the host, as Hadoop's controllers write it (`java_host_name`).
        zkfc_port: of its controller, on the same host.
        health: where it is asked how it is.
        web: `http(s)://host:port` of its web server.
    """

    nameservice: str
    namenode: str
    host: str
    port: int
    name: str
    zkfc_port: int
    health: tuple[str, int]
    web: str = ""

    @property
    def address(self) -> str:
        return host_port(self.name, self.port)

    def __str__(self) -> str:
        return f"{self.namenode} ({self.address})"


def java_host_name(host: str) -> str:
    """What Java's InetSocketAddress.getHostName() makes of a host: the name of an IP address, if that leads back."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    try:
        name = socket.gethostbyaddr(host)[0]
        back = {found[4][0] for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError:
        return host
    return name if str(address) in back else host


def addresses_of(host: str) -> frozenset[str]:
    """Its IP addresses; none where it cannot be looked up."""
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset()


def same_host(one: str, other: str) -> bool:
    """Whether two names are, as far as can be told, those of one host."""
    return one.lower() == other.lower() or bool(addresses_of(one) & addresses_of(other))


def java_address(host: str, port: int) -> str:
    """As Java prints a socket address: `name/ip:port`, `/ip:port`, `name/<unresolved>:port`."""
    found = sorted(addresses_of(host), key=lambda each: ":" in each)
    if not found:
        return f"{host}/<unresolved>:{port}"
    ip = f"[{found[0]}]" if ":" in found[0] else found[0]
    return f"/{ip}:{port}" if host == found[0] else f"{host}/{ip}:{port}"
