"""Hostile clients of one port, for `bench.abuse`: each kind repeats one action that a server must survive.

`python -m bench.abuse_client rpc|http HOST PORT SOURCE CONNECTIONS SECONDS`: open CONNECTIONS connections of each kind
from the address SOURCE. A rejected client reconnects after a second or two.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hadoop_rpc.framing import delimited
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.wire import CONTEXT_CALL_ID, PING_CALL_ID, AuthProtocol, connection_header, request_frame

_MIB = 1 << 20
_ID = b"0123456789abcdef"

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _hello() -> bytes:
    user = pb.UserInformationProto(effectiveUser="mallory")
    context = pb.IpcConnectionContextProto(userInfo=user, protocol="org.example.None")
    return connection_header(AuthProtocol.NONE) + request_frame(CONTEXT_CALL_ID, b"", delimited(context))


def _call(size: int) -> bytes:
    """Return a call of a method with a name of `size` bytes."""
    header = pb.RequestHeaderProto(
        methodName="m" * size, declaringClassProtocolName="org.example.None", clientProtocolVersion=1
    )
    return request_frame(1, _ID, delimited(header), delimited(b""))


def _announced(size: int) -> bytes:
    return size.to_bytes(4, "big")


def _attack_with(data: bytes) -> Attack:
    """Return an attack that sends some bytes without reading, and then waits until the connection closes."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(data)
        await writer.drain()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while await reader.read(65536):
            pass

    return attack


def _keeps_unread(data: bytes) -> Attack:
    """Return an attack that sends some bytes repeatedly, and never reads."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while True:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(5)

    return attack


def _trickles(begin: bytes, piece: bytes) -> Attack:
    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while not writer.is_closing() and not reader.at_eof():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(1)

    return attack


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(random.randbytes(random.randrange(1, 4096)))
    await writer.drain()
    while await reader.read(65536):
        pass


RPC: dict[str, Attack] = {
    "silent": _attack_with(b""),
    "half a header": _attack_with(b"hrpc"),
    "idle": _attack_with(_hello()),
    "pings": _trickles(_hello(), request_frame(PING_CALL_ID, b"")),
    "large frame without a name": _attack_with(
        connection_header(AuthProtocol.NONE) + (64 * _MIB).to_bytes(4, "big") + bytes(_MIB)
    ),
    "half a frame": _attack_with(_hello() + _call(4 * _MIB)[:-1]),
    "trickled frame": _trickles(_hello() + _announced(16 * _MIB), b"x"),
    "echo that is not read": _keeps_unread(_hello() + _call(_MIB)),
    "garbage": _garbage,
}

HTTP: dict[str, Attack] = {
    "silent": _attack_with(b""),
    "half headers": _attack_with(b"GET /status HTTP/1.1\r\nHost: x\r\n"),
    "trickled headers": _trickles(b"GET /status HTTP/1.1\r\nHost: x\r\n", b"A: b\r\n"),
    "idle": _attack_with(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"),
    "status that is not read": _keeps_unread(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
    "image that is not read": _keeps_unread(
        b"GET /imagetransfer?getimage=1&txid=latest HTTP/1.1\r\nHost: x\r\n\r\n"
        b"GET /getJournal?jid=abuse&segmentTxId=1 HTTP/1.1\r\nHost: x\r\n\r\n"
    ),
    "trickled body": _trickles(b"PUT /imagetransfer?txid=9 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n", b"x"),
    "two lengths": _attack_with(
        b"PUT /imagetransfer HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
    ),
    "garbage": _garbage,
}


async def _again(attack: Attack, address: tuple[str, int], source: str) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(random.random())
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # The system chooses a port for each peer address, and loopback offers few ports.
        connection.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
        with suppress(OSError, EOFError):
            connection.bind((source, 0))
            await loop.sock_connect(connection, address)
            reader, writer = await asyncio.open_connection(sock=connection)
            try:
                await attack(reader, writer)
            finally:
                writer.transport.abort()
        connection.close()
        await asyncio.sleep(1)


async def _run(attacks: dict[str, Attack], address: tuple[str, int], source: str, count: int, seconds: float) -> None:
    tasks = [asyncio.create_task(_again(each, address, source)) for each in attacks.values() for _ in range(count)]
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    """Attack for the given time."""
    kind, host, port, source, count, seconds = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attacks = RPC if kind == "rpc" else HTTP
    asyncio.run(_run(attacks, (host, int(port)), source, int(count), float(seconds)))


if __name__ == "__main__":
    main()
