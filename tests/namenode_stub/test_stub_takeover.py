"""A second NameNode that becomes active while the first is fenced or stands by, and failing takeovers."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from checkpointer.transfer import UploadResult, upload_image
from hadoop_common.errors import StorageError
from hadoop_rpc.errors import AccessControlError, RemoteError
from hadoop_rpc.ha_protocol import HAState, RequestSource, ServiceStatus
from image_format.md5_file import read_md5_file
from journal.segment_file import list_segments
from namenode_stub.fail_stop import NotServingError
from namenode_stub.names.caller import ClientCall
from namenode_stub.node import NameNodeStub
from tests.checkpointer.quorum_support import Quorum, quorum
from tests.journal.bookkeeper_cluster import Cluster
from tests.namenode_stub.ha_support import ME, followed, ha, mkdirs, pair_on, paths, running, status
from tests.namenode_stub.rpc_support import Dfs
from tests.namenode_stub.stub_support import checkpoint_of, wait_until

__all__ = ["quorum"]


# ---- a takeover --------------------------------------------------------------------------------------------


def test_after_a_takeover_the_old_active_stops_at_its_next_write(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        active.namespace.mkdirs("/finalized")
        followed(active, standby)
        active.namespace.mkdirs("/open")
        before = active.namespace.walk()
        with ha(standby) as client:
            assert client.service_status() == ServiceStatus(HAState.STANDBY, True)
            client.transition_to_active()
            client.transition_to_active()  # no effect, because the NameNode is already active
            assert client.service_status() == ServiceStatus(HAState.ACTIVE, True)
        assert standby.namespace.walk() == before
        lost = mkdirs(active, "/lost")
        assert lost.status_code == 503
        assert "another NameNode has taken over" in lost.json()["error"]
        assert mkdirs(active, "/later").status_code == 503
        with ha(active) as client:
            with pytest.raises(RemoteError, match="epoch"):
                client.monitor_health()
            reported = client.service_status()
            assert (reported.state, reported.ready_to_become_active) == (HAState.INITIALIZING, False)
            assert "taken over" in reported.reason
        beans = requests.get(f"{active.server.url}/jmx", timeout=600).json()["beans"]
        assert {bean.get("State") or bean.get("tag.HAState") for bean in beans} - {None} == {"initializing"}
        assert "taken over" in status(active)["failure"]
        assert "standby" in lost.json()["hint"]
        with pytest.raises(NotServingError):
            active.transition_to_active()
        assert mkdirs(standby, "/new").ok
        assert {"/finalized", "/open", "/new"} == paths(standby) - {"/"}
        first, last = (tmp_path / name / "name/current" for name in ("nn1", "nn2"))
        # fenced transactions are not in any journal
        wait_until("the edits it lacked", lambda: len(list_segments(last)) >= 3)
        assert list_segments(first)[-1].in_progress


def test_a_call_repeated_after_the_takeover_is_not_performed_twice(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        dfs = Dfs(active, ME)
        dfs.touch("/f")
        ids: list[tuple[bytes, int]] = []
        perform = active.retry_cache.once

        def noting(caller, *more):
            ids.append((caller.client_id, caller.call_id))
            return perform(caller, *more)

        active.retry_cache.once = noting  # type: ignore[method-assign]
        assert dfs.rename("/f", "/g")
        dfs.rpc.close()
        standby.transition_to_active()
        client_id, call_id = ids[-1]
        caller = ClientCall(user=ME, client_id=client_id, call_id=call_id)
        assert standby.retry_cache.once(caller, lambda: "done again", lambda: "done before") == "done before"


def without_gap(current: Path) -> bool:
    """Return whether the segments of a storage directory contain every transaction from the first on."""
    found = list_segments(current)
    return [each.first for each in found] == [1, *(each.last + 1 for each in found[:-1] if each.last is not None)]


def test_repeated_graceful_transitions(quorum: Quorum, tmp_path: Path) -> None:
    """Nothing fails in a graceful transition, and every segment continues the previous segment."""
    with running(quorum, tmp_path) as (one, two):
        made = set()
        for turn in range(3):
            active, standby = (one, two) if turn % 2 == 0 else (two, one)
            made.add(f"/{turn}")
            assert mkdirs(active, f"/{turn}").ok
            with ha(active) as client:
                client.transition_to_standby()
                client.transition_to_standby()
                assert client.service_status().state is HAState.STANDBY
            assert mkdirs(active, "/refused").status_code == 503
            answer = requests.post(f"{standby.server.url}/transition/active", timeout=600)
            assert (answer.status_code, answer.json()) == (200, {"result": "active"})
            assert paths(standby) == {"/", *made}
        assert (one.fail_stop.reason, two.fail_stop.reason) == ("", "")
        current = tmp_path / "nn2/name/current"
        wait_until("the local copies", lambda: without_gap(current))
        assert not two.active.journals.lagging


def test_acknowledged_changes_survive_a_takeover_amid_writes(quorum: Quorum, tmp_path: Path) -> None:
    take_over_amid_writes(quorum, tmp_path)


def test_acknowledged_changes_survive_a_takeover_on_bookkeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(tmp_path / "bookies") as cluster:
        cluster.serve(monkeypatch)
        take_over_amid_writes(cluster, tmp_path)
        assert [name for name in cluster.names() if name.startswith("inprogress")] == []
        assert cluster.notes() == []


def take_over_amid_writes(shared: Quorum | Cluster, tmp_path: Path) -> None:
    """Check that a takeover loses no acknowledged operation; the old active NameNode is fenced, and the new active
    NameNode continues.
    """
    with running(shared, tmp_path) as (active, standby), ThreadPoolExecutor(4) as pool:
        enough = threading.Semaphore(0)

        def work(number: int) -> set[str]:
            made: set[str] = set()
            while True:
                path = f"/{number}-{len(made)}"
                if not mkdirs(active, path).ok:
                    return made
                made.add(path)
                enough.release()

        working = [pool.submit(work, number) for number in range(4)]
        for _ in range(60):
            assert enough.acquire(timeout=600)
        standby.transition_to_active()
        made = {path for future in working for path in future.result()}
        assert len(made) >= 60
        assert made <= paths(standby)
        # in addition to acknowledged operations, at most one operation of each client may exist
        assert len(paths(standby) - made) <= 5
        refused = mkdirs(active, "/refused")
        assert (refused.status_code, "another NameNode has taken over" in refused.json()["error"]) == (503, True)
        assert mkdirs(standby, "/new").ok
        assert "/refused" not in paths(standby)


def test_permissions_to_request_a_takeover(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (_, standby):
        with ha(standby, "nobody-known") as client:
            for call in (client.transition_to_active, client.transition_to_standby, client.service_status):
                with pytest.raises(AccessControlError):
                    call()
        with ha(standby) as client, pytest.raises(AccessControlError, match="automatic"):
            client.transition_to_active(RequestSource.ZKFC)
        answer = requests.post(f"{standby.server.url}/transition/observer", timeout=600)
        assert (answer.status_code, "observer" in answer.json()["error"]) == (400, True)
        assert standby.state is HAState.STANDBY


# ---- with failover controllers -----------------------------------------------------------------------------


def test_automatic_failover_lets_only_the_controller_change_the_state(quorum: Quorum, tmp_path: Path) -> None:
    config, _ = pair_on(quorum.uri, tmp_path, automatic_failover=True)
    with NameNodeStub(config) as stub, ha(stub) as client:
        assert client.service_status() == ServiceStatus(HAState.STANDBY, True)
        for call in (client.transition_to_active, client.transition_to_standby):
            with pytest.raises(AccessControlError, match="automatic failover is enabled"):
                call()
        url = f"{stub.server.url}/transition"
        answer = requests.post(f"{url}/active", timeout=600)
        assert (answer.status_code, "-failover" in answer.json()["hint"]) == (409, True)
        assert stub.state is HAState.STANDBY
        client.transition_to_active(RequestSource.ZKFC)
        assert stub.state is HAState.ACTIVE
        client.transition_to_standby(RequestSource.USER_FORCED)
        assert stub.state is HAState.STANDBY
        assert requests.post(f"{url}/active?force=true", timeout=600).ok
        assert stub.state is HAState.ACTIVE
        stub.recover()  # has no effect without a failure
        assert stub.state is HAState.ACTIVE


def test_a_replaced_active_becomes_a_standby_without_unlogged_changes(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path, automatic_failover=True) as (first, second):
        first.transition_to_active()
        assert mkdirs(first, "/logged").ok
        second.transition_to_active()
        dfs = Dfs(first, ME)
        with pytest.raises(RemoteError, match="taken over"):
            dfs.mkdirs("/lost")
        dfs.rpc.close()
        failed, noted = first.fail_stop, first.retry_cache
        with ha(first) as client, pytest.raises(RemoteError, match="taken over"):
            client.monitor_health()
        first.recover()
        with ha(first) as client:
            client.monitor_health()
            assert client.service_status() == ServiceStatus(HAState.STANDBY, True)
        # a late failure of the earlier active state is ignored
        failed.trip("later")
        assert first.state is HAState.STANDBY
        assert first.retry_cache is not noted
        assert mkdirs(second, "/new").ok
        second.transition_to_standby()
        first.transition_to_active()
        assert paths(first) == {"/", "/logged", "/new"}
        assert mkdirs(first, "/newer").ok


def test_a_replaced_active_accepts_a_transition_to_standby(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path, automatic_failover=True) as (first, second):
        first.transition_to_active()
        assert mkdirs(first, "/a").ok
        second.transition_to_active()
        # the old active NameNode has not noticed yet, and cannot end its segment
        with ha(first) as client:
            assert client.service_status().state is HAState.ACTIVE
            client.transition_to_standby(RequestSource.ZKFC)
            assert client.service_status() == ServiceStatus(HAState.STANDBY, True)
        followed(second, first)
        second.transition_to_standby()
        first.transition_to_active()
        assert paths(first) == {"/", "/a"}


def test_a_failed_recovery_is_reported_and_can_be_repeated(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path, automatic_failover=True) as (first, second):
        first.transition_to_active()
        second.transition_to_active()
        assert mkdirs(first, "/lost").status_code == 503
        current = tmp_path / "nn1/name/current"
        current.rename(current.with_name("away"))
        current.mkdir()
        with pytest.raises(NotServingError, match="cannot be"):
            first.recover()
        assert first.state is HAState.INITIALIZING
        current.rmdir()
        current.with_name("away").rename(current)
        first.recover()
        assert first.state is HAState.STANDBY


# ---- impossible takeovers ----------------------------------------------------------------------------------


def test_a_takeover_without_a_majority_leaves_a_standby(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        active.namespace.mkdirs("/a")
        followed(active, standby)
        active.stop()
        for node in quorum.nodes[:2]:
            node.stop()
        with ha(standby) as client, pytest.raises(RemoteError) as refused:
            client.transition_to_active()
        assert refused.value.class_name == "org.apache.hadoop.ha.ServiceFailedException"
        assert standby.state is HAState.STANDBY
        assert mkdirs(standby, "/x").status_code == 503
        for node in quorum.nodes[:2]:
            node.start()
        standby.transition_to_active()
        assert paths(standby) == {"/", "/a"}


def test_a_takeover_that_fails_late_leaves_a_following_standby(
    quorum: Quorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(second, standby=True) as standby:
        with NameNodeStub(first) as active:
            active.namespace.mkdirs("/a")

        def broken(*_: object) -> None:
            raise StorageError("a disk is gone")

        with monkeypatch.context() as patched:
            patched.setattr("namenode_stub.activation.check_shared_edits", broken)
            with pytest.raises(StorageError, match="a disk is gone"):
                standby.transition_to_active()
        assert standby.state is HAState.STANDBY
        with NameNodeStub(first) as active:
            active.namespace.mkdirs("/b")
            followed(active, standby)
        standby.transition_to_active()
        assert paths(standby) == {"/", "/a", "/b"}


def test_a_node_that_cannot_return_to_standby_reports_a_failure(
    quorum: Quorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(second, standby=True) as standby:

        def broken(*_: object) -> None:
            raise StorageError("a disk is gone")

        monkeypatch.setattr("namenode_stub.activation.check_shared_edits", broken)
        monkeypatch.setattr("namenode_stub.node.StandbyState.start", broken)
        with pytest.raises(NotServingError, match="the shared edits cannot be followed: a disk is gone"):
            standby.transition_to_active()
        with ha(standby) as client:
            reported = client.service_status()
            assert (reported.state, reported.ready_to_become_active) == (HAState.INITIALIZING, False)
            assert "a disk is gone" in reported.reason
            with pytest.raises(RemoteError, match="a disk is gone"):
                client.monitor_health()
        assert "a disk is gone" in status(standby)["failure"]
        assert mkdirs(standby, "/refused").status_code == 503


def test_a_transition_to_standby_succeeds_without_the_journal_quorum(quorum: Quorum, tmp_path: Path) -> None:
    first, _ = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(first) as stub:
        stub.namespace.mkdirs("/a")
        for node in quorum.nodes[:2]:
            node.stop()
        stub.transition_to_standby()
        assert stub.state is HAState.STANDBY
        assert mkdirs(stub, "/b").status_code == 503
        wait_until("the alarm", lambda: "JournalNodes answered" in status(stub)["tailFault"])
        with ha(stub) as client:
            assert not client.service_status().ready_to_become_active
        for node in quorum.nodes[:2]:
            node.start()
        stub.transition_to_active()
        assert paths(stub) == {"/", "/a"}


def test_missing_edits_prevent_a_takeover_and_require_a_bootstrap(quorum: Quorum, tmp_path: Path) -> None:
    first, second = pair_on(quorum.uri, tmp_path, images_retained=1, checkpoint_transactions=1)
    with NameNodeStub(first) as active:
        active.namespace.mkdirs("/a")
        active.active.roll()
        image = checkpoint_of(first, tmp_path / "scratch")
        digest, info = read_md5_file(image).hex(), active.images.storage_info()
        assert upload_image(active.server.url, image, digest, int(image.name[-19:]), info) is UploadResult.SUCCESS
        # the quorum is purged as the directories are; a slow node may be purged slightly later
        kept = int(image.name[-19:]) + 1
        wait_until("the purge", lambda: [list_segments(node.current)[0].first for node in quorum.nodes] == [kept] * 3)
        active.active.roll()
        with NameNodeStub(second, standby=True) as standby:
            wait_until("the gap", lambda: "from 1 to 3 are missing" in status(standby)["tailFault"])
            with ha(standby) as client:
                assert "are missing" in client.service_status().reason
            with pytest.raises(StorageError, match="are missing") as refused:
                standby.transition_to_active()
            assert "bootstrap-standby" in refused.value.hint
            assert standby.state is HAState.STANDBY
        # the standby cannot replace the active NameNode, so it did not fence the active NameNode
        assert mkdirs(active, "/b").ok


def test_local_edits_missing_from_the_shared_journal_prevent_a_start(quorum: Quorum, tmp_path: Path) -> None:
    first, _ = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(first) as stub:
        stub.namespace.mkdirs("/both")
    with NameNodeStub(dataclasses.replace(first, edits=first.edits[:1], shared_edits="")) as stub:
        stub.namespace.mkdirs("/local")
    with (
        pytest.raises(StorageError, match="ends at txid 3, but images or edits of this NameNode continue to 6"),
        NameNodeStub(first),
    ):
        pass


# ---- a shared directory ------------------------------------------------------------------------------------


def test_the_lock_of_a_shared_directory_allows_one_active(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    first, second = pair_on(shared.as_uri(), tmp_path)
    with NameNodeStub(second, standby=True) as standby, NameNodeStub(first) as active:
        active.namespace.mkdirs("/a")
        followed(active, standby)
        with pytest.raises(StorageError, match="is held by"):
            standby.transition_to_active()
        assert standby.state is HAState.STANDBY
        active.namespace.mkdirs("/b")
        active.transition_to_standby()
        standby.transition_to_active()
        assert paths(standby) == {"/", "/a", "/b"}
        with pytest.raises(StorageError, match="is held by"):
            active.transition_to_active()
        standby.namespace.mkdirs("/c")
        standby.transition_to_standby()
        active.transition_to_active()
        assert paths(active) == {"/", "/a", "/b", "/c"}
