"""The client side of protocol v3: encodes requests and decodes responses."""

from __future__ import annotations

from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    BookieResponse,
    OtherResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
)
from journal.bookkeeper.protocol_v3 import STATUS, V3Request, V3Response, parse
from journal.primitives import Buffer
from journal.proto import bookkeeper_pb2 as pb

_CODES = {status: code for code, status in STATUS.items()}


def encode_request(asked: V3Request) -> bytes:
    """Return the packet of `asked`; raise ValueError if the request is not supported."""
    message = pb.Request(header=pb.BKPacketHeader(version=pb.VERSION_THREE, txnId=asked.txn_id))
    if asked.priority is not None:
        message.header.priority = asked.priority
    match asked.request:
        case AddRequest() as add:
            message.header.operation = pb.ADD_ENTRY
            message.addRequest.ledgerId, message.addRequest.entryId = add.ledger_id, add.entry_id
            message.addRequest.masterKey, message.addRequest.body = add.master_key, add.body
            if add.flags & RequestFlag.RECOVERY_ADD:
                message.addRequest.flag = pb.AddRequest.RECOVERY_ADD
        case ReadRequest() as read:
            message.header.operation = pb.READ_ENTRY
            message.readRequest.ledgerId, message.readRequest.entryId = read.ledger_id, read.entry_id
            if read.master_key is not None:
                message.readRequest.masterKey = read.master_key
            if read.flags & RequestFlag.FENCE:
                message.readRequest.flag = pb.ReadRequest.FENCE_LEDGER
        case ReadLacRequest() as lac:
            message.header.operation = pb.READ_LAC
            message.readLacRequest.ledgerId = lac.ledger_id
        case other:
            raise ValueError(f"{other} is not supported")
    return message.SerializeToString()


def decode_response(packet: Buffer) -> V3Response:
    """Return the response in `packet`; if its outer status is not OK, that status is the result.

    Raises:
        FrameError: the packet is invalid.
    """
    message = pb.Response()
    parse(message, packet)
    operation = message.header.operation
    response: BookieResponse
    if operation == pb.ADD_ENTRY and message.HasField("addResponse"):
        add = message.addResponse
        response = AddResponse(_CODES[message.status or add.status], add.ledgerId, add.entryId)
    elif operation == pb.READ_ENTRY and message.HasField("readResponse"):
        read = message.readResponse
        response = ReadResponse(
            _CODES[message.status or read.status],
            read.ledgerId,
            read.entryId,
            read.body if read.HasField("body") else None,
            read.maxLAC if read.HasField("maxLAC") else None,
        )
    elif operation == pb.READ_LAC and message.HasField("readLacResponse"):
        lac = message.readLacResponse
        response = ReadLacResponse(
            _CODES[message.status or lac.status],
            lac.ledgerId,
            lac.lacBody if lac.HasField("lacBody") else None,
            lac.lastEntryBody if lac.HasField("lastEntryBody") else None,
        )
    else:
        response = OtherResponse(operation, _CODES[message.status])
    return V3Response(message.header.txnId, response)
