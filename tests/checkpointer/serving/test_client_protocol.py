"""Reads of a served namespace over ClientProtocol: state ids, refusals, and the same responses as over WebHDFS."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpointer.serving import live_namespace
from checkpointer.serving.client_protocol import namespace_services
from checkpointer.serving.live_namespace import LiveNamespace
from checkpointer.serving.read_servers import ReadServers
from engine.live_browser import LiveBrowser
from engine.observer import SilentObserver
from engine.warm_namespace import WarmNamespace
from hadoop_rpc.client_messages import inode_message
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.client_values import ClientInode, ClientInodeType
from hadoop_rpc.errors import HealthCheckFailedError, RemoteError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext
from image_format.permission import AclScope, AclType
from image_tools import namespace_reads
from image_tools.namespace_browser import NamespaceBrowser
from image_tools.permission_checker import ReadRefusedError
from journal import ops
from journal.ops import EditOp
from node_state.state import RoleDetails
from tests.checkpointer.service_support import FakeRole, standby_config
from tests.engine.image_builder import BASE_TXID, numbered
from tests.engine.op_makers import add, mkdir, set_permissions
from tests.namenode_stub.stub_support import wait_until

STANDBY = "org.apache.hadoop.ipc.StandbyException"
RETRY_ON_ACTIVE = "org.apache.hadoop.ipc.ObserverRetryOnActiveException"
DENIED = "org.apache.hadoop.security.AccessControlException"
ENTRY = ops.AclEntry(AclType.USER, AclScope.ACCESS, 5, "bob")
OPS: list[EditOp] = [
    mkdir("/open", 20001),
    mkdir("/open/inner", 20002),
    mkdir("/closed", 20003),
    set_permissions("/closed", 0o700),
    set_permissions("/open", 0o755),
    ops.SetAclOp(
        src="/open/inner",
        acl_entries=(
            ops.AclEntry(AclType.USER, AclScope.ACCESS, 7, None),
            ENTRY,
            ops.AclEntry(AclType.GROUP, AclScope.ACCESS, 5, None),
            ops.AclEntry(AclType.MASK, AclScope.ACCESS, 5, None),
            ops.AclEntry(AclType.OTHER, AclScope.ACCESS, 5, None),
        ),
    ),
    ops.SetXAttrOp(src="/open", xattrs=(ops.XAttr(0, "a", b"1"), ops.XAttr(1, "b", b"2"))),
    mkdir("/s", 20004),
    ops.AllowSnapshotOp(snapshot_root="/s"),
    ops.CreateSnapshotOp(snapshot_root="/s", snapshot_name="s1"),
]
LAST = BASE_TXID + len(OPS)


@pytest.fixture
def live(warm: WarmNamespace) -> LiveNamespace:
    config = replace(standby_config(), permissions=True)
    return LiveNamespace(
        FakeRole(), warm, config, owner="hdfs", authenticated=False, groups_of=lambda user: frozenset()
    )


class Reader(ProtocolClient):
    protocol = CLIENT_PROTOCOL

    def file_info(self, path: str) -> Any:
        return self._call("getFileInfo", pb.PathRequestProto(src=path))


Ask = Callable[..., Any]


@pytest.fixture
def ask(live: LiveNamespace) -> Ask:
    def asked(
        method: str,
        user: str = "hdfs",
        *,
        state_id: int | None = None,
        strict: bool = False,
        real_user: str = "",
        protocol: str = CLIENT_PROTOCOL.name,
        **fields: Any,
    ) -> Any:
        services = {each.protocol: each for each in namespace_services(live, needs_state_id=strict)}
        found = services[protocol].methods.get(method)
        assert found is not None
        context = CallContext(user, real_user, "127.0.0.1", protocol, b"", 0, 0, state_id)
        return found.handler(found.request(**fields), context)

    return asked


def refusal(ask: Ask, method: str, *args: Any, **more: Any) -> tuple[str, str]:
    with pytest.raises(RemoteError) as caught:
        ask(method, *args, **more)
    return caught.value.class_name, caught.value.text


def test_client_without_a_state_id_is_referred_to_the_active(ask: Ask) -> None:
    java_class, text = refusal(ask, "getFileInfo", src="/open", strict=True)
    assert java_class == STANDBY
    assert "ObserverReadProxyProvider" in text
    for state_id in (-(1 << 63), LAST):
        assert ask("getFileInfo", src="/open", strict=True, state_id=state_id).fs.fileId == 20001


def test_call_waits_for_the_state_id_of_its_client(ask: Ask, warm: WarmNamespace) -> None:
    java_class, _ = refusal(ask, "getFileInfo", src="/later", state_id=LAST + 1)
    assert java_class == "org.apache.hadoop.ipc.RetriableException"
    warm.apply(list(numbered([mkdir("/later", 20009)], LAST)))
    assert ask("getFileInfo", src="/later", state_id=LAST + 1).fs.fileId == 20009


def test_status_listing_and_content_summary(ask: Ask) -> None:
    status = ask("getFileInfo", src="//open/inner/").fs
    assert (status.permission.perm, status.flags, status.childrenNum) == (0o755, 1, 0)
    assert not ask("getFileInfo", src="/none").HasField("fs")
    assert not ask("getListing", src="/none", startAfter=b"", needLocation=False).HasField("dirList")
    listed = ask("getListing", src="/", startAfter=b"closed", needLocation=False).dirList
    assert b"open" in [each.path for each in listed.partialListing]
    assert b"closed" not in [each.path for each in listed.partialListing]
    summary = ask("getContentSummary", src="/open").summary
    assert (summary.directoryCount, summary.fileCount, summary.erasureCodingPolicy) == (2, 0, "")
    assert ask("getQuotaUsage", src="/open").usage.fileAndDirectoryCount == 2
    assert refusal(ask, "getContentSummary", src="/none")[1] == "File does not exist: /none"
    assert ask("getStoragePolicy", src="/open").storagePolicy.name == "HOT"
    assert "COLD" in [each.name for each in ask("getStoragePolicies").policies]
    assert not ask("getErasureCodingPolicy", src="/open").HasField("ecPolicy")


@pytest.mark.parametrize(("hadoop3", "sent"), [(True, b"\x08\xe9\x03"), (False, b"\x08\xe9\x63")])
@pytest.mark.parameters(2)
def test_permission_bits_of_hadoop_2_and_3(hadoop3: bool, sent: bytes) -> None:
    inode = ClientInode(
        ClientInodeType.DIRECTORY, 7, b"d", "u", "g", 0o751, has_acl=True, encrypted=True, hadoop3=hadoop3
    )
    message = inode_message(inode)
    assert (message.permission.SerializeToString(), message.flags) == (sent, 3)


def test_attributes_of_an_inode(ask: Ask) -> None:
    acl = ask("getAclStatus", src="/open/inner").result
    assert [(each.name, each.permissions) for each in acl.entries if each.name] == [("bob", 5)]
    assert acl.permission.perm == 0o755
    wanted = [{"namespace": 0, "name": "a"}]
    assert [each.value for each in ask("getXAttrs", src="/open", xAttrs=wanted).xAttrs] == [b"1"]
    assert [each.name for each in ask("listXAttrs", src="/open").xAttrs] == ["a", "b"]
    assert [each.name for each in ask("listXAttrs", "erin", src="/open").xAttrs] == ["a"]


def test_permission_checks_are_those_of_webhdfs(ask: Ask) -> None:
    java_class, text = refusal(ask, "getListing", "erin", src="/closed", startAfter=b"", needLocation=False)
    assert java_class == DENIED
    assert text.startswith('Permission denied: user=erin, access=READ_EXECUTE, inode="/closed"')
    assert refusal(ask, "getFileInfo", "erin", src="/closed/x")[0] == DENIED
    assert refusal(ask, "checkAccess", "erin", path="/open", mode=2)[0] == DENIED
    ask("checkAccess", "erin", path="/open", mode=5)
    assert refusal(ask, "getFileInfo", "erin", src="/", real_user="proxy")[0] == DENIED


def test_caller_may_act_for_itself_with_its_own_permissions(ask: Ask) -> None:
    assert ask("getFileInfo", "erin", src="/open/inner", real_user="erin").fs.fileId == 20002
    java_class, text = refusal(ask, "getFileInfo", "erin", src="/closed/x", real_user="erin")
    assert java_class == DENIED
    assert "user=erin" in text
    # the superuser hdfs may not act for others, and others may not act for the superuser
    for user, real_user in (("erin", "hdfs"), ("hdfs", "erin")):
        java_class, text = refusal(ask, "getFileInfo", user, src="/closed/x", real_user=real_user)
        assert (java_class, text) == (DENIED, f"User: {real_user} is not allowed to impersonate {user}")


def test_impersonation_is_referred_to_the_active(ask: Ask) -> None:
    """After any other exception, a client with failover does not try another NameNode."""
    asked = {"src": "/", "strict": True, "real_user": "proxy"}
    assert refusal(ask, "getFileInfo", "erin", **asked)[0] == STANDBY
    assert refusal(ask, "getFileInfo", "erin", state_id=LAST, **asked)[0] == RETRY_ON_ACTIVE


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("getFileInfo", {"src": "/" + "x" * 8000}),
        ("getListing", {"src": "/x" * 1001, "startAfter": b"", "needLocation": False}),
        ("checkAccess", {"path": "/x" * 1001, "mode": 1}),
        ("getXAttrs", {"src": "/open", "xAttrs": [{"namespace": 0, "name": "a"}] * 1001}),
    ],
)
def test_large_request_is_rejected_before_the_namespace_is_locked(
    ask: Ask, method: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(WarmNamespace, "reading")
    java_class, text = refusal(ask, method, **fields)
    assert java_class == "java.io.IOException"
    assert "1000" in text


def test_groups_are_looked_up_before_the_namespace_is_locked(warm: WarmNamespace) -> None:
    looked_up = []

    def groups_of(user: str) -> frozenset[str]:
        with warm.reading(0, 0):
            looked_up.append(user)
        return frozenset()

    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False, groups_of=groups_of)
    (service, *_) = namespace_services(live, needs_state_id=False)
    method = service.methods["getFileInfo"]
    for _ in range(2):
        context = CallContext("erin", "", "127.0.0.1", service.protocol, b"", 0, 0)
        assert method.handler(method.request(src="/"), context).HasField("fs")
    assert looked_up == ["erin"]


def test_calls_without_namespace_are_answered_while_an_image_is_saved(
    ask: Ask, warm: WarmNamespace, tmp_path: Path
) -> None:
    states = []

    class Asking(SilentObserver):
        def phase(self, name: str, expected: int | None = None) -> None:
            states.append(ask("getHAServiceState").state)
            assert refusal(ask, "getFileInfo", src="/", strict=True)[0] == STANDBY
            assert refusal(ask, "mkdirs")[0] == STANDBY

    folder = tmp_path / "saved"
    folder.mkdir()
    assert ask("getHAServiceState").state == HAState.OBSERVER.value
    warm.save([folder], observer=Asking())
    assert states == [HAState.STANDBY.value]
    assert ask("getHAServiceState").state == HAState.OBSERVER.value
    warm.close()
    assert ask("getHAServiceState").state == HAState.STANDBY.value


def test_node_that_reads_no_edits_reports_standby(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRole, "details", lambda self: RoleDetails(tailing_lag_seconds=3600.0))
    assert ask("getHAServiceState").state == HAState.STANDBY.value


def test_renew_lease_is_answered_only_without_a_lease(
    ask: Ask, warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Go client renews its lease each second, and other clients renew leases only while they write."""
    writer, reader = "go-hdfs-0123456789abcdef", "go-hdfs-fedcba9876543210"
    warm.apply(list(numbered([add("/open/f", 20009, client_name=writer), add("/g", 20010)], LAST)))

    def check() -> None:
        assert ask("renewLease", clientName=reader) == pb.EmptyProto()
        for client in (writer, "client", "DFSClient_NONMAPREDUCE_1_1"):
            assert refusal(ask, "renewLease", clientName=client)[0] == STANDBY

    check()
    warm.save([tmp_path])
    check()
    assert refusal(ask, "renewLease", clientName=reader, strict=True)[0] == STANDBY
    monkeypatch.setattr(FakeRole, "details", lambda self: RoleDetails(tailing_lag_seconds=3600.0))
    # this node may not know a file that the client has opened in the meantime
    assert refusal(ask, "renewLease", clientName=reader)[0] == STANDBY


