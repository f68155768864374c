"""Protocol v2, for all bookies from 4.2 on: converts packets (without their length) to values and back."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from journal.bookkeeper.entry import body_ids
from journal.bookkeeper.errors import EntryError, FrameError
from journal.bookkeeper.messages import (
    MAX_FRAME,
    AddRequest,
    AddResponse,
    BookieRequest,
    BookieResponse,
    Operation,
    OtherRequest,
    OtherResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
    ResultCode,
)
from journal.primitives import Buffer

_LENGTH = Struct(">i")
_HEADER = Struct(">BBH")  # version, opcode, flags
_IDS = Struct(">qq")
_ANSWER = Struct(">BBHiqq")  # header, return code, ledger, entry
_VERSION = 2
_KEY_SIZE = 20


def framed(packet: bytes) -> bytes:
    """Return `packet` with its length in front.

    Raises:
        FrameError: the packet is larger than bookies accept.
    """
    if len(packet) > MAX_FRAME:
        hint = "Operations of an edit log on BookKeeper cannot be larger."
        raise FrameError(f"a frame of {len(packet)} bytes is larger than {MAX_FRAME}", hint=hint)
    return _LENGTH.pack(len(packet)) + packet


class FrameBuffer:
    """Splitter of a connection's bytes into packets."""

    def __init__(self, limit: int = 5 << 20) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Add `data`, and yield the packets that are now complete.

        Raises:
            FrameError: a length is impossible.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if not 0 < length <= self._limit:
                    raise FrameError(f"a frame of {length} bytes")
                end = start + _LENGTH.size + length
                if end > len(self._buffer):
                    return
                yield bytes(self._buffer[start + _LENGTH.size : end])
                start = end
        finally:
            del self._buffer[:start]


def is_v2(packet: Buffer) -> bool:
    """Return whether a packet can belong to protocol v2; packets of v3 have a different first byte."""
    return len(packet) >= _HEADER.size and packet[0] <= _VERSION


def encode_request(request: BookieRequest) -> bytes:
    """Return the packet of `request`; raise ValueError if protocol v2 has no such request."""
    match request:
        case AddRequest():
            return _HEADER.pack(_VERSION, Operation.ADD, request.flags) + request.master_key + request.body
        case ReadRequest():
            head = _HEADER.pack(_VERSION, Operation.READ, request.flags)
            return head + _IDS.pack(request.ledger_id, request.entry_id) + (request.master_key or b"")
        case _:
            raise ValueError(f"{request} is not a request of protocol v2")


def decode_request(packet: Buffer) -> BookieRequest:
    """Return the request in `packet`.

    Raises:
        FrameError: the packet is invalid.
    """
    if not is_v2(packet):
        raise FrameError("the packet is not a request of protocol v2")
    _, operation, flags = _HEADER.unpack_from(packet)
    rest = bytes(packet[_HEADER.size :])
    if operation == Operation.ADD:
        key, body = rest[:_KEY_SIZE], rest[_KEY_SIZE:]
        try:
            ledger_id, entry_id, _ = body_ids(body)
        except EntryError as fault:
            raise FrameError(f"ADD: {fault.problem}") from fault
        return AddRequest(ledger_id, entry_id, key, body, RequestFlag(flags))
    if operation == Operation.READ:
        fencing = bool(flags & RequestFlag.FENCE)
        if len(rest) != _IDS.size + (_KEY_SIZE if fencing else 0):
            # The key is read only for fencing. A fence without a key is answered, and is not a protocol error.
            if len(rest) < _IDS.size:
                raise FrameError(f"READ: truncated after {len(rest)} bytes")
            fencing = False
        ledger_id, entry_id = _IDS.unpack_from(rest)
        return ReadRequest(ledger_id, entry_id, RequestFlag(flags), rest[_IDS.size :] if fencing else None)
    return OtherRequest(operation)


def encode_response(response: BookieResponse) -> bytes:
    """Return the packet of `response`; raise ValueError if protocol v2 has no such response."""
    match response:
        case AddResponse():
            return _ANSWER.pack(_VERSION, Operation.ADD, 0, response.code, response.ledger_id, response.entry_id)
        case ReadResponse():
            ids = response.ledger_id, response.entry_id
            return _ANSWER.pack(_VERSION, Operation.READ, 0, response.code, *ids) + (response.body or b"")
        case OtherResponse():
            return _ANSWER.pack(_VERSION, response.operation, 0, response.code, -1, -1)
        case _:
            raise ValueError(f"{response} is not a response of protocol v2")


def decode_response(packet: Buffer) -> BookieResponse:
    """Return the response in `packet`.

    Raises:
        FrameError: the packet is invalid.
    """
    if len(packet) < _ANSWER.size or packet[0] != _VERSION:
        raise FrameError("the packet is not a response of protocol v2")
    _, operation, _, number, ledger_id, entry_id = _ANSWER.unpack_from(packet)
    try:
        code = ResultCode(number)
    except ValueError as fault:
        raise FrameError(f"unknown return code {number}") from fault
    if operation == Operation.ADD:
        return AddResponse(code, ledger_id, entry_id)
    if operation == Operation.READ:
        body = bytes(packet[_ANSWER.size :]) if code is ResultCode.OK else None
        return ReadResponse(code, ledger_id, entry_id, body)
    return OtherResponse(operation, code)
