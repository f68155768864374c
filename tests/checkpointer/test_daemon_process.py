"""The process of a role: jobs, reload, the service manager, and the exit after a role has failed."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest
import requests

from checkpointer.daemon.process import serve
from checkpointer.daemon.reload import RELOADABLE, merged
from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.role import Job, Progress
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from hadoop_common.access import AccessRules
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.process_control import Command, Control
from hadoop_common.sd_notify import Notifier
from hadoop_common.tls.settings import WebAddresses
from image_format.memory_limit import MemoryLimit
from site_config.catalogue import entry_of
from site_config.checkpoint_config import CheckpointConfig, NamespaceRpc, Role
from tests.checkpointer.service_support import FakeRole, standby_config
from tests.namenode_stub.stub_support import wait_until


def config() -> CheckpointConfig:
    return replace(standby_config(), web=WebAddresses(("127.0.0.1", 0)), poll_interval=3600.0)


class JobRole(FakeRole):
    """A role with one job that requests a poll while `asks` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.01
        self.runs = 0
        self.asks = threading.Event()
        self.configs: list[CheckpointConfig] = []

    def jobs(self) -> list[Job]:
        return [Job("tail", self.seconds, self._run)]

    def reconfigure(self, config: CheckpointConfig) -> None:
        self.configs.append(config)

    def _run(self) -> bool:
        self.runs += 1
        return self.asks.is_set()


@pytest.fixture
def role() -> JobRole:
    return JobRole()


