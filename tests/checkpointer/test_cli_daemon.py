"""`checkpointer run` and `checkpointer checkpoint` as an operator uses them: processes, signals, exit codes, JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

import checkpointer.transfer.uploader as uploader_module
from checkpointer.daemon.process import serve
from checkpointer.errors import TransferError
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.storage.inspector import list_images
from hadoop_common.configuration import Configuration
from hadoop_common.image_servlet import DIGEST_HEADER, NAME_HEADER
from hadoop_common.process_control import Control
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import DemoPorts, write_configuration
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from servlets.change_guard import ChangeGuard
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.cli_runner import Outcome, run_cli
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site
from tests.web_server import QuietHandler, web_server

TRANSACTIONS = 1000
PERIOD = "dfs.namenode.checkpoint.period"

LOGGING = Path(__file__).parents[2] / "config" / "logging.toml"


def load(conf: Path) -> Configuration:
    return Configuration.load(conf, environment={})


class Cluster:
    """A formatted pair below `root`, its configuration files, and the stub that runs as nn1."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = DemoPorts(free_port(), free_port(), free_port())
        write_configuration(root, self.ports, transactions=TRANSACTIONS, period=3600)
        config = stub_config(load(root / "conf-nn1"))
        format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(-67))
        # The image is made old enough for a Hadoop 3 NameNode to accept another image.
        for image in config.image_directories[0].glob("current/fsimage_*"):
            os.utime(image, (0, 0))
        self.stub_config = replace(config, roll_period=0.0)
        self.conf = root / "conf-nn2"

    def checkpoint(self, *options: str) -> Any:
        return run_cli("checkpoint", "--conf", self.conf, *options)


def write_edits(stub: NameNodeStub, label: str) -> int:
    for number in range(20):
        stub.namespace.mkdirs(f"/{label}/{number}")
    return stub.active.roll() - 1


@pytest.mark.parametrize(("codec", "warns"), [("Lz4Codec", True), ("GzipCodec", False)])
def test_start_warns_of_a_codec_that_a_namenode_may_lack(
    codec: str, warns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = {
        "dfs.image.compress": "true",
        "dfs.image.compression.codec": f"org.apache.hadoop.io.compress.{codec}",
        "dfs.namenode.checkpoint.dir": str(tmp_path),
    }
    properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    defaults = "<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:1</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{defaults}</configuration>")
    monkeypatch.setattr("os.umask", lambda mask: 0)
    monkeypatch.setattr("checkpointer.cli.run_command.set_up_logging", lambda *_: None)
    monkeypatch.setattr("checkpointer.daemon.process.run_role", lambda *_, **__: None)
    assert run_cli("run", "--conf", tmp_path, "--role", "secondary").code == 0
    assert ("dfs.image.compression.codec: A NameNode reads Lz4Codec only with lz4-java" in caplog.text) == warns


def test_status_output_with_and_without_a_daemon(cluster: Cluster, stub: NameNodeStub) -> None:
    missing = run_cli("status", "--conf", cluster.conf)
    assert (missing.code, "no daemon answers" in missing.err) == (7, True)
    outcomes: list[Outcome] = []

    def idle() -> bool:
        # a poll may be running
        outcomes.append(run_cli("status", "--conf", cluster.conf))
        return re.search("^phase +idle$", outcomes[-1].out, re.MULTILINE) is not None

    with daemon(cluster):
        last = write_edits(stub, "a")
        assert cluster.checkpoint("--force").code == 0
        wait_until("a state between polls", idle)
        state = json.loads(run_cli("status", "--conf", cluster.conf, "--json").out)
    outcome = outcomes[-1]
    assert outcome.code == 0, outcome.err
    first, *lines = outcome.out.splitlines()
    assert first.startswith(f"standby at {cluster.ports.daemon_url}, ready, ")
    facts = {line[:16].rstrip(): line[16:] for line in lines}
    assert re.fullmatch(rf"txid {last}, made \d[\w ]* ago \(forced\), [0-9.]+ \w+", facts["image"])
    assert facts["edits"].startswith("0 transactions without an image; ")
    taken = f"http://127.0.0.1:{cluster.ports.stub} (nn1 active): accepted the image at txid {last}, "
    assert facts["NameNode"].startswith(taken)
    assert facts["cluster"] == state["clusterId"]
    assert facts["alarm"] == "none"
    assert (state["ready"], state["imageTxid"], state["url"]) == (True, last, cluster.ports.daemon_url)
    assert "\x1b" not in outcome.out


