"""Invariants for any bytes on a Hadoop RPC connection, on either side, and for the calls in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client_state import CallFailure, CallResponse, ClientConnection, ConnectionReady
from hadoop_rpc.errors import AuthenticationRequiredError, RemoteError, RpcProtocolError
from hadoop_rpc.framing import parse
from hadoop_rpc.ha_protocol import HAState, ServiceStatus, ha_service
from hadoop_rpc.journal_protocol import FenceResult, journal_service
from hadoop_rpc.namenode_messages import (
    manifest_message,
    manifest_of,
    namespace_info_of,
    namespace_message,
    registration_message,
    registration_of,
    signature_message,
    signature_of,
)
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL, namenode_service
from hadoop_rpc.namenode_values import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.proto import namenode_protocol_pb2 as pb
from hadoop_rpc.proto import qjournal_protocol_pb2 as qjournal_pb
from hadoop_rpc.qjournal_messages import (
    journal_state_message,
    journal_state_of,
    journaled_edits_message,
    journaled_edits_of,
    node_manifest_message,
    node_manifest_of,
    prepared_message,
    prepared_of,
)
from hadoop_rpc.qjournal_service import inter_qjournal_service, qjournal_service
from hadoop_rpc.qjournal_values import (
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    RequestInfo,
    SegmentState,
)
from hadoop_rpc.server_state import Call, ConnectionEnd, HandshakeReply, ServerConnection
from hadoop_rpc.service import CallContext, Dispatcher
from hadoop_rpc.wire import AuthProtocol
from hadoop_rpc.zkfc_protocol import zkfc_service
from tests.fuzz.verdict import check_error

CLIENT_ID = b"0123456789abcdef"
INFO = StorageInfo(layout_version=-67, namespace_id=-5, c_time=0, cluster_id="CID-1", blockpool_id="BP-1")
_SIGNATURE = CheckpointSignature(INFO, 7, 9)
_MAX_FRAME = 1 << 20
_OWN_FAULT = "because of a bug in this server"


class _Node:
    """A service that returns the same response to every call, so that only the decoding of requests can fail."""

    def transaction_id(self, _: CallContext) -> int:
        return 9

    most_recent_checkpoint_txid = transaction_id

    def roll_edit_log(self, _: CallContext) -> CheckpointSignature:
        return _SIGNATURE

    def version_request(self, _: CallContext) -> NamespaceInfo:
        return NamespaceInfo(INFO, "revision", "3.4.1", "ACTIVE")

    def edit_log_manifest(self, since: int, _: CallContext) -> EditLogManifest:
        return EditLogManifest((), since)

    def is_upgrade_finalized(self, _: CallContext) -> bool:
        return True

    is_rolling_upgrade = is_upgrade_finalized

    def register(self, registration: Any, _: CallContext) -> Any:
        return registration

    def start_checkpoint(self, registration: Any, _: CallContext) -> CheckpointCommand | None:
        return CheckpointCommand(CheckpointSignature(registration.storage_info, 1, 2), need_to_return_image=True)

    def nothing(self, *_: Any) -> None:
        """Do nothing."""

    end_checkpoint = error_report = monitor_health = journal = start_log_segment = nothing
    transition_to_active = transition_to_standby = transition_to_observer = nothing
    cede_active = graceful_failover = nothing

    def service_status(self, caller: CallContext) -> ServiceStatus:
        return ServiceStatus(HAState.ACTIVE, ready_to_become_active=True, reason=caller.user)

    def fence(self, _: Any, epoch: int, __: str, ___: CallContext) -> FenceResult:
        return FenceResult(epoch, 0, in_sync=False)


class _JournalNode:
    """A service that returns the same response to every call; this target does not test the effects of calls."""

    def is_formatted(self, *_: Any) -> bool:
        return True

    can_roll_back = is_formatted

    def nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    format = start_log_segment = journal = heartbeat = finalize_log_segment = purge_logs = accept_recovery = nothing
    do_pre_upgrade = do_upgrade = do_finalize = do_rollback = discard_segments = nothing

    def get_journal_state(self, _: str) -> JournalState:
        return JournalState(3, 8480, "http://127.0.0.1:8480")

    def new_epoch(self, _: str, __: StorageInfo, epoch: int) -> int | None:
        return epoch if epoch & 1 else None

    def get_edit_log_manifest(self, _: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        return NodeManifest(EditLogManifest((RemoteEditLog(6, 9, in_progress=in_progress_ok),), since), 8480)

    def get_journaled_edits(self, _: str, since: int, max_transactions: int) -> JournaledEdits:
        return JournaledEdits(int(max_transactions > 0), b"record" if max_transactions > 0 else b"")

    def prepare_recovery(self, request: RequestInfo, segment_txid: int) -> PreparedRecovery:
        return PreparedRecovery(SegmentState(segment_txid, 9, in_progress=True), request.epoch, 3, None)

    def get_journal_ctime(self, _: str) -> int:
        return 7

    def get_storage_info(self, _: str) -> StorageInfo:
        return INFO


SERVICES = (
    namenode_service(_Node()),
    ha_service(_Node()),
    zkfc_service(_Node()),
    journal_service(_Node()),
    qjournal_service(_JournalNode()),
    inter_qjournal_service(_JournalNode()),
)
_DISPATCHER = Dispatcher(SERVICES)


class _Values(NamedTuple):
    """Conversions of a response's message to a value and back."""

    message: type[Message]
    value: Callable[[Any], Any]
    back: Callable[[Any], Message]