def test_number_of_calls_waiting_for_a_transaction_is_limited(
    warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_namespace, "MAX_WAITING", 0)
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    # the first reader occupies the namespace, so the second reader waits only for a moment
    with live.reading(0), pytest.raises(ReadRefusedError, match="repeat the request"), live.reading(0):
        pass
    with pytest.raises(ReadRefusedError, match="repeat the request"), live.reading(warm.last_txid + 1):
        pass


def test_calls_wait_while_an_image_is_saved(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """More clients than threads wait; other calls are answered in the meantime, and reads are answered once the image
    is saved.
    """
    # a busy machine is not a fault
    monkeypatch.setattr(live_namespace, "WAIT_SECONDS", 600)
    monkeypatch.setattr(live_namespace, "SHORT_WAIT_SECONDS", 600)
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    services = namespace_services(live, needs_state_id=False)
    with ExitStack() as ending, ThreadPoolExecutor(30) as pool:
        server = ending.enter_context(RpcServer(services, "127.0.0.1", 0))
        with warm.gate.occupying(), warm.gate.changing():
            readers = [ending.enter_context(Reader(*server.address, user="hdfs")) for _ in range(30)]
            answers = [pool.submit(reader.file_info, "/open") for reader in readers]
            # one of the ten threads is reserved for callers from other hosts
            wait_until("reads wait for a thread", lambda: server.queue_length == 21)
            with HAServiceClient(*server.address, user="hdfs") as controller:
                assert controller.service_status().state is HAState.STANDBY
            assert not any(answer.done() for answer in answers)
        assert {answer.result(600).fs.fileId for answer in answers} == {20001}


def test_time_waiting_for_a_thread_counts_for_calls(warm: WarmNamespace) -> None:
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    with warm.gate.occupying():
        for waited in (live_namespace.WAIT_SECONDS, 10 * live_namespace.WAIT_SECONDS):
            with pytest.raises(ReadRefusedError, match="not available"), live.reading(0, waited):
                pass
    with live.reading(0, 10 * live_namespace.WAIT_SECONDS) as browser:
        assert browser.root() is not None


def test_snapshottable_directories_and_snapshots(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = ask("getSnapshottableDirListing").snapshottableDirList.snapshottableDirListing
    assert (found.dirStatus.path, found.snapshot_number, found.parent_fullpath) == (b"s", 1, b"/")
    assert not ask("getSnapshottableDirListing", "erin").HasField("snapshottableDirList")
    with monkeypatch.context() as without_paths:
        # finding a path may read the whole image, so only the paths of the caller's own directories are determined
        without_paths.delattr(NamespaceBrowser, "chain")
        assert not ask("getSnapshottableDirListing", "erin").HasField("snapshottableDirList")
    paused: list[int] = []
    with monkeypatch.context() as counting:
        counting.setattr(LiveBrowser, "pause", lambda self: paused.append(self.txid))
        counting.setattr(namespace_reads, "BATCH_SECONDS", 3600)
        ask("getSnapshottableDirListing")
        assert not paused
        counting.setattr(namespace_reads, "BATCH_SECONDS", 0)
        ask("getSnapshottableDirListing")
    assert len(paused) == 1
    (root,) = ask("getSnapshotListing", src="/s").snapshotList.snapshotListing
    assert (root.dirStatus.path, root.parent_fullpath) == (b"s1", b"/s")
    listed = ask("getListing", src="/s/.snapshot", startAfter=b"", needLocation=False).dirList
    assert [each.path for each in listed.partialListing] == [b"s1"]
    assert ask("getFileInfo", src="/s/.snapshot").fs.permission.perm == 0o777
    assert ask("getListing", src="/s/.snapshot/s1", startAfter=b"", needLocation=False).dirList.remainingEntries == 0
    assert ask("getFileInfo", src="/s/.snapshot/s1").fs.path == b""


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("mkdirs", {}),
        ("delete", {}),
        ("getBlockLocations", {}),
        ("getListing", {"src": "/", "startAfter": b"", "needLocation": True}),
        # with wrong server defaults, a client would delete files permanently instead of moving them to the trash
        ("getServerDefaults", {}),
        ("msync", {}),
        ("aMethodOfALaterRelease", {}),
    ],
)
def test_unsupported_methods_are_referred_to_the_active(ask: Ask, method: str, fields: dict[str, Any]) -> None:
    assert refusal(ask, method, **fields)[0] == STANDBY
    # a client that reads from observers then asks the active NameNode immediately
    assert refusal(ask, method, state_id=LAST, **fields)[0] == RETRY_ON_ACTIVE


