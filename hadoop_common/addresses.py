"""Hides the passwords in network addresses, and recognises addresses of this host."""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from typing import Any

WILDCARDS = ("0.0.0.0", "::", "")
"""Hosts of a server's address that mean all addresses of the machine."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

# excludes IPv6 addresses, and ports that are followed by a path with an @
_USER = re.compile(r"(?<=://)(?!\[)[^/:\s]*:(?!\d{2,5}(?:[/?;,#\s]|$))\S*(?=@)")
# parameters of signed URLs (sig, X-Amz-Signature, X-Goog-Credential, AWSAccessKeyId), WebHDFS and Azure
_SECRET_PARAMETER = re.compile(
    r"((?:[?&;][\w.%-]*(?:sig|token|secret|key|passw|credential|sas|delegation)[\w.%-]*|\bAccountKey)=)"
    r"[^&#\s'\"\\]*",
    re.IGNORECASE,
)


def without_password(text: str) -> str:
    """Return `text` with `***` in place of each URL's user and password, and of the values of secret parameters."""
    return _SECRET_PARAMETER.sub(r"\1***", _USER.sub("***", text))


def host_port(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable_here(host: str) -> str:
    """Return a host at which a server of this machine answers: loopback if its own address has a wildcard."""
    return ("::1" if host == "::" else "127.0.0.1") if host in WILDCARDS else host


def uri_scheme(text: str) -> str:
    """Return the scheme of a URI in lower case, or "" if it has none.

    The standard library rejects an authority with several nodes if a node is an IPv6 address, as in qjournal: URIs.
    """
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


_ANY_PORT = 9


def is_local(host: str) -> bool:
    """Return whether an address of `host` belongs to this host (NetUtils.isLocalAddress); False if it is not resolved.

    Loopback and wildcard addresses belong to every host.
    """
    return any(ip_address(address[0]).is_unspecified or _is_own(family, address) for family, address in _resolved(host))


def is_this_host(host: str) -> bool:
    """Return whether all addresses of `host` belong to this host; False if it is not resolved.

    A wildcard address belongs to no host here, unlike in `is_local`: a server can listen on it, but a client that reads
    it in a URL cannot determine which host is meant.
    """
    found = _resolved(host)
    return bool(found) and all(_is_own(family, address) for family, address in found)


def _resolved(host: str) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [(family, address) for family, _, _, _, address in found]


def _is_own(family: socket.AddressFamily, address: tuple[Any, ...]) -> bool:
    """Return whether an interface of this host has the address.

    A bind does not prove this, because ip_nonlocal_bind permits a bind to any address. A connection does not disprove
    this for IPv4, because packets to a secondary address have the primary address of the subnet as their source.
    """
    found = ip_address(address[0])
    if found.is_loopback or found.is_unspecified:
        return found.is_loopback
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            if family == socket.AF_INET:
                # the kernel searches for the interface with this address, and sends nothing
                probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address[0]))
                return True
            probe.connect(address)
            return bool(probe.getsockname()[0] == address[0])
    except OSError:
        return False
