"""Addresses of bookies in ZooKeeper: `host:port`, or since 4.12 any name whose znode has the address."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from journal.bookkeeper.errors import BookKeeperError
from journal.proto import bookkeeper_pb2 as pb

_PROTOCOL = "bookie-rpc"


def address_of(bookie_id: str, registration: bytes | None = None) -> tuple[str, int]:
    """Return host and port of a bookie.

    Args:
        registration: the value of its znode below `available`, if it exists.

    Raises:
        BookKeeperError: neither contains them.
    """
    if registration:
        try:
            found = pb.BookieServiceInfoFormat.FromString(registration)
        except DecodeError:
            found = pb.BookieServiceInfoFormat()
        for endpoint in found.endpoints:
            if endpoint.protocol == _PROTOCOL:
                return endpoint.host, endpoint.port
    host, _, port = bookie_id.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal():
        raise BookKeeperError(f"{bookie_id} is not host:port, and its registration has no {_PROTOCOL} endpoint")
    return host.removeprefix("[").removesuffix("]"), int(port)


def registration_of(host: str, port: int) -> bytes:
    """Return the value of a bookie's znode as releases from 4.11 on write it; older ones ignore it."""
    endpoint = pb.BookieServiceInfoFormat.Endpoint(id="bookie", port=port, host=host, protocol=_PROTOCOL)
    return pb.BookieServiceInfoFormat(endpoints=[endpoint]).SerializeToString()