def test_daemon_is_shown_while_the_configuration_on_disk_is_faulty(cluster: Cluster, stub: NameNodeStub) -> None:
    site = cluster.conf / "hdfs-site.xml"
    faulty = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in {PERIOD: "soon", "dfs.namenode.name.dir": "relative"}.items()
    )
    with daemon(cluster):
        site.write_text(site.read_text().replace("</configuration>", f"{faulty}</configuration>"))
        shown = run_cli("status", "--conf", cluster.conf)
        as_json = run_cli("status", "--conf", cluster.conf, "--json")
        history = run_cli("history", "--conf", cluster.conf)
        silenced = run_cli("silence", "late", "--conf", cluster.conf, "--reason", "repair")
        acknowledged = run_cli("acknowledge", "late", "--conf", cluster.conf, "--minutes", "0")
        asked = cluster.checkpoint("--force")
        checked = run_cli("check", "--conf", cluster.conf)
    # a daemon could not start with this configuration
    stopped = run_cli("status", "--conf", cluster.conf)
    assert shown.out.startswith(f"standby at {cluster.ports.daemon_url}, ready, ")
    for each in (shown, as_json, history, silenced, acknowledged, asked):
        assert each.code == 0, each.err
        (warning,) = each.err.splitlines()
        assert warning.startswith(f"warning: the configuration in {cluster.conf} is faulty, so a reload would change ")
        assert f"{PERIOD}='soon'" in warning
        assert "and 1 other fault" in warning
    period, directory = json.loads(as_json.out)["configurationFaults"]
    assert (period["key"], period["value"], period["source"]) == (PERIOD, "soon", str(site))
    assert directory["key"] == "dfs.namenode.name.dir"
    assert checked.code == 3
    assert "`checkpointer status` shows its state" in checked.out
    assert stopped.code == 2
    assert PERIOD in stopped.err
    assert "dfs.namenode.name.dir" in stopped.err
    assert f"{cluster.ports.daemon_url} (standby): no daemon answers" in stopped.err