def test_balancer_is_referred_to_the_active(ask: Ask) -> None:
    assert refusal(ask, "getBlocks", protocol=NAMENODE_PROTOCOL.name)[0] == STANDBY


def test_an_address_for_reads_that_is_in_use_raises_an_alarm_and_is_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as namenode:
        host, port = namenode.getsockname()
        servers = ReadServers([lambda: RpcServer([], host, port)])
        (job,) = servers.jobs()
        job.run()
        (alarm,) = servers.alarms()
        assert "reads are not answered over RPC" in alarm
        assert "leave it running" in alarm.hint
    job.run()
    assert servers.alarms() == []
    with socket.create_connection((host, port)):
        servers.close()


def test_node_reports_observer_and_refuses_transitions(live: LiveNamespace) -> None:
    services = namespace_services(live, needs_state_id=True)
    with (
        RpcServer(services, "127.0.0.1", 0, state_id=lambda: live.applied_txid) as server,
        HAServiceClient(*server.address, user="hdfs") as client,
    ):
        status = client.service_status()
        assert (status.state, status.ready_to_become_active) == (HAState.OBSERVER, False)
        with pytest.raises(HealthCheckFailedError):
            client.monitor_health()
        for change in (client.transition_to_active, client.transition_to_standby, client.transition_to_observer):
            with pytest.raises(RemoteError, match="cannot become active"):
                change()
