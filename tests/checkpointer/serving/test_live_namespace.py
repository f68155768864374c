"""Reads of the namespace of a standby over WebHDFS: permissions, position, limits and refusals."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from typing import Any

import pytest
from flask.testing import FlaskClient

from checkpointer.serving import live_namespace
from checkpointer.serving.live_namespace import MAX_AHEAD, MAX_LONG, MAX_WAITING, LiveNamespace
from engine import live_content
from engine.live_browser import LiveBrowser
from engine.warm_namespace import WarmNamespace
from image_format.permission import AclScope, AclType
from image_tools.permission_checker import ReadRefusedError
from journal import ops
from journal.ops import EditOp
from journal.values import XATTR_NAMESPACES
from servlets.application import create_application
from servlets.http_request import WAITED
from servlets.http_server import READ_THREADS, HttpServer
from servlets.webhdfs import webhdfs_blueprint
from tests.checkpointer.service_support import FakeRole, standby_config
from tests.engine.image_builder import BASE_TXID, numbered
from tests.engine.op_makers import delete, mkdir, set_permissions
from tests.namenode_stub.stub_support import wait_until

GROUPS = {"erin": frozenset({"staff"}), "admin": frozenset({"supergroup"})}
DENIED = "org.apache.hadoop.security.AccessControlException"
STANDBY = "org.apache.hadoop.ipc.StandbyException"
ENTRIES = (
    ops.AclEntry(AclType.USER, AclScope.ACCESS, 7, None),
    ops.AclEntry(AclType.USER, AclScope.ACCESS, 5, "bob"),
    ops.AclEntry(AclType.GROUP, AclScope.ACCESS, 0, None),
    ops.AclEntry(AclType.GROUP, AclScope.ACCESS, 5, "staff"),
    ops.AclEntry(AclType.MASK, AclScope.ACCESS, 5, None),
    ops.AclEntry(AclType.OTHER, AclScope.ACCESS, 0, None),
)
OPS: list[EditOp] = [
    mkdir("/open", 20001),
    mkdir("/open/inner", 20002),
    mkdir("/closed", 20003),
    mkdir("/closed/inner", 20004),
    ops.SetOwnerOp(src="/closed", username="owner", groupname="staff"),
    set_permissions("/closed", 0o700),
    set_permissions("/open", 0o755),
    set_permissions("/open/inner", 0o755),
    mkdir("/acl", 20005),
    ops.SetAclOp(src="/acl", acl_entries=ENTRIES),
]


@pytest.fixture
def client(warm: WarmNamespace) -> FlaskClient:
    return client_of(warm)


def client_of(warm: WarmNamespace, *, authenticated: bool = False, permissions: bool = True) -> FlaskClient:
    live = LiveNamespace(
        FakeRole(),
        warm,
        replace(standby_config(), permissions=permissions),
        owner="hdfs",
        authenticated=authenticated,
        groups_of=lambda user: GROUPS.get(user, frozenset()),
    )
    return create_application(webhdfs_blueprint(live)).test_client()


def asked(client: FlaskClient, path: str, op: str, user: str = "guest", **more: str | int) -> Any:
    return client.get(f"/webhdfs/v1{path}", query_string={"op": op, "user.name": user, **more}, buffered=True)


def test_response_contains_its_transaction(client: FlaskClient, warm: WarmNamespace) -> None:
    answer = asked(client, "/open", "GETFILESTATUS", min_txid=warm.last_txid)
    assert answer.json["FileStatus"]["fileId"] == 20001
    assert answer.headers["X-Checkpointer-Txid"] == str(BASE_TXID + len(OPS))
    assert answer.headers["X-Checkpointer-Lag-Transactions"] == "unknown"
    later = asked(client, "/open", "GETFILESTATUS", min_txid=warm.last_txid + 1)
    assert later.status_code == 403
    assert later.json["RemoteException"]["exception"] == "RetriableException"
    assert asked(client, "/", "GETFILESTATUS", min_txid="x").status_code == 400


@pytest.mark.parametrize(
    ("path", "op", "user", "denied"),
    [
        ("/closed", "GETFILESTATUS", "guest", ""),
        ("/closed/inner", "GETFILESTATUS", "guest", "EXECUTE"),
        ("/closed/none", "GETFILESTATUS", "guest", "EXECUTE"),
        ("/closed", "LISTSTATUS", "erin", "READ_EXECUTE"),
        ("/closed", "LISTSTATUS_BATCH", "erin", "READ_EXECUTE"),
        ("/closed", "LISTSTATUS", "owner", ""),
        ("/closed/inner", "LISTSTATUS", "admin", ""),
        ("/closed/inner", "LISTSTATUS", "hdfs", ""),
        ("/", "GETCONTENTSUMMARY", "guest", "READ_EXECUTE"),
        ("/open", "GETCONTENTSUMMARY", "guest", ""),
        ("/closed", "GETXATTRS", "guest", "READ"),
        ("/closed", "GETACLSTATUS", "guest", ""),
        ("/acl", "LISTSTATUS", "bob", ""),
        ("/acl", "LISTSTATUS", "erin", ""),
        ("/acl", "LISTSTATUS", "guest", "READ_EXECUTE"),
    ],
)
def test_permission_checks_are_those_of_a_namenode(
    client: FlaskClient, path: str, op: str, user: str, denied: str
) -> None:
    answer = asked(client, path, op, user)
    if not denied:
        assert answer.status_code == 200
        return
    assert answer.status_code == 403
    reported = answer.json["RemoteException"]
    assert reported["javaClassName"] == DENIED
    assert reported["message"].startswith(f"Permission denied: user={user}, access={denied}, inode=")


def test_error_names_the_first_inaccessible_directory(client: FlaskClient) -> None:
    reported = asked(client, "/", "GETCONTENTSUMMARY", "erin").json["RemoteException"]
    assert reported["message"].endswith('access=READ_EXECUTE, inode="/closed":owner:staff:drwx------')


def test_permission_checks_can_be_disabled(warm: WarmNamespace) -> None:
    assert asked(client_of(warm, permissions=False), "/closed/inner", "LISTSTATUS").status_code == 200


def test_user_name_is_not_accepted_on_a_secure_cluster(warm: WarmNamespace) -> None:
    answer = asked(client_of(warm, authenticated=True), "/", "GETFILESTATUS", "hdfs")
    assert (answer.status_code, answer.json["RemoteException"]["javaClassName"]) == (403, DENIED)


@pytest.mark.parametrize("parameter", ["doas", "doAs", "delegation", "DELEGATION"])
@pytest.mark.parameters(4)
def test_impersonation_is_refused(client: FlaskClient, parameter: str) -> None:
    """A gateway that sends the name of its user must not pass on files that only the gateway may see."""
    answer = asked(client, "/closed/inner", "LISTSTATUS", "hdfs", **{parameter: "guest"})
    assert (answer.status_code, answer.json["RemoteException"]["javaClassName"]) == (403, DENIED)
    assert answer.json["RemoteException"]["message"] == f"this node does not accept {parameter.lower()}="


@pytest.mark.parametrize(
    ("method", "op"),
    # a client decides by the server defaults whether deleted files go to the trash
    [("get", "OPEN"), ("get", "GETFILECHECKSUM"), ("put", "MKDIRS"), ("get", "GETSERVERDEFAULTS")],
)
def test_unsupported_operations_are_referred_to_the_active(client: FlaskClient, method: str, op: str) -> None:
    answer = getattr(client, method)(f"/webhdfs/v1/open?op={op}&user.name=hdfs")
    assert answer.status_code == 403
    assert answer.json["RemoteException"]["javaClassName"] == STANDBY


def test_http_requests_wait_while_an_image_is_saved(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """If requests from three hosts outnumber the threads, some wait; other requests are answered in the meantime."""
    # a busy machine is not a fault
    monkeypatch.setattr(live_namespace, "WAIT_SECONDS", 600)
    monkeypatch.setattr(live_namespace, "SHORT_WAIT_SECONDS", 600)
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    application = create_application(webhdfs_blueprint(live))
    target = "/webhdfs/v1/open?op=GETFILESTATUS&user.name=hdfs"
    with ThreadPoolExecutor(30) as pool, HttpServer(application, "127.0.0.1", 0) as server:
        ask = partial(get_from, server.address, target)
        with warm.gate.occupying(), warm.gate.changing():
            answers = [pool.submit(ask, f"127.0.0.{1 + number % 3}") for number in range(30)]
            wait_until("reads wait for a thread", lambda: len(server._reads) == 30 - READ_THREADS)
            assert get_from(server.address, "/none", "127.0.0.1") == 404
            assert not any(answer.done() for answer in answers)
        assert {answer.result(600) for answer in answers} == {200}


def get_from(address: tuple[str, int], target: str, host: str) -> int:
    connection = HTTPConnection(*address, timeout=600, source_address=(host, 0))
    with closing(connection):
        connection.request("GET", target)
        return connection.getresponse().status


def test_time_waiting_for_a_thread_counts_for_requests(warm: WarmNamespace) -> None:
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    client = create_application(webhdfs_blueprint(live)).test_client()
    with warm.gate.occupying():
        target = "/webhdfs/v1/open?op=GETFILESTATUS&user.name=hdfs"
        reported = client.get(target, environ_overrides={WAITED: 10.0}).get_json()["RemoteException"]
    assert reported["exception"] == "RetriableException"


def test_number_of_waiting_requests_is_limited(client: FlaskClient, warm: WarmNamespace) -> None:
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    for _ in range(MAX_WAITING):
        live._waiting.acquire()
    with pytest.raises(ReadRefusedError, match="requests are already waiting"), live.reading(warm.last_txid + 1):
        pass
    with live.reading(warm.last_txid) as browser:
        assert browser.root() is not None


def test_number_of_long_requests_is_limited(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_content, "BATCH_SECONDS", 0)
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    with ExitStack() as long:
        for _ in range(MAX_LONG):
            # the gate admits one reader at a time; the other readers wait in a pause
            with warm.gate._lock:
                warm.gate._inside = None
            long.enter_context(live.reading(0)).pause()
        with warm.gate._lock:
            warm.gate._inside = None
        with live.reading(0) as browser:
            root = browser.root()
            assert root is not None
            with pytest.raises(ReadRefusedError, match="long requests"):
                browser.content(root)
    with live.reading(0) as browser:
        assert browser.content(root).totals.directories > 1


def test_request_waits_while_edits_are_applied(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short wait at the beginning leaves threads to other requests; only a few requests pause later."""
    monkeypatch.setattr(live_namespace, "SHORT_WAIT_SECONDS", 0)
    monkeypatch.setattr(live_namespace, "WAIT_SECONDS", 600)
    live = LiveNamespace(FakeRole(), warm, standby_config(), owner="hdfs", authenticated=False)
    edits = list(numbered([mkdir("/more", 20500)], warm.last_txid))
    editor = threading.Thread(target=warm.apply, args=(edits,))
    with live.reading(0) as browser:
        editor.start()
        wait_until("the edits wait", lambda: len(warm.gate._changes) == 1)
        browser.pause()
        assert isinstance(browser, LiveBrowser)
        assert browser.txid == edits[-1].txid
    editor.join()


