"""`checkpointer checkpoint` as an operator uses it: requests, cancellation, exit codes and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import requests

import checkpointer.transfer.uploader as uploader_module
from checkpointer.errors import TransferError
from image_format.reader import ImageFile
from namenode_stub.node import NameNodeStub
from servlets.change_guard import ChangeGuard
from tests.checkpointer.cli.standby_cluster import Cluster, daemon, write_edits
from tests.cli_runner import run_cli
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site
from tests.web_server import QuietHandler, web_server


def test_checkpoint_command_without_a_daemon(cluster: Cluster) -> None:
    outcome = cluster.checkpoint("--force")
    assert outcome.code == 7
    assert "no daemon answers" in outcome.err
    assert "checkpointer run" in outcome.err
    assert outcome.out == ""
    with_json = cluster.checkpoint("--force", "--json")
    assert with_json.code == 7
    assert json.loads(with_json.out)["exitCode"] == 7


def test_checkpoint_command_from_a_host_without_permission(
    cluster: Cluster, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangeGuard, "refusal", lambda self, asked: "not from here" if asked.method == "POST" else "")
    with daemon(cluster):
        outcome = cluster.checkpoint()
    assert (outcome.code, outcome.out) == (7, "")
    assert "not from here" in outcome.err
    assert "on the daemon's host" in outcome.err


def test_checkpoint_command_with_another_server(cluster: Cluster, stub: NameNodeStub) -> None:
    site = cluster.conf / "hdfs-site.xml"
    site.write_text(site.read_text().replace(str(cluster.ports.daemon), str(cluster.ports.stub)))
    outcome = cluster.checkpoint()
    assert outcome.code == 7
    assert "not the response of a checkpoint daemon" in outcome.err


def test_forced_checkpoint_with_and_without_new_edits(cluster: Cluster, stub: NameNodeStub) -> None:
    with daemon(cluster):
        skipped = cluster.checkpoint("--force")
        assert (skipped.code, skipped.err) == (0, "")
        assert "no checkpoint is due" in skipped.out
        last = write_edits(stub, "a")
        assert "no checkpoint is due: " in cluster.checkpoint().out
        made = cluster.checkpoint("--force")
        assert (made.code, made.out) == (0, f"checkpoint at txid {last}\n")
        assert json.loads(cluster.checkpoint("--json").out)["state"] == "skipped"


def test_cancellation_blocks_checkpoints_until_revoked(cluster: Cluster, stub: NameNodeStub) -> None:
    with daemon(cluster):
        last = write_edits(stub, "a")
        reported = cluster.checkpoint("--cancel", "--minutes", "30", "--reason", "network maintenance")
        assert (reported.code, reported.err) == (0, "")
        assert reported.out == "no checkpoint is running, and none can begin for 30 min 0 s: network maintenance\n"
        refused = cluster.checkpoint("--force")
        assert refused.code == 1
        assert "network maintenance" in refused.err
        assert "next: `checkpointer checkpoint --cancel --minutes 0`" in refused.err
        answer = json.loads(cluster.checkpoint("--cancel", "--minutes", "0", "--json").out)
        assert (answer["state"], answer["seconds"]) == ("done", 0)
        assert answer["message"] == "no checkpoint is running, and the next checkpoint may begin immediately"
        assert cluster.checkpoint("--force").out == f"checkpoint at txid {last}\n"


def test_namespace_of_a_standby_is_saved_aside(cluster: Cluster, stub: NameNodeStub) -> None:
    with daemon(cluster):
        last = write_edits(stub, "a")
        url = f"{cluster.ports.daemon_url}/status"
        wait_until("the edits to be applied", lambda: requests.get(url, timeout=600).json()["appliedTxid"] >= last)
        outcome = cluster.checkpoint("--save-aside")
        assert (outcome.code, outcome.err) == (0, "")
        path = Path(outcome.out.removeprefix("the namespace in memory is saved in ").rstrip())
        with ImageFile.open(path) as image:
            assert image.txid >= last
        again = json.loads(cluster.checkpoint("--save-aside", "--json").out)["paths"]
        assert [Path(each).name for each in again] == [path.name]
        assert cluster.checkpoint("--save-aside", "--force").code == 2


@pytest.mark.parametrize(
    "options", [("--cancel", "--force"), ("--reason", "x"), ("--minutes", "5"), ("--cancel", "--minutes", "-1")]
)
def test_incompatible_options_are_rejected(cluster: Cluster, options: tuple[str, ...]) -> None:
    assert cluster.checkpoint(*options).code == 2


def test_exit_code_of_a_failure_depends_on_its_cause(
    cluster: Cluster, stub: NameNodeStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon(cluster):
        write_edits(stub, "a")

        def refused(address: str, *_: object, **__: object) -> None:
            raise TransferError(address, "connection refused")

        with monkeypatch.context() as patched:
            patched.setattr(uploader_module, "upload_image", refused)
            outcome = cluster.checkpoint("--force", "--json")
        assert outcome.code == 7
        assert "connection refused" in outcome.err
        assert json.loads(outcome.out)["uploadErrors"].keys() == {cluster.ports.stub_url}
        write_edits(stub, "b")
        lost = sorted((cluster.root / "shared/current").glob("edits_0*"))[-1]
        content = lost.read_bytes()
        lost.write_bytes(content[:40] + b"\xee" * 8 + content[48:])
        outcome = cluster.checkpoint("--force", "--json")
        assert outcome.code == 4
        assert re.search(r"next: \S", outcome.err)
        assert json.loads(outcome.out)["state"] == "failed"
        status = requests.get(f"{cluster.ports.daemon_url}/status", timeout=600).json()
        assert lost.name in status["lastError"]


def test_forced_checkpoint_while_checkpoints_are_disabled(cluster: Cluster, stub: NameNodeStub) -> None:
    site = cluster.conf / "hdfs-site.xml"
    off = "<property><name>dfs.ha.standby.checkpoints</name><value>false</value></property></configuration>"
    site.write_text(site.read_text().replace("</configuration>", off))
    with daemon(cluster):
        outcome = cluster.checkpoint("--force")
        assert outcome.code == 1
        assert "dfs.ha.standby.checkpoints" in outcome.err


def test_failed_upload_to_a_second_namenode_is_a_warning(tmp_path: Path) -> None:
    """The daemon has two NameNodes; the upload succeeds if one NameNode has the image."""
    answer = {
        "state": "done",
        "message": "checkpoint at txid 7",
        "outcome": "taken",
        "warnings": ["upload to http://b failed: connection refused"],
        "uploadErrors": {"http://b": "connection refused"},
    }

    class Handler(QuietHandler):
        def post(self) -> None:
            self.answer(200, json.dumps(answer).encode())

        def get(self) -> None:
            self.answer(200, json.dumps({"targets": [{"address": "http://b", "takesFrom": None}]}).encode())

    with web_server(Handler) as port:
        values = {"fs.defaultFS": "hdfs://127.0.0.1:1", "dfs.namenode.secondary.http-address": f"127.0.0.1:{port}"}
        write_site(tmp_path, values)
        reported = run_cli("checkpoint", "--conf", tmp_path, "--role", "secondary", "--force")
        as_json = run_cli("checkpoint", "--conf", tmp_path, "--role", "secondary", "--force", "--json")
    assert (reported.code, reported.out) == (0, "checkpoint at txid 7\n")
    assert reported.err == "checkpointer: warning: upload to http://b failed: connection refused\n"
    assert (as_json.code, json.loads(as_json.out)["warnings"]) == (0, answer["warnings"])
