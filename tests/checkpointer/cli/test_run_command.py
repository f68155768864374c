"""`checkpointer run`: a process from its start to SIGTERM, and configurations that it rejects."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from checkpointer.storage.inspector import list_images
from hadoop_common.image_servlet import DIGEST_HEADER, NAME_HEADER
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from tests.checkpointer.cli.standby_cluster import Cluster, answers, process, write_edits
from tests.cli_runner import run_cli
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site
from tests.web_server import QuietHandler, web_server

LOGGING = Path(__file__).parents[3] / "config" / "logging.toml"


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


def test_the_daemon_starts_while_a_login_waits_for_a_kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "fs.defaultFS": "hdfs://127.0.0.1:1",
        "dfs.namenode.checkpoint.dir": str(tmp_path),
        "hadoop.security.authentication": "kerberos",
        "dfs.namenode.kerberos.principal": "nn/_HOST@R",
        "dfs.secondary.namenode.kerberos.principal": "sn/_HOST@R",
        "dfs.secondary.namenode.keytab.file": "/keys/sn",
    }
    monkeypatch.setattr("os.umask", lambda mask: 0)
    monkeypatch.setattr("checkpointer.cli.run_command.set_up_logging", lambda *_: None)
    monkeypatch.setattr("checkpointer.cli.run_command._log_in", lambda _: None)
    # the role and the login wait for each other
    met = threading.Barrier(2)
    monkeypatch.setattr("checkpointer.daemon.process.run_role", lambda *_, **__: met.wait(600))
    monkeypatch.setattr("checkpointer.cli.run_command._try_web_logins", lambda *_: met.wait(600))
    assert run_cli("run", "--conf", write_site(tmp_path, settings), "--role", "secondary").code == 0


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
    # a daemon may listen at the default port of this host
    address = {"dfs.namenode.secondary.http-address": f"127.0.0.1:{free_port()}"}
    outcome = run_cli(command, "--conf", write_site(tmp_path, values | address), "--role", "standby")
    assert outcome.code == 2
    for key in [*values, "dfs.namenode.shared.edits.dir"]:
        assert key in outcome.err
    assert "Traceback" not in outcome.err
