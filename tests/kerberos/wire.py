"""A sniffer of the loopback interface, which needs the right to open raw sockets."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Self

import pytest

from tests.interop.hadoop_conf import HadoopConf

NAMES = (b"marked", b"mkdirs", b"NamenodeProtocol", b"ClientProtocol", b"imagetransfer", b"fsimage", b"checkpoint")
"""Words that privacy and HTTPS must hide: they occur in a user's paths (`marked`), in calls and in requests."""
_PACKET_STATISTICS, _OUTGOING, _TCP = 6, 4, 6
_SYN, _ACK = 2, 16
_BUFFER = 256 << 20
# Linux's socket option with which privileged processes exceed the limit of the buffer
_SO_RCVBUFFORCE = 33


def ports_of(confs: Iterable[HadoopConf]) -> set[int]:
    """Return the ports of all servers in the configurations."""
    found = (re.findall(r":(\d+)", value) for conf in confs for value in conf.properties.values())
    return {int(port) for ports in found for port in ports}


class Wire:
    """A context manager that captures TCP bytes of this host's ports; it skips the test if the capture is not
    permitted.

    Attributes:
        flows: bytes by connection and direction (source port, target port).
    """

    def __init__(self, ports: set[int]) -> None:
        self.flows: list[tuple[int, int, bytearray]] = []
        self._open: dict[tuple[int, int], bytearray] = {}
        self._ports = ports
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        except PermissionError:
            pytest.skip("no right to capture packets of the loopback interface: run as root")
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._socket.settimeout(0.2)
        self._socket.bind(("lo", 0x0003))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._lost = struct.unpack("=II", self._socket.getsockopt(263, _PACKET_STATISTICS, 8))[1]
        self._socket.close()

    def assert_private(self) -> set[int]:
        """After the capture, assert that no packet was lost and only logins are readable; return the used ports."""
        assert self._lost == 0
        asked = [(port, seen) for _, port, seen in self.flows if port in self._ports and seen]
        strange = [(port, bytes(seen[:60])) for port, seen in asked if not seen.startswith((b"\x16\x03", b"hrpc"))]
        assert not strange, strange
        readable = [(*ports, name, bytes(seen[:60])) for *ports, seen in self.flows for name in NAMES if name in seen]
        assert not readable, readable
        return {port for port, _ in asked}

    def _look(self) -> None:
        while True:
            try:
                packet, address = self._socket.recvfrom(1 << 17)
            except TimeoutError:
                # check for the end only when no packet arrives, so that the capture includes all earlier bytes
                if self._ended.is_set():
                    return
                continue
            if address[2] != _OUTGOING:
                self._keep(packet)

    def _keep(self, packet: bytes) -> None:
        version = packet[0] >> 4
        protocol, start = (packet[9], (packet[0] & 15) * 4) if version == 4 else (packet[6], 40)
        if protocol != _TCP:
            return
        source, target = struct.unpack_from(">HH", packet, start)
        flags = packet[start + 13] & (_SYN | _ACK)
        if flags & _SYN:
            # A client of another test may use one of these ports as a client port, so only the server's port counts.
            self._open.pop((source, target), None)
            if (source if flags & _ACK else target) in self._ports:
                self._open[source, target] = bytearray()
                self.flows.append((source, target, self._open[source, target]))
        if (seen := self._open.get((source, target))) is not None:
            seen += packet[start + (packet[start + 12] >> 4) * 4 :]
