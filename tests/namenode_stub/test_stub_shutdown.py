"""Graceful shutdown: changes are refused with a sentence, and all acknowledged changes are in finalized segments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from checkpointer.merging.offline import plan_directory
from hadoop_common.configuration import Configuration
from hadoop_rpc.errors import StandbyError
from journal.segment_file import list_segments
from namenode_stub.activation import activate
from namenode_stub.active_state import ActiveState
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import DemoPorts, free_ports, write_configuration
from namenode_stub.fail_stop import ShuttingDownError
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.ha_support import mkdirs, pair_on
from tests.namenode_stub.rpc_support import serving
from tests.namenode_stub.stub_support import formatted, restarted_tree, wait_until


def ended_at(directory: Path) -> int:
    """Return the last transaction id of a directory with a finished log; check that seen_txid matches."""
    segments = list_segments(directory / "current")
    assert not any(segment.in_progress for segment in segments)
    last = max(segment.last or 0 for segment in segments)
    assert (directory / "current" / "seen_txid").read_text() == f"{last}\n"
    return last


def test_a_remote_shutdown_request_ends_all_changes(tmp_path: Path) -> None:
    config = formatted(tmp_path, rpc_address=("127.0.0.1", 0))
    with serving(config, "me") as (stub, dfs):
        url = stub.server.url
        assert dfs.mkdirs("/kept")
        answer = requests.post(f"{url}/shutdown", timeout=600)
        assert (answer.status_code, answer.json()) == (202, {"result": "shutting down"})
        assert stub.shutdown_requested.is_set()
        for operation, arguments in (("mkdirs", {"path": "/lost"}), ("roll", {})):
            refused = requests.post(f"{url}/namespace/{operation}", json=arguments, timeout=600)
            assert refused.status_code == 503
            assert "shutting down" in refused.json()["error"]
            assert refused.json()["hint"]
        with pytest.raises(StandbyError, match="shutting down"):
            dfs.mkdirs("/lost")
        assert requests.get(f"{url}/namespace/status", params={"path": "/kept"}, timeout=600).ok
        status = requests.get(f"{url}/status", timeout=600).json()
        assert (status["shuttingDown"], status["failure"]) == (True, "")
        with pytest.raises(ShuttingDownError):
            stub.active.roll()
    assert ended_at(tmp_path / "name") == ended_at(tmp_path / "shared")
    assert [each.path for each in restarted_tree(config)] == ["/", "/kept"]


def test_running_changes_are_acknowledged(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    stub = NameNodeStub(config)
    with stub, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> list[str]:
            made: list[str] = []
            try:
                while True:
                    path = f"/{number}/{len(made)}"
                    stub.namespace.mkdirs(path)
                    made.append(path)
            except ShuttingDownError:
                return made

        working = [pool.submit(work, number) for number in range(4)]
        wait_until("some work", lambda: stub.namespace.transactions.last_txid > 50)
        stub.stop()
        made = {path for future in working for path in future.result()}
    ended_at(tmp_path / "name")
    assert made <= {each.path for each in restarted_tree(config)}


def test_state_transitions_during_a_shutdown_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path)
    stub = NameNodeStub(config)
    answers: list[requests.Response] = []
    end = ActiveState.end

    def ending(state: ActiveState, *refusal: Any) -> None:
        if not answers:
            answers.append(requests.post(f"{stub.server.url}/transition/standby", timeout=600))
        end(state, *refusal)

    monkeypatch.setattr(ActiveState, "end", ending)
    with stub:
        stub.namespace.mkdirs("/kept")
    assert (answers[0].status_code, "shutting down" in answers[0].json()["error"]) == (503, True)
    ended_at(tmp_path / "name")


def test_a_shutdown_during_a_takeover_allows_no_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pair_on((tmp_path / "shared").as_uri(), tmp_path)
    with NameNodeStub(first) as active:
        active.namespace.mkdirs("/kept")
    standby = NameNodeStub(second, standby=True)

    def activated(*arguments: Any) -> ActiveState:
        state = activate(*arguments)
        standby.request_shutdown()
        return state

    monkeypatch.setattr("namenode_stub.node.activate", activated)
    with standby:
        standby.transition_to_active()
        refused = mkdirs(standby, "/lost")
        assert (refused.status_code, "shutting down" in refused.json()["error"]) == (503, True)
        with pytest.raises(ShuttingDownError):
            standby.transition_to_standby()
    assert ended_at(tmp_path / "shared") == ended_at(tmp_path / "nn2/name")


def test_all_logged_edits_can_be_merged_after_a_shutdown(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/a")
    last = ended_at(tmp_path / "name")
    assert plan_directory(tmp_path / "name").last_txid == last


class Process:
    """A stub process, killed at the end if it still runs."""

    def __init__(self, conf: Path, ports: DemoPorts) -> None:
        self.url = ports.stub_url
        command = [sys.executable, "-m", "namenode_stub", "run", "--conf", str(conf)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))

    def __enter__(self) -> Process:
        wait_until("the stub", lambda: self.process.poll() is not None or self._answers())
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/status", timeout=600).ok
        except requests.ConnectionError:
            return False


def by_signal(process: Process) -> None:
    process.process.send_signal(signal.SIGTERM)


def by_call(process: Process) -> None:
    assert requests.post(f"{process.url}/shutdown", timeout=600).status_code == 202


@pytest.mark.parameters(1)
@pytest.mark.parametrize("end", [by_signal, by_call])
def test_sigterm_shuts_a_process_down_gracefully(tmp_path: Path, end: Callable[[Process], None]) -> None:
    ports = free_ports()
    write_configuration(tmp_path, ports, transactions=1000, period=3600)
    conf = tmp_path / "conf-nn1"
    subprocess.run([sys.executable, "-m", "namenode_stub", "format", "--conf", str(conf)], check=True, timeout=600)
    ended = threading.Event()
    with Process(conf, ports) as running, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> tuple[list[str], list[str]]:
            """Return the created directories, and the reason for the first refusal."""
            made: list[str] = []
            while True:
                path = f"/{number}/{len(made)}"
                try:
                    answer = requests.post(f"{ports.stub_url}/namespace/mkdirs", json={"path": path}, timeout=600)
                except requests.ConnectionError:
                    return made, []
                if answer.status_code == 503:
                    return made, [answer.json()["error"]]
                assert answer.ok
                made.append(path)
                if len(made) == 10:
                    ended.set()

        working = [pool.submit(work, number) for number in range(4)]
        assert ended.wait(600)
        end(running)
        assert running.process.wait(600) == 0
        results = [future.result() for future in working]
    assert ended_at(tmp_path / "nn1") == ended_at(tmp_path / "shared")
    assert all("shutting down" in reason for _, reasons in results for reason in reasons)
    with NameNodeStub(stub_config(Configuration.load(conf, environment={}))) as stub:
        there = {each.path for each in stub.namespace.walk()}
    assert {path for made, _ in results for path in made} <= there