def test_commands_report_a_stopped_daemon(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel accepts connections on behalf of a stopped process."""
    monkeypatch.setattr("checkpointer.cli.status_command._TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", cluster.ports.daemon)):
        shown = run_cli("status", "--conf", cluster.conf)
        monkeypatch.setattr("checkpointer.cli.checkpoint_command._PROBE_SECONDS", 0.2)
        asked = cluster.checkpoint("--force")
    assert (shown.code, asked.code) == (7, 7)
    assert "no answer within 0.2 s" in shown.err
    assert "stopped (T)" in shown.err
    for outcome in (shown, asked):
        assert "continues" not in outcome.err


def test_status_watch_continues_through_a_restart(cluster: Cluster, stub: NameNodeStub) -> None:
    # in a background job, SIGINT is ignored
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeding}; from checkpointer.cli import main; main()"
    command = [sys.executable, "-c", program, "status", "--conf", str(cluster.conf), "--watch", "0.1"]
    with daemon(cluster):
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        seen = (line for line in watching.stdout)
        for _ in range(2):
            assert any(line.startswith("standby at ") for line in seen)
    assert any("no daemon answers" in line for line in seen)
    watching.send_signal(signal.SIGINT)
    assert "interrupted" in watching.communicate()[1]
    assert watching.returncode == 130


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    # a busy machine is not a fault
    monkeypatch.setattr("checkpointer.cli.status_command._TIMEOUT", 600.0)
    monkeypatch.setattr("checkpointer.cli.checkpoint_command._PROBE_SECONDS", 600.0)
    return Cluster(tmp_path)


@pytest.fixture
def stub(cluster: Cluster) -> Iterator[NameNodeStub]:
    with NameNodeStub(cluster.stub_config) as running:
        yield running


@contextmanager
def process(conf: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "checkpointer", "run", "--conf", str(conf), "--role", "standby", *options]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()


@contextmanager
def daemon(cluster: Cluster) -> Iterator[None]:
    """Run the daemon in a thread of this process, and stop it at the end."""
    config = CheckpointConfig.from_configuration(load(cluster.conf), Role.STANDBY)
    role, control = StandbyRole(config), Control(stop_within=30.0)
    role.open()
    running = threading.Thread(target=serve, args=(role, config, control))
    running.start()
    try:
        wait_until("the daemon", lambda: answers(cluster.ports.daemon_url))
        yield
    finally:
        control.stop()
        running.join()
        role.close()


def answers(url: str, path: str = "/health/live") -> bool:
    try:
        return requests.get(f"{url}{path}", timeout=600).ok
    except requests.ConnectionError:
        return False


def test_a_daemon_process_from_start_to_sigterm(cluster: Cluster, stub: NameNodeStub, tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    with process(cluster.conf, log, "--log-config", str(LOGGING)) as running:
        url = cluster.ports.daemon_url
        wait_until("the daemon", lambda: running.poll() is not None or answers(url))
        assert answers(url, "/health/ready")
        last = write_edits(stub, "a")
        outcome = cluster.checkpoint("--force", "--json")
        assert outcome.code == 0, outcome.err
        answer = json.loads(outcome.out)
        assert (answer["state"], answer["txid"], answer["reason"]) == ("done", last, "forced")
        with process(cluster.conf, tmp_path / "second.log") as second:
            assert second.wait(600) == 6
        expected_message = (tmp_path / "second.log").read_text()
        assert "is held by" in expected_message
        assert "Traceback" not in expected_message
        running.send_signal(signal.SIGTERM)
        assert running.wait(600) == 0, log.read_text()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(f"checkpoint at txid {last}" in line["message"] for line in lines)
    assert not any("exception" in line for line in lines)
    assert not (tmp_path / "nn2" / "in_use.lock").exists()
    assert [image.txid for image in list_images(tmp_path / "nn2/current")] == [0, last]


def test_sigterm_during_the_first_image_transfer(cluster: Cluster, tmp_path: Path) -> None:
    asked, released = threading.Event(), threading.Event()

    class Slow(QuietHandler):
        """A handler that never finishes sending an image."""

        def get(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
            self.send_header(NAME_HEADER, "fsimage_0000000000000000000")
            self.send_header(DIGEST_HEADER, "0" * 32)
            self.end_headers()
            try:
                while not released.is_set():
                    self.wfile.write(bytes(1 << 16))
                    asked.set()
                    released.wait(0.01)
            except OSError:
                # the daemon has disconnected, as the test requests
                return

    with web_server(Slow, cluster.ports.stub):
        try:
            with process(cluster.conf, tmp_path / "daemon.log") as running:
                wait_until("the bootstrap", lambda: asked.is_set() or running.poll() is not None)
                running.send_signal(signal.SIGTERM)
                assert running.wait(600) == 0, (tmp_path / "daemon.log").read_text()
        finally:
            released.set()
    left = [path.name for path in (tmp_path / "nn2").rglob("*") if path.is_file()]
    assert left == [], (tmp_path / "daemon.log").read_text()


def test_run_fails_while_the_active_is_down_without_an_image(cluster: Cluster) -> None:
    outcome = run_cli("run", "--conf", cluster.conf)
    assert outcome.code == 6
    assert "no image to start from" in outcome.err
    assert "next: Find out why no NameNode sends its image" in outcome.err


def test_run_rejects_an_unknown_role(cluster: Cluster) -> None:
    outcome = run_cli("run", "--conf", cluster.conf, "--role", "primary")
    assert outcome.code == 2
    assert "primary" in outcome.err


@pytest.mark.parametrize("role", ["secondary", "backup"])
def test_run_rejects_secondary_and_backup_with_ha(cluster: Cluster, role: str) -> None:
    outcome = run_cli("run", "--conf", cluster.conf, "--role", role)
    assert outcome.code == 2
    assert "use --role standby" in outcome.err


def test_run_rejects_an_invalid_logging_configuration(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "logging.toml").write_text("version = 2\n")
    outcome = run_cli("run", "--conf", cluster.conf, "--log-config", tmp_path / "logging.toml")
    assert outcome.code == 2
    assert "logging.toml" in outcome.err


@pytest.mark.parametrize("command", ["run", "checkpoint"])
def test_faulty_configuration_lists_all_its_faults(tmp_path: Path, command: str) -> None:
    values = {
        "dfs.namenode.name.dir": "relative",
        "dfs.namenode.checkpoint.period": "soon",
        "dfs.namenode.checkpoint.txns": "0",
        "dfs.namenode.num.checkpoints.retained": "perhaps",
    }
    outcome = run_cli(command, "--conf", write_site(tmp_path, values), "--role", "standby")
    assert outcome.code == 2
    for key in [*values, "dfs.namenode.shared.edits.dir"]:
        assert key in outcome.err
    assert "Traceback" not in outcome.err


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