def test_request_for_a_transaction_far_ahead_does_not_wait(client: FlaskClient, warm: WarmNamespace) -> None:
    reported = asked(client, "/", "GETFILESTATUS", min_txid=warm.last_txid + MAX_AHEAD + 1).json["RemoteException"]
    assert "far ahead" in reported["message"]
    assert reported["exception"] == "RetriableException"


@pytest.mark.parametrize("digits", [19, 20, 5000])
def test_very_large_numbers_in_requests(client: FlaskClient, digits: int) -> None:
    assert asked(client, "/", "GETFILESTATUS", min_txid="9" * digits).status_code == 400
    assert asked(client, f"/.reserved/.inodes/{'9' * digits}", "GETFILESTATUS").status_code == 404
    padded = asked(client, f"/.reserved/.inodes/{'0' * digits}20001", "GETFILESTATUS")
    assert padded.json["FileStatus"]["fileId"] == 20001


@pytest.mark.parametrize(("user", "seen"), [("guest", ["user.a"]), ("hdfs", ["user.a", "trusted.b"])])
def test_only_superusers_see_trusted_attributes(warm: WarmNamespace, user: str, seen: list[str]) -> None:
    """The rule also applies with dfs.permissions.enabled=false, as in a NameNode."""
    attributes = (
        ops.XAttr(XATTR_NAMESPACES.index("USER"), "a", b"1"),
        ops.XAttr(XATTR_NAMESPACES.index("TRUSTED"), "b", b"2"),
    )
    warm.apply(list(numbered([ops.SetXAttrOp(src="/open", xattrs=attributes)], warm.last_txid)))
    for permissions in (True, False):
        answer = asked(client_of(warm, permissions=permissions), "/open", "GETXATTRS", user)
        assert [each["name"] for each in answer.json["XAttrs"]] == seen


def test_reads_of_snapshots(client: FlaskClient, warm: WarmNamespace) -> None:
    made = [ops.AllowSnapshotOp(snapshot_root="/open"), ops.CreateSnapshotOp(snapshot_root="/open", snapshot_name="s")]
    warm.apply(list(numbered([*made, mkdir("/open/new", 20009), delete("/open/inner")], warm.last_txid)))
    for path, names in (("/open/.snapshot", ["s"]), ("/open/.snapshot/s", ["inner"]), ("/open", ["new"])):
        listed = asked(client, path, "LISTSTATUS").json["FileStatuses"]["FileStatus"]
        assert [each["pathSuffix"] for each in listed] == names
    summary = asked(client, "/open", "GETCONTENTSUMMARY").json["ContentSummary"]
    assert (summary["directoryCount"], summary["snapshotDirectoryCount"]) == (3, 1)
