"""ClientProtocol over real sockets: the calls of `hdfs dfsadmin`, and the effects that survive a restart."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from engine.saver import SaveResult, save_image
from hadoop_rpc.proto import client_namenode_pb2 as pb
from image_format import publish
from tests.namenode_stub.rpc_support import Dfs, refused, rpc_config, serving
from tests.namenode_stub.stub_support import restarted_tree, uris

ME = getpass.getuser()
LEAVE, ENTER, GET, FORCE_EXIT = 1, 2, 3, 4
QUERY, START, FINALIZE = 1, 2, 3


def save(dfs: Dfs, **options: int) -> bool:
    request = pb.SaveNamespaceRequestProto(**options)
    return dfs.call("saveNamespace", request, pb.SaveNamespaceResponseProto).saved


def roll(dfs: Dfs) -> int:
    return dfs.call("rollEdits", pb.EmptyProto(), pb.RollEditsResponseProto).newSegmentTxId


def upgrade(dfs: Dfs, action: int) -> pb.RollingUpgradeInfoProto | None:
    answer = dfs.call("rollingUpgrade", pb.RollingUpgradeRequestProto(action=action), pb.RollingUpgradeResponseProto)
    return answer.rollingUpgradeInfo if answer.HasField("rollingUpgradeInfo") else None


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "current").iterdir())


def test_safe_mode_refuses_changes_and_allows_reads(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.create("/f")
        assert not dfs.safe_mode(GET)
        assert dfs.safe_mode(ENTER)
        assert dfs.safe_mode(GET)
        last = stub.namespace.transactions.last_txid
        calls: list[Any] = [
            lambda d: d.mkdirs("/x"),
            lambda d: d.create("/x"),
            lambda d: d.complete("/f"),
            lambda d: d.delete("/f"),
            lambda d: d.rename("/f", "/g"),
            lambda d: d.allow("/"),
            roll,
        ]
        assert {refused(dfs, call) for call in calls} == {"SafeModeException"}
        assert dfs.names("/") == ["f"]
        dfs.call("renewLease", pb.RenewLeaseRequestProto(clientName="c"), pb.EmptyProto)
        assert stub.namespace.transactions.last_txid == last
        assert refused(dfs, lambda d: d.safe_mode(9)) == "HadoopIllegalArgumentException"
        assert not dfs.safe_mode(FORCE_EXIT)
        assert dfs.complete("/f")


def test_the_user_of_the_stub_is_the_superuser(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path, rpc_user="alice"), ME) as (stub, dfs):
        assert refused(dfs, lambda d: d.safe_mode(ENTER)) == "AccessControlException"
        alice = Dfs(stub, "alice")
        assert alice.safe_mode(ENTER)
        alice.rpc.close()


def open_files(dfs: Dfs, after: int = 0, **wanted: Any) -> pb.ListOpenFilesResponseProto:
    request = pb.ListOpenFilesRequestProto(id=after, **{"types": [1], "path": "/", **wanted})
    return dfs.call("listOpenFiles", request, pb.ListOpenFilesResponseProto)


def test_open_files_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("namenode_stub.names.open_files._PAGE", 2)
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        for path in ("/d/e/f", "/d/ef", "/g"):
            dfs.create(path, holder=f"writer of {path}")
        dfs.touch("/closed")
        page = open_files(dfs)
        assert [(each.path, each.clientName, each.clientMachine) for each in page.entries] == [
            (path, f"writer of {path}", "127.0.0.1") for path in ("/d/e/f", "/d/ef")
        ]
        assert page.hasMore
        rest = open_files(dfs, page.entries[-1].id)
        assert ([each.path for each in rest.entries], rest.hasMore) == (["/g"], False)
        assert [each.path for each in open_files(dfs, path="/d/e").entries] == ["/d/e/f"]
        assert [each.path for each in open_files(dfs, types=[], path="/g").entries] == ["/g"]
        assert not open_files(dfs, types=[2]).entries
        assert refused(dfs, lambda d: open_files(d, types=[7])) == "HadoopIllegalArgumentException"
        dfs.rename("/d", "/moved")
        other = Dfs(stub, "nobody-known")
        assert refused(other, open_files) == "AccessControlException"
        other.rpc.close()
    with serving(config, ME) as (_, dfs):
        assert [each.path for each in open_files(dfs, path="/moved").entries] == ["/moved/e/f", "/moved/ef"]


def test_a_namespace_of_hadoop_2_lists_no_open_files(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path, -63), ME) as (_, dfs):
        assert refused(dfs, open_files) == "RpcNoSuchMethodException"


def meta_save(dfs: Dfs, name: str) -> None:
    dfs.call("metaSave", pb.MetaSaveRequestProto(filename=name), pb.EmptyProto)


@pytest.mark.parametrize(("layout", "waiting"), [(-63, "waiting for replication: 1"), (-67, "currently missing: 1")])
def test_metasave_writes_its_report(tmp_path: Path, layout: int, waiting: str) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with serving(rpc_config(tmp_path, layout, log_directory=logs), ME) as (stub, dfs):
        stub.namespace.create("/d")
        block = stub.namespace.files.add_block("/d")
        for _ in range(2):
            meta_save(dfs, "report")
        lines = (logs / "report").read_text().splitlines()
        total = "2 files and directories, 1 blocks = 3 total" + (" filesystem objects" if layout == -67 else "")
        assert lines[:3] == [total, "Live Datanodes: 0", "Dead Datanodes: 0"]
        assert [line for line in lines if waiting in line]
        assert [line for line in lines if line.startswith(f"/d: blk_{block}_")]
        assert lines[-1] == "Metasave: Number of datanodes: 0"
        for name in ("", "a/b", "..", "/etc/x"):
            assert refused(dfs, lambda d, n=name: meta_save(d, n)) == "HadoopIllegalArgumentException"
        (logs / "taken").mkdir()
        assert refused(dfs, lambda d: meta_save(d, "taken")) == "IOException"
        dfs.call("refreshNodes", pb.EmptyProto(), pb.EmptyProto)
        other = Dfs(stub, "nobody-known")
        for call in (lambda d: meta_save(d, "x"), lambda d: d.call("refreshNodes", pb.EmptyProto(), pb.EmptyProto)):
            assert refused(other, call) == "AccessControlException"
        other.rpc.close()


def test_save_namespace_writes_an_image_and_purges_edits(tmp_path: Path) -> None:
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        for number in range(5):
            dfs.mkdirs(f"/d{number}")
            if number % 2:
                assert roll(dfs) == stub.namespace.transactions.log.segment_first_txid
        assert refused(dfs, save) == "IOException"
        dfs.safe_mode(ENTER)
        assert save(dfs)
        first = stub.namespace.transactions.log.segment_first_txid
        assert stub.images.checkpoint_txid == first - 1
        assert save(dfs)
        assert not save(dfs, timeWindow=3600, txGap=10)
        assert save(dfs, timeWindow=3600, txGap=0)
        newest = stub.images.checkpoint_txid
        names = names_in(tmp_path / "name")
        assert [name for name in names if name.startswith("fsimage") and not name.endswith(".md5")] == [
            f"fsimage_{newest - 2:019d}",
            f"fsimage_{newest:019d}",
        ]
        assert not [name for name in names if name.startswith("edits_0") and int(name[-19:]) < newest - 2]
        dfs.safe_mode(LEAVE)
        dfs.mkdirs("/later")
        before = stub.namespace.walk()
    assert restarted_tree(config) == before


def test_a_failed_save_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = rpc_config(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with serving(config, ME) as (stub, dfs):
        dfs.mkdirs("/d")
        dfs.safe_mode(ENTER)
        with monkeypatch.context() as patched:
            patched.setattr("image_format.publish.rename_durably", full)
            assert refused(dfs, save) == "IOException"
        assert stub.images.checkpoint_txid == 0
        assert stub.namespace.transactions.last_txid == stub.namespace.transactions.log.last_txid
        dfs.safe_mode(LEAVE)
        dfs.mkdirs("/e")
        before = stub.namespace.walk()
    assert restarted_tree(config) == before


def test_uploads_during_a_save_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[tuple[int, str]] = []

    def upload_meanwhile(folders: Sequence[Path], txid: int, write: Any, *, rollback: bool = False) -> SaveResult:
        for kind in ("IMAGE", "IMAGE_ROLLBACK"):
            query = {"putimage": "true", "txid": txid, "storageInfo": info, "imageFile": kind, "File-Length": 1}
            url = f"{stub.server.url}/imagetransfer?{urlencode(query)}"
            request = Request(url, data=b"x", headers={"X-MD5-Digest": "0" * 32}, method="PUT")
            with pytest.raises(HTTPError) as caught:
                urlopen(request, timeout=600)
            answers.append((caught.value.code, caught.value.read().decode()))
        return save_image(folders, txid, write, rollback=rollback)

    with serving(rpc_config(tmp_path, -63), ME) as (stub, dfs):
        info = stub.images.storage_info().colon_string()
        dfs.mkdirs("/d")
        dfs.safe_mode(ENTER)
        monkeypatch.setattr("namenode_stub.administration.save_image", upload_meanwhile)
        assert save(dfs)
        assert [status for status, _ in answers] == [409, 409]
        assert all("in progress" in sentence for _, sentence in answers)


def test_responses_to_minor_admin_calls(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        assert dfs.call("upgradeStatus", pb.EmptyProto(), pb.UpgradeStatusResponseProto).upgradeFinalized
        dfs.call("finalizeUpgrade", pb.EmptyProto(), pb.EmptyProto)
        restore = pb.RestoreFailedStorageRequestProto(arg="check")
        assert not dfs.call("restoreFailedStorage", restore, pb.ResultProto).result
        txid = dfs.call("getCurrentEditLogTxid", pb.EmptyProto(), pb.GetCurrentEditLogTxidResponseProto).txid
        assert txid == stub.namespace.transactions.log.durable_txid


# ---- rolling upgrades ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [-63, -67])
def test_a_rolling_upgrade_without_a_standby(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (_, dfs):
        dfs.mkdirs("/d")
        assert upgrade(dfs, QUERY) is None
        assert upgrade(dfs, FINALIZE) is None
        assert refused(dfs, lambda d: upgrade(d, START)) == "IOException"
        assert refused(dfs, lambda d: upgrade(d, 9)) == "HadoopIllegalArgumentException"
        dfs.safe_mode(ENTER)
        begun = upgrade(dfs, START)
        assert begun is not None
        assert begun.createdRollbackImages
        assert not begun.status.finalized
        assert not dfs.safe_mode(GET)
        assert upgrade(dfs, START) == begun
    assert any(name.startswith("fsimage_rollback_") for name in names_in(tmp_path / "name"))
    with serving(config, ME) as (stub, dfs):
        assert upgrade(dfs, QUERY) == begun
        ended = upgrade(dfs, FINALIZE)
        assert ended is not None
        assert ended.status.finalized
        assert ended.startTime == begun.startTime <= ended.finalizeTime
        assert upgrade(dfs, QUERY) is None
        before = stub.namespace.walk()
    assert not any("rollback" in name for name in names_in(tmp_path / "name"))
    assert restarted_tree(config) == before


def test_a_rolling_upgrade_with_a_standby_rolls_for_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    config = rpc_config(tmp_path, edits=uris(tmp_path / "name", shared), shared_edits=shared.as_uri())
    with serving(config, ME) as (stub, dfs):
        first = stub.namespace.transactions.log.segment_first_txid
        begun = upgrade(dfs, START)
        assert begun is not None
        assert not begun.createdRollbackImages
        assert stub.namespace.transactions.log.segment_first_txid > first
        assert stub.active.administration.is_rolling_upgrade
        assert upgrade(dfs, FINALIZE) is not None
        assert not stub.active.administration.is_rolling_upgrade


@pytest.mark.parametrize("step", ["write_md5_file", "rename_durably"])
def test_a_rename_of_rollback_images_survives_a_kill_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At whichever step the process is killed, no image lacks its digest, and the next attempt completes the
    renames.
    """
    folder = tmp_path / "name" / "current"
    config = rpc_config(tmp_path)
    with serving(config, ME) as (stub, dfs):
        dfs.safe_mode(ENTER)
        upgrade(dfs, START)
        txid = stub.namespace.transactions.last_txid
    assert latest_rollback_image([folder]) is not None

    class KilledError(Exception):
        pass

    def kill(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(publish, step, kill)
        with pytest.raises(KilledError):
            promote_rollback_images([folder], txid + 1)
    for image in folder.glob("fsimage_*"):
        assert image.suffix or image.with_name(image.name + ".md5").exists()
    promote_rollback_images([folder], txid + 1)
    assert latest_rollback_image([folder]) is None
    with serving(config, ME) as (stub, _):
        assert stub.namespace.transactions.last_txid > txid
