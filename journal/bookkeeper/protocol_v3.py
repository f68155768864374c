"""Protocol v3 (protobuf), for clients from 4.3 on: packets to values and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from google.protobuf.message import DecodeError

from journal.bookkeeper.errors import FrameError
from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    BookieRequest,
    BookieResponse,
    OtherRequest,
    OtherResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
    ResultCode,
)
from journal.primitives import Buffer
from journal.proto import bookkeeper_pb2 as pb

_STATUS = {
    ResultCode.OK: pb.EOK,
    ResultCode.NO_LEDGER: pb.ENOLEDGER,
    ResultCode.NO_ENTRY: pb.ENOENTRY,
    ResultCode.BAD_REQUEST: pb.EBADREQ,
    ResultCode.IO_ERROR: pb.EIO,
    ResultCode.UNAUTHORIZED: pb.EUA,
    ResultCode.BAD_VERSION: pb.EBADVERSION,
    ResultCode.FENCED: pb.EFENCED,
    ResultCode.READ_ONLY: pb.EREADONLY,
    ResultCode.TOO_MANY_REQUESTS: pb.ETOOMANYREQUESTS,
    ResultCode.UNKNOWN_LEDGER_STATE: pb.EUNKNOWNLEDGERSTATE,
}
_CODES = {status: code for code, status in _STATUS.items()}


@dataclass(frozen=True, slots=True)
class V3Request:
    """A request and the transaction id of its response.

    Attributes:
        priority: None if the packet has none.
    """

    txn_id: int
    request: BookieRequest
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class V3Response:
    txn_id: int
    response: BookieResponse


def encode_request(asked: V3Request) -> bytes:
    """Return the packet of `asked`; ValueError for an unsupported request."""
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


def decode_request(packet: Buffer) -> V3Request:
    """Return the request in `packet`.

    Raises:
        FrameError: the packet is invalid.
    """
    message = pb.Request()
    _parse(message, packet)
    header = message.header
    request: BookieRequest
    if header.operation == pb.ADD_ENTRY and message.HasField("addRequest"):
        add = message.addRequest
        flags = (
            RequestFlag.RECOVERY_ADD
            if add.flag == pb.AddRequest.RECOVERY_ADD and add.HasField("flag")
            else RequestFlag.NONE
        )
        request = AddRequest(add.ledgerId, add.entryId, add.masterKey, add.body, flags)
    elif header.operation == pb.READ_ENTRY and message.HasField("readRequest"):
        read = message.readRequest
        fencing = read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER
        key = read.masterKey if read.HasField("masterKey") else None
        request = ReadRequest(read.ledgerId, read.entryId, RequestFlag.FENCE if fencing else RequestFlag.NONE, key)
    elif header.operation == pb.READ_LAC and message.HasField("readLacRequest"):
        request = ReadLacRequest(message.readLacRequest.ledgerId)
    else:
        request = OtherRequest(header.operation)
    return V3Request(header.txnId, request, header.priority if header.HasField("priority") else None)


def encode_response(answer: V3Response) -> bytes:
    response = answer.response
    message = pb.Response(header=pb.BKPacketHeader(version=pb.VERSION_THREE, txnId=answer.txn_id))
    message.status = _STATUS[response.code]
    match response:
        case AddResponse():
            message.header.operation = pb.ADD_ENTRY
            ids = {"ledgerId": response.ledger_id, "entryId": response.entry_id}
            message.addResponse.CopyFrom(pb.AddResponse(status=message.status, **ids))
        case ReadResponse():
            message.header.operation = pb.READ_ENTRY
            ids = {"ledgerId": response.ledger_id, "entryId": response.entry_id}
            message.readResponse.CopyFrom(pb.ReadResponse(status=message.status, body=response.body, **ids))
            if response.max_lac is not None:
                message.readResponse.maxLAC = response.max_lac
        case ReadLacResponse():
            message.header.operation = pb.READ_LAC
            message.readLacResponse.status, message.readLacResponse.ledgerId = message.status, response.ledger_id
            if response.lac_body is not None:
                message.readLacResponse.lacBody = response.lac_body
            if response.last_entry is not None:
                message.readLacResponse.lastEntryBody = response.last_entry
        case OtherResponse():
            known = response.operation in pb.OperationType.values()
            message.header.operation = cast("pb.OperationType", response.operation if known else pb.READ_ENTRY)
    return message.SerializeToString()


def decode_response(packet: Buffer) -> V3Response:
    """Return the response in `packet`; its outer status is the answer unless that is OK.

    Raises:
        FrameError: the packet is invalid.
    """
    message = pb.Response()
    _parse(message, packet)
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


def _parse(message: pb.Request | pb.Response, packet: Buffer) -> None:
    try:
        message.ParseFromString(bytes(packet))
    except DecodeError as fault:
        raise FrameError(f"the packet is not of protocol v3: {fault}") from fault
