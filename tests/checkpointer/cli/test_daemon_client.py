"""How commands find the daemon."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from checkpointer.cli.daemon_client import find_again
from checkpointer.daemon.daemon_address import DaemonAddresses
from hadoop_rpc.user import AUTHENTICATION
from node_state.state import NodeState, as_json
from site_config.checkpoint_config import Role
from tests.cli_runner import run_cli
from tests.site_files import write_site
from tests.web_server import QuietHandler, json_server, web_server

SECONDARY = "dfs.namenode.secondary.http-address"


BACKUP = "dfs.namenode.backup.http-address"


SINGLE = {"fs.defaultFS": "hdfs://127.0.0.1:1", "hadoop.tmp.dir": "/nowhere"}


@contextmanager
def answering(answer: bytes, status: int = 200) -> Iterator[int]:
    """Yield a daemon that sends the same response to every request; an empty response closes the connection."""

    class Handler(QuietHandler):
        def post(self) -> None:
            if answer:
                self.answer(status, answer)

    with web_server(Handler) as port:
        yield port


DONE = json.dumps({"state": "done", "message": "checkpoint at txid 42"}).encode()


def test_secondary_is_found_without_a_role(tmp_path: Path) -> None:
    with answering(DONE) as port:
        conf = write_site(tmp_path, {**SINGLE, SECONDARY: f"127.0.0.1:{port}"})
        outcome = run_cli("checkpoint", "--conf", conf, "--force")
    assert (outcome.code, outcome.out) == (0, "checkpoint at txid 42\n")


def test_daemon_without_logins_is_reached_although_the_login_is_faulty(tmp_path: Path) -> None:
    with answering(DONE) as port:
        conf = write_site(tmp_path, {**SINGLE, SECONDARY: f"127.0.0.1:{port}", AUTHENTICATION.name: "kerberos"})
        outcome = run_cli("checkpoint", "--conf", conf)
    assert (outcome.code, outcome.out) == (0, "checkpoint at txid 42\n")
    assert "is required, because hadoop.security.authentication is kerberos" in outcome.err


def test_next_address_is_tried(tmp_path: Path, closed_port: int) -> None:
    with answering(DONE) as port:
        conf = write_site(tmp_path, {**SINGLE, SECONDARY: f"127.0.0.1:{closed_port}", BACKUP: f"127.0.0.1:{port}"})
        assert run_cli("checkpoint", "--conf", conf).code == 0
        only = run_cli("checkpoint", "--conf", conf, "--role", "secondary")
    assert only.code == 7
    assert f"127.0.0.1:{closed_port} (secondary)" in only.err
    assert str(port) not in only.err


def test_new_address_of_a_daemon_is_tried_first(tmp_path: Path) -> None:
    """Another process may listen at the previous address; a daemon that was not restarted still listens there."""
    known, other = "http://127.0.0.1:7", "http://127.0.0.1:8"
    conf = write_site(tmp_path, {**SINGLE, SECONDARY: "127.0.0.1:8"})
    found = find_again(DaemonAddresses({known: Role.SECONDARY}), conf, Role.SECONDARY)
    assert list(found.urls) == [other, known]


def test_error_names_all_addresses_if_none_answers(tmp_path: Path, closed_port: int) -> None:
    values = {**SINGLE, SECONDARY: f"127.0.0.1:{closed_port}", BACKUP: f"localhost:{closed_port}"}
    outcome = run_cli("checkpoint", "--conf", write_site(tmp_path, values), "--json")
    assert outcome.code == 7
    assert json.loads(outcome.out)["exitCode"] == 7
    assert f"http://127.0.0.1:{closed_port} (secondary), http://localhost:{closed_port} (backup)" in outcome.err
    assert "--role" in outcome.err


def test_closed_connection_is_not_reported_as_a_missing_daemon(tmp_path: Path) -> None:
    with answering(b"") as port:
        outcome = run_cli("checkpoint", "--conf", write_site(tmp_path, {**SINGLE, SECONDARY: f"127.0.0.1:{port}"}))
    assert outcome.code == 7
    assert "closed the connection" in outcome.err


def test_status_watch_warns_only_while_the_configuration_is_faulty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = json.dumps(as_json(NodeState(role="secondary")))
    with json_server({"/status": (200, status), "/health/ready": (200, "{}")}) as server:
        sound = {**SINGLE, SECONDARY: server.url.partition("://")[2]}
        write_site(tmp_path, {**sound, "dfs.namenode.checkpoint.period": "soon"})
        warnings: list[str] = []

        def next_screen(_: float) -> None:
            """Store the warnings so far, and change the configuration for the next screen."""
            warnings.append(cast(StringIO, sys.stderr).getvalue())
            if len(warnings) == 1:
                (tmp_path / "hdfs-site.xml").write_text("<configuration>")
            elif len(warnings) == 2:
                write_site(tmp_path, sound)
            else:
                raise KeyboardInterrupt

        monkeypatch.setattr("checkpointer.cli.status_command.time", SimpleNamespace(time=time.time, sleep=next_screen))
        shown = run_cli("status", "--conf", tmp_path, "--watch")
    assert shown.out.count(f"secondary at {server.url}, ready, ") == 3
    wrong_value, unreadable, repaired = warnings
    assert "dfs.namenode.checkpoint.period='soon'" in wrong_value
    assert str(tmp_path / "hdfs-site.xml") in unreadable.removeprefix(wrong_value)
    assert repaired == unreadable