@contextmanager
def served(role: JobRole, **options: object) -> Iterator[tuple[Control, Future[None]]]:
    control = Control(stop_within=30.0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(serve, role, config(), control, **options)
        try:
            yield control, running
        finally:
            control.stop()


def test_job_runs_and_may_request_a_poll(role: JobRole) -> None:
    with served(role):
        wait_until("some runs", lambda: role.runs >= 3)
        assert role.merges == 0
        role.journal, role.urgent = 5, "a rollback image is due"
        role.asks.set()
        # The role's reason is not cleared, so more than one checkpoint may follow.
        wait_until("the checkpoint", lambda: role.merges >= 1)
        role.asks.clear()


def test_reloaded_settings_apply_or_require_a_restart(role: JobRole, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    read = replace(config(), poll_interval=0.01, transactions=1, image_directories=(Path("/elsewhere"),))
    role.journal = 1
    with served(role, reload=lambda: read) as (control, _):
        wait_until("the checkpoint of the first poll", lambda: role.merges == 1)
        role.journal = 2
        control.reload()
        wait_until("the checkpoint by the new settings", lambda: role.merges == 2)
    (taken,) = role.configs
    assert (taken.transactions, taken.poll_interval) == (1, 0.01)
    assert taken.image_directories == config().image_directories
    assert "take effect only after a restart: dfs.namenode.name.dir /name → /elsewhere" in caplog.text


@pytest.mark.parametrize("kind", [StorageError, RuntimeError])
def test_reload_of_a_faulty_configuration_changes_nothing(
    role: JobRole, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    def bad() -> CheckpointConfig:
        raise kind("dfs.namenode.name.dir does not name a directory")

    caplog.set_level("INFO")
    with served(role, reload=bad) as (control, _):
        control.reload()
        wait_until("the complaint", lambda: "does not name a directory" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        # the status shows the logged problem as an alarm
        (alarm,) = requests.get(f"{url}/status", timeout=600).json()["alarms"]
        assert "does not name a directory" in alarm
    assert role.configs == []


def test_service_manager_is_notified(role: JobRole, tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(600)
        with served(role, notifier=Notifier(str(address)), heartbeat=0.01, reload=config) as (control, _):
            assert b"READY=1" in manager.recv(4096)
            seen: list[bytes] = []
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
        monkeypatch.setattr(f"{__name__}.config", lambda: reading)
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


def test_new_bandwidth_applies_to_running_transfers(
    role: JobRole, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transfer would take days with the old limit."""
    caplog.set_level("INFO")
    image = tmp_path / "fsimage_0000000000000000007"
    image.write_bytes(bytes(1 << 20))
    monkeypatch.setattr(JobRole, "image_folders", lambda self: [tmp_path])
    slow = replace(config(), transfer_bandwidth=1, bootstrap_bandwidth=1)
    monkeypatch.setattr(f"{__name__}.config", lambda: slow)
    read = replace(slow, transfer_bandwidth=0, bootstrap_bandwidth=0)
    with served(role, reload=lambda: read) as (control, _):
        wait_until("the address", lambda: "checkpointer on http" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        with ThreadPoolExecutor(2) as pool:
            query = f"{url}/imagetransfer?getimage=1&txid=7"
            running = [pool.submit(requests.get, query + more, timeout=600) for more in ("", "&bootstrapstandby=true")]
            wait_until("a first piece of both", lambda: role.counter.sent >= 2 * slow.transfer_chunk_size)
            control.reload()
            assert [len(each.result(600).content) for each in running] == [1 << 20, 1 << 20]
    assert (
        "configuration reloaded: dfs.image.transfer.bandwidthPerSec 1 → 0, "
        "dfs.image.transfer-bootstrap-standby.bandwidthPerSec 1 → 0"
    ) in caplog.text


def test_reload_applies_new_access_lists(
    role: JobRole, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Access to the daemon depends not only on its settings, but also on its access lists."""
    caplog.set_level("INFO")
    closed = replace(config(), access=AccessRules(("192.0.2.1",)))
    monkeypatch.setattr(f"{__name__}.config", lambda: closed)
    read = [replace(closed, access=AccessRules(("127.0.0.1", "192.0.2.1")))]
    with served(role, reload=lambda: read[0]) as (control, _):
        wait_until("the address", lambda: "checkpointer on http" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        image = f"{url}/imagetransfer?getimage=1&txid=7"
        assert requests.get(image, timeout=600).status_code == 403
        control.reload()
        wait_until("the lists", lambda: "this server has no image" in requests.get(image, timeout=600).text)
    assert "the hosts that may call (192.0.2.1) → (127.0.0.1, 192.0.2.1)" in caplog.text


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


# settings for identity, addresses, sources and engine of a daemon
RESTART = {
    *(
        "role",
        "rpc_user",
        "kerberos",
        "nameservice",
        "namenode_ids",
        "namenode_http_addresses",
        "namenode_rpc_addresses",
        "quorum",
    ),
    "bookkeeper",
    "leader",
    *("web", "rpc_bind_address", "shared_edits", "engine"),
    *("control_hosts", "port_limits", "stop_timeout"),
    *(
        "serve_namespace",
        "namespace_rpc",
        "namespace_sums",
        "group_cache_seconds",
        "permissions",
        "supergroup",
        "shadow",
    ),
    *("image_directories", "edits_directories", "storage_permission"),
    *(f"merge_settings.{name}" for name in ("allow_unknown_layout", "layout_version", "memory")),
}


def test_every_setting_is_reloadable_or_requires_a_restart() -> None:
    names = {each.name for each in fields(CheckpointConfig)} - {"merge_settings", "texts", "conf_dir"}
    names |= {f"merge_settings.{each.name}" for each in fields(MergeSettings)}
    assert names == RELOADABLE | RESTART
    assert not RELOADABLE & RESTART


def test_reload_changes_only_reloadable_settings() -> None:
    running = config()
    read = replace(running, period=5.0, rpc_user="other")
    assert merged(running, read) == (
        replace(running, period=5.0),
        ["dfs.namenode.checkpoint.period 100 → 5"],
        [f"hadoop.user.name {running.rpc_user} → other"],
    )
    merging = replace(running.merge_settings, codec="a.B", memory=MemoryLimit(1 << 30))
    after, changed, kept = merged(running, replace(running, merge_settings=merging))
    assert after.merge_settings == replace(running.merge_settings, codec="a.B")
    assert (changed, kept) == (["dfs.image.compression.codec (unset) → a.B"], ["checkpointer.memory"])


def _read(values: dict[str, str], role: Role = Role.SECONDARY) -> CheckpointConfig:
    given = {"fs.defaultFS": "hdfs://nn", **values}
    return CheckpointConfig.from_configuration(Configuration.from_mapping(given, {"USER": "hdfs"}), role)


@pytest.mark.parametrize(
    ("before", "now", "changed", "kept"),
    [
        (
            {},
            {"dfs.namenode.checkpoint.period": "50s"},
            [
                "dfs.namenode.checkpoint.period 3600s → 50s"
            ],  # except the check period, although that depends on this key
            [],
        ),
        (
            {"dfs.http.policy": "HTTP_ONLY"},
            {"dfs.http.policy": "HTTPS_ONLY", "dfs.replication": "2"},
            [],
            ["dfs.http.policy HTTP_ONLY → HTTPS_ONLY"],
        ),
        (
            {"dfs.namenode.secondary.http-address": "0.0.0.0:9868"},
            {"dfs.namenode.secondary.http-address": "0.0.0.0:1868", "hadoop.ssl.client.conf": "a.xml"},
            [],
            [
                "dfs.namenode.secondary.http-address 0.0.0.0:9868 → 0.0.0.0:1868",
                "hadoop.ssl.client.conf ssl-client.xml → a.xml",
            ],
        ),
        (
            {"dfs.image.compress": "true", "checkpoint.engine": "local"},
            {"checkpoint.engine.spark.partitions": "7", "dfs.namenode.num.checkpoints.retained": "5"},
            ["dfs.namenode.num.checkpoints.retained 2 → 5", "dfs.image.compress true → false"],
            ["checkpoint.engine local → auto", "checkpoint.engine.spark.partitions 0 → 7"],
        ),
        (
            {"ha.zookeeper.auth": "digest:a:b", "ha.zookeeper.quorum": "zk:1"},
            {"ha.zookeeper.auth": "digest:a:c", "ha.zookeeper.quorum": "zk:1"},
            [],
            ["ha.zookeeper.auth (hidden) → (hidden)"],
        ),
        ({"hadoop.tmp.dir": "/a"}, {"hadoop.tmp.dir": "/b"}, [], ["hadoop.tmp.dir /a → /b"]),
        ({"dfs.blocksize": "1"}, {"dfs.blocksize": "2"}, [], []),
        # an explicit default and another unit are not changes
        (
            {"dfs.namenode.checkpoint.check.period": "60"},
            {"dfs.namenode.checkpoint.check.period": "30", "dfs.namenode.checkpoint.period": "1h"},
            ["dfs.namenode.checkpoint.check.period 60 → 30"],
            [],
        ),
        (
            {"dfs.qjournal.start-segment.timeout.ms": "20000", "dfs.qjournal.select-input-streams.timeout.ms": "20s"},
            {"dfs.qjournal.start-segment.timeout.ms": "20s", "dfs.qjournal.select-input-streams.timeout.ms": "10s"},
            [],
            ["dfs.qjournal.select-input-streams.timeout.ms 20s → 10s"],
        ),
    ],
)
def test_reload_names_the_changed_keys(
    before: dict[str, str], now: dict[str, str], changed: list[str], kept: list[str]
) -> None:
    after, taken, waiting = merged(_read(before), _read(now))
    assert (taken, waiting) == (changed, kept)
    # only settings that need a restart are reported again
    assert merged(after, _read(now))[1:] == ([], kept)


def test_every_setting_is_reported_by_its_key() -> None:
    """The name of the key is reported for each role and each setting."""
    for role in Role:
        running = replace(config(), role=role)
        names = [
            each.name
            for each in fields(CheckpointConfig)
            if each.name not in ("role", "merge_settings", "texts", "conf_dir")
        ]
        for name in names:
            _, changed, kept = merged(running, replace(running, **{name: object()}))
            (line,) = changed + kept
            assert entry_of(line.removesuffix(".*")) is not None or line.endswith(".*"), (name, line)


def test_signals_become_commands() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
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
