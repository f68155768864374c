"""The process of a role: jobs, signals, the service manager, and the exit after a role has failed."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.role import Progress
from engine.warm_namespace import WarmNamespace
from hadoop_common.process_control import Command, Control
from hadoop_common.sd_notify import Notifier
from site_config.checkpoint_config import NamespaceRpc
from tests.checkpointer.daemon.job_role import JobRole, config, role, served
from tests.namenode_stub.stub_support import wait_until

__all__ = ["role"]


def test_job_runs_and_may_request_a_poll(role: JobRole) -> None:
    with served(role):
        wait_until("some runs", lambda: role.runs >= 3)
        assert role.merges == 0
        role.journal, role.urgent = 5, "a rollback image is due"
        role.asks.set()
        # The role's reason is not cleared, so more than one checkpoint may follow.
        wait_until("the checkpoint", lambda: role.merges >= 1)
        role.asks.clear()


def test_service_manager_is_notified(role: JobRole, tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(600)
        with served(role, notifier=Notifier(str(address)), heartbeat=0.01, reload=config) as (control, _):
            seen = [manager.recv(4096)]
            while b"READY=1" not in seen[-1]:
                # a job may report the status first
                assert seen[-1].startswith(b"STATUS=")
                seen.append(manager.recv(4096))
            while b"WATCHDOG=1\n" not in seen:
                seen.append(manager.recv(4096))
            control.reload()
            while not any(b"RELOADING=1" in each for each in seen):
                seen.append(manager.recv(4096))
            while b"READY=1" not in seen[-1]:
                seen.append(manager.recv(4096))
            control.stop()
            while b"STOPPING=1" not in seen[-1]:
                seen.append(manager.recv(4096))


def test_watchdog_is_notified_while_a_disk_hangs(role: JobRole, tmp_path: Path) -> None:
    address, hangs, released, real = tmp_path / "notify", threading.Event(), threading.Event(), role.progress

    def hanging() -> Progress:
        hangs.set()
        released.wait(600)
        return real()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(600)
        with served(role, notifier=Notifier(str(address)), heartbeat=0.01) as (control, _):
            while b"STATUS=" not in manager.recv(4096):
                continue
            role.progress = hanging  # type: ignore[method-assign]
            assert hangs.wait(600)
            manager.setblocking(False)
            with suppress(BlockingIOError):
                while manager.recv(4096):
                    # discard messages sent before the hang
                    continue
            manager.settimeout(600)
            report = 0
            while report < 3:
                report += manager.recv(4096) == b"WATCHDOG=1\n"
            released.set()
            control.stop()


def test_role_that_gives_up_ends_the_daemon(role: JobRole) -> None:
    role.journal, role.urgent, role.fault = 1, "urgent", RoleGaveUpError("4 merges failed")
    role.asks.set()
    with served(role) as (_, running), pytest.raises(RoleGaveUpError, match="4 merges"):
        running.result(600)


def test_http_endpoints(role: JobRole, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with served(role):
        wait_until("the address", lambda: "checkpointer on http" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        assert requests.get(f"{url}/status", timeout=600).json()["role"] == "standby"
        assert "beans" in requests.get(f"{url}/jmx", timeout=600).json()
        assert requests.get(f"{url}/metrics", timeout=600).ok
        assert requests.get(f"{url}/health/live", timeout=600).ok
        assert requests.get(f"{url}/imagetransfer?getimage=1&txid=1", timeout=600).status_code == 410


def test_checkpoints_continue_while_the_address_for_reads_is_in_use(
    role: JobRole, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr("checkpointer.serving.read_servers.RETRY_SECONDS", 0.01)
    monkeypatch.setattr(JobRole, "warm_namespace", WarmNamespace())
    role.journal, role.urgent = 5, "a rollback image is due"
    with socket.create_server(("127.0.0.1", 0)) as namenode:
        served_at = NamespaceRpc(namenode.getsockname(), is_namenode=True)
        reading = replace(config(), serve_namespace=True, namespace_rpc=(served_at,))
        monkeypatch.setattr("tests.checkpointer.daemon.job_role.config", lambda: reading)
        with served(role) as (_, running):
            wait_until("the fault", lambda: "reads are not answered over RPC" in caplog.text)
            role.asks.set()
            wait_until("the checkpoint", lambda: role.merges >= 1)
            url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
            status = requests.get(f"{url}/status", timeout=600).json()
            (alarm,) = (each for each in status["alarms"] if "over RPC" in each)
            assert "leave it running" in status["nextSteps"][alarm]
            namenode.close()
            wait_until("the server", lambda: "reads are answered at this RPC address" in caplog.text)
            assert not running.done()


def test_cancelling_over_http(role: JobRole, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with served(role):
        wait_until("the address", lambda: "checkpointer on http" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        assert requests.post(f"{url}/cancel", params={"reason": "maintenance", "minutes": "5"}, timeout=600).ok
        cancelled = requests.get(f"{url}/status", timeout=600).json()["cancelled"]
        assert cancelled["reason"] == "maintenance"
        assert 0 < cancelled["secondsLeft"] <= 300
        assert requests.post(f"{url}/checkpoint", timeout=600).status_code == 503
        assert requests.post(f"{url}/cancel?minutes=0", timeout=600).ok
        assert requests.post(f"{url}/checkpoint", timeout=600).json()["state"] == "skipped"


def test_signals_become_commands() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    control = Control(stop_within=30.0)
    control.take_signals()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        assert control.wait(600) is Command.RELOAD
        assert not control.stopping()
        os.kill(os.getpid(), signal.SIGTERM)
        assert control.wait(600) is Command.STOP
        assert control.stopping()
        assert control.wait(0.0) is None
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            signal.signal(number, handler)
