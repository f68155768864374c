"""Settings that a reload changes, and settings that require a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import pytest
import requests

from checkpointer.daemon.reload import RELOADABLE, merged
from engine.settings import MergeSettings
from hadoop_common.access import AccessRules
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from image_format.memory_limit import MemoryLimit
from site_config.catalogue import entry_of
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.daemon.job_role import JobRole, config, role, served
from tests.namenode_stub.stub_support import wait_until

__all__ = ["role"]


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


def test_new_bandwidth_applies_to_running_transfers(
    role: JobRole, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transfer would take days with the old limit."""
    caplog.set_level("INFO")
    image = tmp_path / "fsimage_0000000000000000007"
    image.write_bytes(bytes(1 << 20))
    monkeypatch.setattr(JobRole, "image_folders", lambda self: [tmp_path])
    slow = replace(config(), transfer_bandwidth=1, bootstrap_bandwidth=1)
    monkeypatch.setattr("tests.checkpointer.daemon.job_role.config", lambda: slow)
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
    monkeypatch.setattr("tests.checkpointer.daemon.job_role.config", lambda: closed)
    read = [replace(closed, access=AccessRules(("127.0.0.1", "192.0.2.1")))]
    with served(role, reload=lambda: read[0]) as (control, _):
        wait_until("the address", lambda: "checkpointer on http" in caplog.text)
        url = next(m for m in caplog.messages if "checkpointer on http" in m).split(" on ")[1].split(": ")[0]
        image = f"{url}/imagetransfer?getimage=1&txid=7"
        assert requests.get(image, timeout=600).status_code == 403
        control.reload()
        wait_until("the lists", lambda: "this server has no image" in requests.get(image, timeout=600).text)
    assert "the hosts that may call (192.0.2.1) → (127.0.0.1, 192.0.2.1)" in caplog.text


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


_KERBEROS = {
    "hadoop.security.authentication": "kerberos",
    "dfs.namenode.kerberos.principal": "nn/_HOST@R",
    "dfs.secondary.namenode.kerberos.principal": "sn/_HOST@R",
    "dfs.secondary.namenode.keytab.file": "/keys/sn",
}


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
        # the rules take effect, and the object that contains them reports that
        (
            _KERBEROS,
            {**_KERBEROS, "hadoop.security.auth_to_local": "RULE:[2:$1]", "hadoop.rpc.protection": "privacy"},
            [],
            ["hadoop.rpc.protection authentication → privacy"],
        ),
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
    for each_role in Role:
        running = replace(config(), role=each_role)
        names = [
            each.name
            for each in fields(CheckpointConfig)
            if each.name not in ("role", "merge_settings", "texts", "conf_dir")
        ]
        for name in names:
            _, changed, kept = merged(running, replace(running, **{name: object()}))
            (line,) = changed + kept
            assert entry_of(line.removesuffix(".*")) is not None or line.endswith(".*"), (name, line)
