"""A second NameNode on the same JournalNodes that follows as a standby, and the quorum as one of the journals."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest
import requests

from checkpointer.transfer import UploadResult, download_image, upload_image
from hadoop_common.errors import HdfsError, StorageError
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import StandbyError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.namenode_protocol import NamenodeClient
from image_format.md5_file import read_md5_file
from namenode_stub.fail_stop import StandbyRefusalError
from namenode_stub.node import NameNodeStub
from namenode_stub.standby_settings import StandbySettings
from tests.checkpointer.quorum_support import Quorum, quorum
from tests.namenode_stub.ha_support import ME, QUICK, config_on, followed, mkdirs, pair_on, paths, running, status, stop
from tests.namenode_stub.rpc_support import Dfs
from tests.namenode_stub.stub_support import checkpoint_of, formatted, wait_until

__all__ = ["quorum"]


def asking(active: NameNodeStub) -> StandbySettings:
    """Return settings of a standby that asks this NameNode to roll if no edits arrive."""
    assert active.rpc_address is not None
    return dataclasses.replace(QUICK, roll_period=0.05, namenodes=((active.server.url, active.rpc_address),))


# ---- a standby ---------------------------------------------------------------------------------------------


def test_a_standby_follows_and_refuses_clients(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        active.namespace.mkdirs("/a/b")
        followed(active, standby)
        reported = status(standby)
        assert (reported["role"], reported["failure"], reported["tailFault"]) == ("standby", "", "")
        assert reported["journal"] == quorum.uri
        for method, path in (("post", "mkdirs"), ("get", "status"), ("get", "list"), ("get", "tree"), ("post", "roll")):
            answer = requests.request(method, f"{standby.server.url}/namespace/{path}", json={"path": "/"}, timeout=600)
            assert answer.status_code == 503
            assert "is a standby" in answer.json()["error"]
            assert answer.json()["hint"]
        dfs = Dfs(standby, ME)
        for call in (lambda: dfs.mkdirs("/c"), lambda: dfs.info("/a"), lambda: dfs.safe_mode(3)):
            with pytest.raises(StandbyError, match="is a standby"):
                call()
        dfs.rpc.close()
        with pytest.raises(StandbyRefusalError):
            standby.active.roll()
        beans = requests.get(f"{standby.server.url}/jmx", timeout=600).json()["beans"]
        assert {bean.get("State") or bean.get("tag.HAState") for bean in beans} - {None} == {"standby"}
        metrics = requests.get(f"{standby.server.url}/metrics", timeout=600).text
        assert 'role="standby"' in metrics


@pytest.mark.parametrize(("layout", "state"), [(-63, ""), (-67, "STANDBY")])
def test_responses_of_a_standby_to_checkpointers(quorum: Quorum, tmp_path: Path, layout: int, state: str) -> None:
    with running(quorum, tmp_path, layout=layout) as (active, standby):
        active.namespace.mkdirs("/a")
        followed(active, standby)
        assert standby.rpc_address is not None
        with NamenodeClient(*standby.rpc_address, user=ME, retry=NO_RETRY) as client:
            info = client.version_request()
            assert (info.storage_info, info.state) == (active.images.storage_info(), state)
            assert client.transaction_id() == active.namespace.transactions.log.segment_first_txid - 1
            assert client.most_recent_checkpoint_txid() == 0
            for call in (client.roll_edit_log, lambda: client.edit_log_manifest(1)):
                with pytest.raises(StandbyError):
                    call()


def test_a_standby_serves_its_image_and_refuses_uploads(quorum: Quorum, tmp_path: Path) -> None:
    with running(quorum, tmp_path) as (active, standby):
        active.namespace.mkdirs("/a")
        active.active.roll()
        image = checkpoint_of(active._config, tmp_path / "scratch")
        info, digest = active.images.storage_info(), read_md5_file(image).hex()
        (tmp_path / "target").mkdir()
        assert download_image(standby.server.url, None, info, [tmp_path / "target"]).txid == 0
        offered = upload_image(standby.server.url, image, digest, int(image.name[-19:]), info)
        assert offered is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE


def test_a_standby_reads_the_open_segment_if_configured(quorum: Quorum, tmp_path: Path) -> None:
    eager = dataclasses.replace(QUICK, tail_in_progress=True)
    with running(quorum, tmp_path, standby=eager) as (active, standby):
        active.namespace.mkdirs("/a")
        last = active.namespace.transactions.last_txid
        wait_until("the open segment", lambda: status(standby)["lastTxid"] == last)


def test_a_standby_requests_a_roll_from_the_active_namenode(quorum: Quorum, tmp_path: Path) -> None:
    first, second = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(first) as active:
        active.namespace.mkdirs("/a")
        last = active.namespace.transactions.last_txid
        with NameNodeStub(dataclasses.replace(second, standby=asking(active)), standby=True) as standby:
            wait_until("a roll", lambda: status(standby)["lastTxid"] >= last)


def test_missing_edits_raise_alarms_until_they_arrive(quorum: Quorum, tmp_path: Path) -> None:
    first, second = pair_on(quorum.uri, tmp_path)
    with NameNodeStub(first) as active:
        watching = dataclasses.replace(asking(active), lag_alarm=0.1)
        active.namespace.mkdirs("/a")
        last = active.namespace.transactions.last_txid
        # an active NameNode in safe mode does not roll
        active.active.administration.set_safe_mode(on=True)
        with NameNodeStub(dataclasses.replace(second, standby=watching), standby=True) as standby:
            wait_until("the alarms", lambda: bool(status(standby)["rollAlarm"] and status(standby)["lagAlarm"]))
            reported = status(standby)
            assert "2 transactions wait in the open segment of the active NameNode" in reported["rollAlarm"]
            assert "safe mode" in reported["rollAlarm"]
            assert (
                f"the last applied transaction is 0, but the active NameNode wrote transaction {last}"
                in reported["lagAlarm"]
            )
            assert (reported["activeTxid"], reported["lastTxid"], reported["tailFault"]) == (last, 0, "")
            active.active.administration.set_safe_mode(on=False)
            wait_until("a roll", lambda: status(standby)["lastTxid"] >= last)
            wait_until("no alarms", lambda: not (status(standby)["rollAlarm"] or status(standby)["lagAlarm"]))


def test_unreadable_edits_prevent_a_takeover_and_raise_an_alarm(
    quorum: Quorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair_on(quorum.uri, tmp_path)

    def broken(*_: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with NameNodeStub(first) as active:
        watching = dataclasses.replace(asking(active), lag_alarm=0.1)
        with NameNodeStub(dataclasses.replace(second, standby=watching), standby=True) as standby:
            with monkeypatch.context() as patched:
                patched.setattr("checkpointer.roles.standby.tailer.EditTailer.catch_up", broken)
                answer = requests.post(f"{standby.server.url}/transition/active", timeout=600)
                assert (answer.status_code, "cannot be read" in answer.json()["error"]) == (503, True)
                assert standby.state is HAState.STANDBY
                wait_until("the fault", lambda: "cannot be read" in status(standby)["tailFault"])
                # the standby cannot replace the active NameNode, so it did not fence the active NameNode
                active.namespace.mkdirs("/goes-on")
                last = active.namespace.transactions.last_txid
                wait_until(
                    "the alarm", lambda: f"active NameNode wrote transaction {last}" in status(standby)["lagAlarm"]
                )
                assert status(standby)["rollAlarm"] == ""
            wait_until("what it missed", lambda: status(standby)["lastTxid"] >= last)
            wait_until("no alarm", lambda: not (status(standby)["tailFault"] or status(standby)["lagAlarm"]))


def test_a_standby_requires_shared_edits(quorum: Quorum, tmp_path: Path) -> None:
    config, _ = pair_on(quorum.uri, tmp_path)
    alone = dataclasses.replace(config, edits=config.edits[:1], shared_edits="")
    with pytest.raises(StorageError, match=r"shared\.edits\.dir is not set"), NameNodeStub(alone, standby=True):
        pass
    with NameNodeStub(alone) as stub:
        with pytest.raises(StorageError, match="no shared edits"):
            stub.transition_to_standby()
        stub.namespace.mkdirs("/still-active")


# ---- the quorum as one of the journals ---------------------------------------------------------------------


def test_one_of_three_journal_nodes_may_be_down_but_not_two(quorum: Quorum, tmp_path: Path) -> None:
    first, _ = pair_on(quorum.uri, tmp_path)
    stub = NameNodeStub(first)
    with stub:
        quorum.nodes[0].stop()
        assert mkdirs(stub, "/a").ok
        stub.active.roll()
        reported = status(stub)
        assert reported["editsDirectories"] == [quorum.uri, str(tmp_path / "nn1/name/current")]
        quorum.nodes[1].stop()
        refused = mkdirs(stub, "/b")
        assert (refused.status_code, "required journal qjournal://" in refused.json()["error"]) == (503, True)
        stop(stub)
    for node in quorum.nodes[:2]:
        node.start()
    with NameNodeStub(first) as again:
        assert paths(again) >= {"/", "/a"}


def test_a_quorum_may_be_the_only_journal(quorum: Quorum, tmp_path: Path) -> None:
    first, _ = pair_on(quorum.uri, tmp_path)
    alone = dataclasses.replace(first, edits=(quorum.uri,), shared_edits="", required_edits=(quorum.uri,))
    with NameNodeStub(alone) as stub:
        stub.namespace.mkdirs("/a")
        stub.active.roll()
        assert stub.rpc_address is not None
        with NamenodeClient(*stub.rpc_address, user=ME, retry=NO_RETRY) as client:
            # as in Hadoop, edits in JournalNodes are fetched from the JournalNodes
            assert client.edit_log_manifest(1).logs == ()
        assert json.dumps(status(stub)["segments"]) == "[]"
    assert not list((tmp_path / "nn1/name/current").glob("edits_*"))
    with NameNodeStub(alone) as stub:
        assert paths(stub) == {"/", "/a"}


def test_the_quorum_of_another_namespace_is_not_overwritten(quorum: Quorum, tmp_path: Path) -> None:
    pair_on(quorum.uri, tmp_path)
    foreign = config_on(quorum.uri, tmp_path / "foreign")
    other = dataclasses.replace(foreign, edits=foreign.edits[:1], shared_edits="")
    formatted(tmp_path / "foreign", edits=other.edits, shared_edits="")
    with pytest.raises(HdfsError, match="namespace"), NameNodeStub(foreign):
        pass
    with pytest.raises(StorageError, match="another namespace"), NameNodeStub(foreign, standby=True):
        pass
