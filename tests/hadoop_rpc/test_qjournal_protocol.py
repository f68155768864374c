"""QJournalProtocol and InterQJournalProtocol: every value arrives unchanged, and every refusal arrives with its Java
class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo
from hadoop_rpc.errors import (
    AssertionRemoteError,
    EditsCacheMissError,
    IllegalArgumentRemoteError,
    IllegalStateError,
    InconsistentStorageError,
    JavaIOError,
    JournalNotFormattedError,
    JournalOutOfSyncError,
    NewerTxidError,
    RemoteError,
)
from hadoop_rpc.framing import parse
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_messages import (
    journal_state_message,
    journal_state_of,
    journaled_edits_message,
    journaled_edits_of,
    namespace_of,
    namespace_to_message,
    node_manifest_message,
    node_manifest_of,
    prepared_message,
    prepared_of,
    request_info_message,
    request_info_of,
    segment_message,
    segment_of,
    storage_message,
    storage_of,
)
from hadoop_rpc.qjournal_protocol import InterQJournalClient, QJournalClient, inter_qjournal_service, qjournal_service
from hadoop_rpc.qjournal_values import (
    INVALID_TXID,
    InterQJournal,
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    QJournal,
    RequestInfo,
    SegmentState,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext

ints = st.integers(-(1 << 31), (1 << 31) - 1)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
ports = st.integers(0, 65535)
names = st.text(max_size=30)

committed = st.none() | longs.filter(lambda txid: txid != INVALID_TXID)
requests = st.builds(RequestInfo, names, longs, longs, committed, st.none() | names)
segments = st.builds(SegmentState, longs, longs, st.booleans())
manifests = st.builds(
    EditLogManifest,
    st.lists(st.builds(RemoteEditLog, longs, longs, st.booleans()), max_size=5).map(tuple),
    st.none() | longs,
)
edits = st.just(JournaledEdits(0, b"")) | st.builds(JournaledEdits, st.integers(1, 1 << 31), st.binary(max_size=50))


@given(requests, segments)
def test_requests_of_a_writer_round_trip(request: RequestInfo, segment: SegmentState) -> None:
    assert request_info_of(_sent(request_info_message(request))) == request
    assert segment_of(_sent(segment_message(segment))) == segment


@given(
    st.builds(JournalState, longs, ports, st.none() | names),
    st.builds(NodeManifest, manifests, ports, st.none() | names),
    st.builds(PreparedRecovery, st.none() | segments, st.none() | longs, longs, st.none() | longs),
    edits,
)
def test_responses_of_a_node_round_trip(
    state: JournalState, manifest: NodeManifest, prepared: PreparedRecovery, journaled: JournaledEdits
) -> None:
    assert journal_state_of(_sent(journal_state_message(state))) == state
    assert node_manifest_of(_sent(node_manifest_message(manifest))) == manifest
    assert prepared_of(_sent(prepared_message(prepared))) == prepared
    assert journaled_edits_of(_sent(journaled_edits_message(journaled))) == journaled


@given(
    st.builds(StorageInfo, ints, ints, longs, names, names),
    st.builds(StorageInfo, ints, ints, longs, names, storage_type=st.just(JOURNAL_NODE)),
)
def test_namespaces_round_trip(namespace: StorageInfo, storage: StorageInfo) -> None:
    assert namespace_of(_sent(namespace_to_message(namespace))) == namespace
    assert storage_of(_sent(storage_message(storage))) == storage


def test_invalid_committed_txid_means_none() -> None:
    message = request_info_message(RequestInfo("j", 1, 0))
    message.committedTxId = INVALID_TXID % (1 << 64)
    assert request_info_of(message).committed_txid is None


def _sent(message: Any) -> Any:
    return parse(type(message), message.SerializeToString())


NAMESPACE = StorageInfo(-63, 7, 3, "CID-x", "BP-1-127.0.0.1-1")
STORAGE = StorageInfo(-63, 7, 3, "CID-x", storage_type=JOURNAL_NODE)
REQUEST = RequestInfo("j1", 3, 4, 17, "ns")
SEGMENT = SegmentState(11, 20, True)
ANSWERS: dict[str, Any] = {
    "is_formatted": True,
    "get_journal_state": JournalState(3, 8480, "http://jn:8480"),
    "new_epoch": 11,
    "get_edit_log_manifest": NodeManifest(EditLogManifest((RemoteEditLog(1, 10), RemoteEditLog(11, 20, True)), 17), 1),
    "get_journaled_edits": JournaledEdits(2, b"header and records"),
    "prepare_recovery": PreparedRecovery(SEGMENT, 2, 2, 17),
    "get_journal_ctime": -5,
    "can_roll_back": True,
    "get_storage_info": STORAGE,
}


@dataclass
class FakeNode:
    """A node that records its calls, and answers from `ANSWERS` or with `refusal`."""

    reported: list[Any] = field(default_factory=list)
    received: list[tuple[str, str]] = field(default_factory=list)
    refusal: RemoteError | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.reported.append((name, *args, *options.values()))
            if self.refusal is not None:
                raise self.refusal
            return ANSWERS.get(name)

        return call

    def hear(self, journal_id: str, nameservice: str) -> None:
        self.received.append((journal_id, nameservice))


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def server(node: FakeNode) -> Iterator[RpcServer]:
    journal = cast(QJournal, node)
    services = [qjournal_service(journal, node.hear), inter_qjournal_service(cast(InterQJournal, node), node.hear)]
    with RpcServer(services, "127.0.0.1", 0, handlers=2) as server:
        yield server


@pytest.fixture
def client(server: RpcServer) -> Iterator[QJournalClient]:
    with QJournalClient(*server.address, user="hdfs", timeout=600.0) as client:
        yield client


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("is_formatted", ("j1",), {}),
    ("format", ("j1", NAMESPACE), {"force": True}),
    ("get_journal_state", ("j1",), {}),
    ("new_epoch", ("j1", NAMESPACE, 3), {}),
    ("start_log_segment", (REQUEST, 11, -66), {}),
    ("journal", (REQUEST, 11, 12, 3, b"\x00records\xff"), {}),
    ("heartbeat", (REQUEST,), {}),
    ("finalize_log_segment", (REQUEST, 11, 20), {}),
    ("purge_logs", (REQUEST, 11), {}),
    ("get_edit_log_manifest", ("j1", INVALID_TXID), {"in_progress_ok": True}),
    ("get_journaled_edits", ("j1", 12, 5000), {}),
    ("prepare_recovery", (REQUEST, 11), {}),
    ("accept_recovery", (REQUEST, SEGMENT, "http://jn/getJournal?x"), {}),
    ("get_journal_ctime", ("j1",), {}),
    ("do_pre_upgrade", ("j1",), {}),
    ("do_upgrade", ("j1", STORAGE), {}),
    ("do_finalize", ("j1",), {}),
    ("can_roll_back", ("j1", STORAGE, STORAGE, -63), {}),
    ("do_rollback", ("j1",), {}),
    ("discard_segments", ("j1", 11), {}),
]


@pytest.mark.parametrize(("method", "args", "options"), CALLS, ids=[call[0] for call in CALLS])
def test_every_call_and_its_response_are_delivered(
    node: FakeNode, client: QJournalClient, method: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    assert getattr(client, method)(*args, **options) == ANSWERS.get(method)
    assert node.reported == [(method, *args, *options.values())]


def test_cases_cover_every_call_of_the_protocol() -> None:
    names = {name for name in vars(QJournal) if not name.startswith("_")}
    assert {call[0] for call in CALLS} == names


def test_responses_without_a_segment_or_recovery(node: FakeNode, client: QJournalClient) -> None:
    nothing = PreparedRecovery(None, None, 0, None)
    for method, answer in {"new_epoch": None, "prepare_recovery": nothing}.items():
        node.__dict__[method] = lambda *_, answer=answer: answer
    assert client.new_epoch("j1", NAMESPACE, 3) is None
    assert client.prepare_recovery(REQUEST, 11) == nothing


@pytest.mark.parametrize(
    "error",
    [
        AssertionRemoteError,
        EditsCacheMissError,
        IllegalArgumentRemoteError,
        IllegalStateError,
        InconsistentStorageError,
        JavaIOError,
        JournalNotFormattedError,
        JournalOutOfSyncError,
        NewerTxidError,
    ],
)
def test_refusals_arrive_as_their_java_class(node: FakeNode, client: QJournalClient, error: type[RemoteError]) -> None:
    node.refusal = error("because of 12")
    with pytest.raises(error, match="because of 12") as caught:
        client.heartbeat(REQUEST)
    assert type(caught.value) is error
    assert caught.value.class_name == error.java_class
    assert caught.value.hint
    assert len(node.reported) == 1


def test_node_requests_segments_and_namespace_of_a_peer(server: RpcServer, node: FakeNode) -> None:
    with InterQJournalClient(*server.address, user="hdfs", nameservice="ns") as peer:
        found = peer.get_edit_log_manifest("j1", 5, in_progress_ok=False)
        assert peer.get_storage_info("j1") == STORAGE
    assert found == ANSWERS["get_edit_log_manifest"]
    assert node.reported == [("get_edit_log_manifest", "j1", 5, False), ("get_storage_info", "j1")]
    assert node.received == [("j1", "ns"), ("j1", "ns")]


def test_nameservice_of_a_call_is_received(server: RpcServer, node: FakeNode, client: QJournalClient) -> None:
    client.is_formatted("j1")
    client.heartbeat(RequestInfo("j1", 3, 4))
    assert not node.received
    with QJournalClient(*server.address, user="hdfs", nameservice="ns") as reported:
        reported.is_formatted("j2")
        reported.do_rollback("j3")
        reported.heartbeat(RequestInfo("j4", 3, 4, nameservice="other"))
    assert node.received == [("j2", "ns"), ("j3", "ns"), ("j4", "other")]


def handle(node: FakeNode, method: str, message: Any) -> None:
    caller = CallContext("hdfs", "", "127.0.0.1", "", b"", 0, 0)
    qjournal_service(cast(QJournal, node)).methods[method].handler(message, caller)


@pytest.mark.parametrize(("reported", "received"), [(None, True), (True, True), (False, False)])
def test_format_without_a_force_field_means_no_force(node: FakeNode, reported: bool | None, received: bool) -> None:
    journal, namespace = pb.JournalIdProto(identifier="j1"), namespace_to_message(NAMESPACE)
    handle(node, "format", pb.FormatRequestProto(jid=journal, nsInfo=namespace, force=reported))
    assert node.reported == [("format", "j1", NAMESPACE, received)]


def test_start_without_a_layout_means_the_layout_of_2_7(node: FakeNode) -> None:
    handle(node, "startLogSegment", pb.StartLogSegmentRequestProto(reqInfo=request_info_message(REQUEST), txid=11))
    assert node.reported == [("start_log_segment", REQUEST, 11, -63)]
