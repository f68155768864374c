"""The NameNodes of a failover controller's nameservice, and their addresses in the notation of Hadoop's controllers."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from hadoop_common.addresses import host_port


@dataclass(frozen=True, slots=True)
class Target:
    """A NameNode.

    Attributes:
        host, port: service RPC address of the NameNode if configured, otherwise its RPC address; used for transitions.
        name: name of the host in the notation of Hadoop's controllers (`java_host_name`).
        zkfc_port: port of the NameNode's controller on the same host.
        health: host and port for health checks.
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
    """Return the result of Java's InetSocketAddress.getHostName(); for an IP address, this is its host name, if any."""
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
    """Return the IP addresses of a host; the set is empty if the host cannot be resolved."""
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset()


def same_host(one: str, other: str) -> bool:
    """Return whether two names are equal or resolve to a common address."""
    return one.lower() == other.lower() or bool(addresses_of(one) & addresses_of(other))


def java_address(host: str, port: int) -> str:
    """Format a socket address as Java does: `name/ip:port`, `/ip:port`, `name/<unresolved>:port`."""
    found = sorted(addresses_of(host), key=lambda each: ":" in each)
    if not found:
        return f"{host}/<unresolved>:{port}"
    ip = f"[{found[0]}]" if ":" in found[0] else found[0]
    return f"/{ip}:{port}" if host == found[0] else f"{host}/{ip}:{port}"
