"""NamenodeProtocol, HAServiceProtocol and JournalProtocol: every value arrives unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.access import AccessControl, AccessRules, Right
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import (
    AccessControlError,
    HealthCheckFailedError,
    RemoteError,
    RpcError,
    ServiceFailedError,
    StandbyError,
    remote_error,
)
from hadoop_rpc.ha_protocol import HAServiceClient, HAState, RequestSource, ServiceStatus, ha_service
from hadoop_rpc.journal_protocol import FenceResult, JournalClient, JournalInfo, journal_service
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
from hadoop_rpc.namenode_protocol import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    NamenodeClient,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    NodeErrorCode,
    RemoteEditLog,
    namenode_service,
)
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, access_checked
from hadoop_rpc.zkfc_protocol import ZKFCClient, zkfc_service

ints = st.integers(-(1 << 31), (1 << 31) - 1)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text(max_size=30)


def infos(*, pool: bool) -> st.SearchStrategy[StorageInfo]:
    blocks = names if pool else st.just("")
    return st.builds(
        StorageInfo, layout_version=ints, namespace_id=ints, c_time=longs, cluster_id=names, blockpool_id=blocks
    )


signatures = st.builds(CheckpointSignature, infos(pool=True), longs, longs)
registrations = st.builds(NamenodeRegistration, names, names, infos(pool=False), st.sampled_from(NamenodeRole))
manifests = st.builds(
    EditLogManifest,
    st.lists(st.builds(RemoteEditLog, longs, longs, st.booleans()), max_size=5).map(tuple),
    st.none() | longs,
)
namespaces = st.builds(
    NamespaceInfo, infos(pool=True), names, names, st.sampled_from(["", "ACTIVE", "STANDBY", "OBSERVER"])
)


@given(signatures, registrations, manifests, namespaces)
def test_values_round_trip(
    signature: CheckpointSignature, registration: NamenodeRegistration, manifest: EditLogManifest, info: NamespaceInfo
) -> None:
    assert signature_of(_sent(signature_message(signature))) == signature
    assert registration_of(_sent(registration_message(registration))) == registration
    assert manifest_of(_sent(manifest_message(manifest))) == manifest
    assert namespace_info_of(_sent(namespace_message(info))) == info


def _sent(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


INFO = StorageInfo(-63, 7, 0, "CID-x", "BP-1-127.0.0.1-1")
OWN = NamenodeRegistration("nn:8020", "nn:9870", StorageInfo(-63, 7, 0, "CID-x"), NamenodeRole.NAMENODE)
BACKUP = NamenodeRegistration("bn:50100", "bn:50105", StorageInfo(-63, 7, 0, "CID-x"), NamenodeRole.BACKUP)
SIGNATURE = CheckpointSignature(INFO, 10, 21)


@dataclass
class FakeNode:
    """A node that records its calls and responds with fixed values, some of which no NameNode returns."""

    reported: list[Any] = field(default_factory=list)
    command: CheckpointCommand | None = None

    def transaction_id(self, caller: CallContext) -> int:
        return 20

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int:
        return -12345

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature:
        if caller.user != "hdfs":
            raise StandbyError(f"not for {caller.user}")
        return SIGNATURE

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        return NamespaceInfo(INFO, "build", "3.4.1", "ACTIVE")

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest:
        return EditLogManifest((RemoteEditLog(since, 20),), 20)

    def is_upgrade_finalized(self, caller: CallContext) -> bool:
        return True

    def is_rolling_upgrade(self, caller: CallContext) -> bool:
        return False

    def register(self, registration: NamenodeRegistration, caller: CallContext) -> NamenodeRegistration:
        self.reported.append(registration)
        return OWN

    def start_checkpoint(self, registration: NamenodeRegistration, caller: CallContext) -> CheckpointCommand | None:
        self.reported.append(registration)
        return self.command

    def end_checkpoint(
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None:
        self.reported.append((registration, signature))

    def error_report(self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext) -> None:
        self.reported.append((registration, code, text))

    def service_status(self, caller: CallContext) -> ServiceStatus:
        return ServiceStatus(HAState.STANDBY, False, "edits are missing")

    def monitor_health(self, caller: CallContext) -> None:
        raise RemoteError("no disk", class_name="org.apache.hadoop.ha.HealthCheckFailedException")

    def transition_to_active(self, source: RequestSource, caller: CallContext) -> None:
        self.reported.append(("active", source, caller.user))

    def transition_to_standby(self, source: RequestSource, caller: CallContext) -> None:
        raise ServiceFailedError("it fails")

    def transition_to_observer(self, source: RequestSource, caller: CallContext) -> None:
        self.reported.append(("observer", source, caller.user))

    def cede_active(self, milliseconds: int) -> None:
        self.reported.append(("cede", milliseconds))

    def graceful_failover(self) -> None:
        raise ServiceFailedError("no other node is active")

    def journal(
        self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes, caller: CallContext
    ) -> None:
        self.reported.append((info, epoch, first_txid, count, records))

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int, caller: CallContext) -> None:
        self.reported.append((info, epoch, txid))

    def fence(self, info: JournalInfo, epoch: int, fencer: str, caller: CallContext) -> FenceResult:
        return FenceResult(epoch - 1, 20, True)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def server(node: FakeNode) -> Iterator[RpcServer]:
    services = [namenode_service(node), ha_service(node), journal_service(node), zkfc_service(node)]
    with RpcServer(services, "127.0.0.1", 0) as running:
        yield running


def test_calls_of_a_namenode_client(server: RpcServer, node: FakeNode) -> None:
    with NamenodeClient(*server.address, user="hdfs") as namenode:
        assert namenode.transaction_id() == 20
        assert namenode.most_recent_checkpoint_txid() == -12345
        assert namenode.roll_edit_log() == SIGNATURE
        assert namenode.version_request() == NamespaceInfo(INFO, "build", "3.4.1", "ACTIVE")
        assert namenode.edit_log_manifest(11) == EditLogManifest((RemoteEditLog(11, 20),), 20)
        assert namenode.is_upgrade_finalized()
        assert not namenode.is_rolling_upgrade()
        assert namenode.register(BACKUP) == OWN
        assert namenode.start_checkpoint(BACKUP) is None
        node.command = CheckpointCommand(SIGNATURE, True)
        assert namenode.start_checkpoint(BACKUP) == node.command
        namenode.end_checkpoint(BACKUP, SIGNATURE)
        namenode.error_report(BACKUP, NodeErrorCode.FATAL, "stopping")
    assert node.reported == [BACKUP, BACKUP, BACKUP, (BACKUP, SIGNATURE), (BACKUP, 1, "stopping")]


def test_call_to_a_standby_namenode_is_refused(server: RpcServer) -> None:
    with NamenodeClient(*server.address, user="guest") as namenode, pytest.raises(StandbyError, match="not for guest"):
        namenode.roll_edit_log()


def test_calls_of_an_ha_service_client(server: RpcServer, node: FakeNode) -> None:
    with HAServiceClient(*server.address, user="hdfs") as namenode:
        assert namenode.service_status() == ServiceStatus(HAState.STANDBY, False, "edits are missing")
        with pytest.raises(HealthCheckFailedError, match="no disk"):
            namenode.monitor_health()
        namenode.transition_to_active()
        namenode.transition_to_active(RequestSource.USER_FORCED)
        with pytest.raises(ServiceFailedError, match="it fails"):
            namenode.transition_to_standby(RequestSource.ZKFC)
        namenode.transition_to_observer(RequestSource.USER)
    assert node.reported == [
        ("active", RequestSource.USER, "hdfs"),
        ("active", RequestSource.USER_FORCED, "hdfs"),
        ("observer", RequestSource.USER, "hdfs"),
    ]


def test_calls_of_a_zkfc_client(server: RpcServer, node: FakeNode) -> None:
    with ZKFCClient(*server.address, user="hdfs") as controller:
        for milliseconds in (10_000, 0, -1, -(1 << 31), (1 << 31) - 1):
            controller.cede_active(milliseconds)
        with pytest.raises(ServiceFailedError, match="no other node"):
            controller.graceful_failover()
    assert node.reported == [("cede", each) for each in (10_000, 0, -1, -(1 << 31), (1 << 31) - 1)]


def test_calls_of_a_journal_client(server: RpcServer, node: FakeNode) -> None:
    info = JournalInfo.of(INFO)
    with JournalClient(*server.address, user="hdfs") as backup:
        backup.start_log_segment(info, 3, 21)
        backup.journal(info, 3, 21, 2, b"\x00records")
    assert node.reported == [(info, 3, 21), (info, 3, 21, 2, b"\x00records")]


@pytest.mark.parametrize(
    ("user", "real_user", "refused"),
    [
        ("hdfs", "", ""),
        ("hdfs", "proxy", ""),
        ("alice", "", "alice"),
        ("alice", "proxy", "alice"),
        ("hdfs", "alice", "alice"),
        ("alice", "alice", "alice"),
    ],
)
@pytest.mark.parameters(6)
def test_impersonation_requires_that_both_users_may_call(
    node: FakeNode, user: str, real_user: str, refused: str
) -> None:
    access = AccessControl(AccessRules(users=frozenset({"hdfs", "proxy"})))
    service = access_checked(journal_service(node), access, lambda method: Right.CHANGE)
    method = service.methods["startLogSegment"]
    context = CallContext(user, real_user, "10.0.0.9", service.protocol, b"", 0, 0)
    request = method.request(journalInfo={"clusterID": "CID"}, epoch=3, txid=21)
    if refused:
        with pytest.raises(AccessControlError, match=f"startLogSegment is not allowed for user '{refused}'"):
            method.handler(request, context)
    else:
        method.handler(request, context)
    assert len(node.reported) == (not refused)


def test_every_registered_exception_is_mapped_to_its_class() -> None:
    found = set()
    kinds = [RemoteError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        error = remote_error(kind.java_class, f"{kind.java_class}: said\n\tat org.apache.Foo.bar(Foo.java:1)")
        assert error.class_name == kind.java_class
        assert error.text == "said"
        assert error.hint
        found.add(kind.java_class)
    assert {"java.lang.IllegalStateException", "org.apache.hadoop.ipc.StandbyException"} < found
    assert isinstance(remote_error("org.example.Unheard", ""), RpcError)


def test_multiline_remote_message_becomes_one_line() -> None:
    text = "Name node is in safe mode.\nThe reported blocks 0 needs additional 9 blocks.\n\tat org.Foo.bar(Foo.java:1)"
    error = remote_error("org.apache.hadoop.hdfs.server.namenode.SafeModeException", text)
    assert "safe mode. The reported blocks 0 needs additional 9 blocks." in error.message
    assert "\n" not in error.message
    assert "leaves safe mode on its own" in error.hint


@pytest.mark.parametrize(
    ("tip", "hint"),
    [
        ("It was turned on manually. Use ...", "stays on until an operator ends it. Find out who turned it on"),
        (
            "Resources are low on NN. Please add or free up more resourcesthen turn off safe mode manually. NOTE: ...",
            "Up to Hadoop 3.3, an operator must then end safe mode",
        ),
        (
            "Resources are low on NN. Please add or free up more resources. NOTE: ...",
            "The NameNode then ends safe mode",
        ),
        ("Name node detected blocks with generation stamps in future. This ...", "Do not force it out of safe mode"),
    ],
)
def test_permanent_safe_mode_has_its_own_hint(tip: str, hint: str) -> None:
    text = f"Log not rolled. Name node is in safe mode.\n{tip} NamenodeHostName:nn1"
    error = remote_error("org.apache.hadoop.hdfs.server.namenode.SafeModeException", text)
    assert hint in error.hint
    assert "on its own" not in error.hint