_ANSWERS = (
    _Values(pb.CheckpointSignatureProto, signature_of, signature_message),
    _Values(pb.NamespaceInfoProto, namespace_info_of, namespace_message),
    _Values(pb.NamenodeRegistrationProto, registration_of, registration_message),
    _Values(pb.RemoteEditLogManifestProto, manifest_of, manifest_message),
    _Values(qjournal_pb.GetJournalStateResponseProto, journal_state_of, journal_state_message),
    _Values(qjournal_pb.GetEditLogManifestResponseProto, node_manifest_of, node_manifest_message),
    _Values(qjournal_pb.PrepareRecoveryResponseProto, prepared_of, prepared_message),
    _Values(qjournal_pb.GetJournaledEditsResponseProto, journaled_edits_of, journaled_edits_message),
)


def check_rpc(data: bytes) -> bool:
    """Pass the bytes after the first byte to a server (if that byte is even) or a client; return False for a refusal.

    Raises:
        AssertionError: something was misread, or the result depends on how the bytes were split.
    """
    if not data:
        return False
    number, body = data[0], data[1:]
    return _check_client(number, body) if number & 1 else _check_server(body)


# ---- the server's side ---------------------------------------------------------------------------------------


def _check_server(body: bytes) -> bool:
    server = ServerConnection(max_frame=_MAX_FRAME)
    events = server.receive(body)
    slow = ServerConnection(max_frame=_MAX_FRAME)
    pieces = [event for at in range(len(body)) for event in slow.receive(body[at : at + 1])]
    assert [_seen(event) for event in pieces] == [_seen(event) for event in events]
    assert not any(isinstance(event, ConnectionEnd) for event in events[:-1])
    good = [_check_call(server, event) for event in events if isinstance(event, Call)]
    return any(good) and not isinstance(events[-1], ConnectionEnd)


def _seen(event: Call | HandshakeReply | ConnectionEnd) -> object:
    # The server may refuse another protocol earlier, and the reason quotes the bytes received until then.
    return event if isinstance(event, Call) else (type(event), event.data)


def _check_call(server: ServerConnection, call: Call) -> bool:
    """Perform a call, and make a client read the response."""
    context = CallContext(
        server.user, server.real_user, "127.0.0.1", call.protocol, call.client_id, call.call_id, call.retry
    )
    answer = _DISPATCHER.perform(call, context)
    if isinstance(answer, tuple):
        check_error(answer[0])
        assert _OWN_FAULT not in answer[0].text, answer
        data = server.fail(call, *answer)
    else:
        data = server.respond(call, answer)
    (contacts,) = _client(AuthProtocol.NONE).receive(data)
    assert not isinstance(contacts, ConnectionReady)
    assert contacts.call_id == call.call_id
    if isinstance(contacts, CallResponse):
        assert not isinstance(answer, tuple)
        assert contacts.body == answer.SerializeToString()
        return True
    assert isinstance(answer, tuple)
    assert isinstance(contacts.error, RemoteError)
    assert contacts.error.class_name == answer[0].class_name
    return False


# ---- the client's side ---------------------------------------------------------------------------------------


def _client(auth: AuthProtocol) -> ClientConnection:
    client = ClientConnection(NAMENODE_PROTOCOL.name, "alice", CLIENT_ID, auth=auth, max_frame=_MAX_FRAME)
    client.open()
    return client


def _check_client(number: int, body: bytes) -> bool:
    auth = AuthProtocol.SASL if number & 2 else AuthProtocol.NONE
    events, fault = _hear(_client(auth), [body])
    pieces, slow_fault = _hear(_client(auth), [body[at : at + 1] for at in range(len(body))])
    assert str(fault) == str(slow_fault)
    # A response that arrives together with invalid bytes is lost.
    assert fault is not None or [_reported(event) for event in pieces] == [_reported(event) for event in events]
    for event in pieces:
        if isinstance(event, CallResponse):
            _check_values(event.body)
    return fault is None and any(isinstance(event, CallResponse) for event in events)


def _hear(
    client: ClientConnection, pieces: list[bytes]
) -> tuple[list[ConnectionReady | CallResponse | CallFailure], Exception | None]:
    events: list[ConnectionReady | CallResponse | CallFailure] = []
    try:
        for piece in pieces:
            events += client.receive(piece)
    except (RpcProtocolError, AuthenticationRequiredError) as error:
        check_error(error)
        return events, error
    return events, None


def _reported(event: ConnectionReady | CallResponse | CallFailure) -> object:
    if isinstance(event, CallFailure):
        check_error(event.error)
        return event.call_id, type(event.error), str(event.error)
    return event


def _check_values(body: bytes) -> None:
    for values in _ANSWERS:
        try:
            message = parse(values.message, body)
        except DecodeError:
            continue
        value = values.value(message)
        assert values.value(values.back(value)) == value
