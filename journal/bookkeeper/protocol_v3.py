"""Protocol v3 (protobuf), for clients from 4.3 on: the requests and responses of a bookie."""

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

STATUS = {
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


@dataclass(frozen=True, slots=True)
class V3Request:
    """A request, with the transaction id for its response.

    Attributes:
        priority: priority of the request; None if the packet does not contain one.
    """

    txn_id: int
    request: BookieRequest
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class V3Response:
    txn_id: int
    response: BookieResponse


def decode_request(packet: Buffer) -> V3Request:
    """Return the request in `packet`.

    Raises:
        FrameError: the packet is invalid.
    """
    message = pb.Request()
    parse(message, packet)
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
    message.status = STATUS[response.code]
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


def parse(message: pb.Request | pb.Response, packet: Buffer) -> None:
    """Parse a packet into `message`; raise FrameError if the packet is invalid."""
    try:
        message.ParseFromString(bytes(packet))
    except DecodeError as fault:
        raise FrameError(f"the packet is not of protocol v3: {fault}") from fault
