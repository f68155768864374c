"""Privacy with HTTPS only, on a real Hadoop: our roles and commands work, and every name is encrypted."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.kerberos import log_in
from tests.depth import deep
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.callers import Tap
from tests.kerberos.callers import login as login_as
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import HOST, private
from tests.kerberos.secure_site import mkdirs
from tests.kerberos.wire import NAMES, Wire, ports_of

pytestmark = [pytest.mark.interop]


def run(name: str, conf: HadoopConf, *words: str) -> dict[str, Any]:
    """Run a command, which must succeed, and return its JSON."""
    command = [sys.executable, "-m", "checkpointer", name, "--conf", str(conf.folder), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


class Taps:
    """Relays in front of servers, by the configuration key of the server's address."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._taps: dict[str, Tap] = {}

    def before(self, conf: HadoopConf, *keys: str) -> dict[str, str]:
        """Return addresses for `keys` that lead through a tap."""
        for key in keys:
            self._taps[key] = Tap(int(conf[key].rpartition(":")[2]))
            self._stack.callback(self._taps[key].close)
        return {key: f"{HOST}:{self._taps[key].port}" for key in keys}

    def assert_private(self) -> None:
        """Assert that all taps were used, and that only logins are readable."""
        for key, tap in self._taps.items():
            web = "https-address" in key
            assert tap.seen.startswith(b"\x16\x03" if web else b"hrpc"), (key, bytes(tap.seen[:100]))
            assert web or b"KERBEROS" in tap.seen, key
            assert [name for name in NAMES if name in tap.seen] == [], key


NAMENODE = ("dfs.namenode.rpc-address", "dfs.namenode.https-address")
SECONDARY = "dfs.namenode.secondary.https-address"


def test_our_secondary_and_commands_with_https_only(hadoop_here: None, kdc: Kdc, tmp_path: Path) -> None:
    """The daemon reaches the NameNode through taps, and the command reaches the daemon through another tap."""
    with ExitStack() as stack:
        namenode = stack.enter_context(NameNode(private(kdc, HadoopConf(tmp_path / "nn"))))
        taps = Taps(stack)
        own = {"dfs.namenode.checkpoint.dir": (tmp_path / "checkpoint").as_uri()}
        by_taps = taps.before(namenode.conf, *NAMENODE)
        ours = private(kdc, HadoopConf(tmp_path / "ours", {**namenode.conf.properties, **own, **by_taps}))
        asking = private(kdc, HadoopConf(tmp_path / "asking", {**ours.properties, **taps.before(ours, SECONDARY)}))
        log_in(login_as(kdc, "nn"))
        mkdirs(ours, "/marked-folder/marked-child")
        daemon = stack.enter_context(OurDaemon.secondary(ours))
        made = run("checkpoint", asking, "--force")
        assert made["uploads"] == {ours.web_url("dfs.namenode.http-address"): "SUCCESS"}
        assert namenode.images[-1] == made["txid"]
        if deep():
            assert run("fetch-image", ours, str(tmp_path / "backup"))["txid"] == made["txid"]
        checks = ("namenode", "daemon", "kerberos", "tls")
        checked = run("check", asking, *(word for check in checks for word in ("--only", check)))
        assert checked["state"] == "OK", checked
        assert daemon.stop() == 0
    taps.assert_private()


@pytest.mark.deep
def test_our_backup_node_with_https_only(hadoop_here: None, kdc: Kdc, tmp_path: Path) -> None:
    """An HTTPS-only NameNode cannot register a backup node, not even Hadoop's own."""
    conf = private(kdc, HadoopConf(tmp_path / "nn"))
    name_dir = {"dfs.namenode.name.dir": (tmp_path / "backup").as_uri()}
    ours = private(kdc, HadoopConf(tmp_path / "ours", {**conf.properties, **name_dir}))
    with Wire(ports_of((conf, ours))) as wire, NameNode(conf) as namenode, OurDaemon.backup(ours) as daemon:
        log_in(login_as(kdc, "nn"))
        for number in range(2):
            mkdirs(namenode, f"/marked{number}")
            made = daemon.checkpoint()
            assert made["uploads"] == {namenode.url: "SUCCESS"}, made
            assert made["txid"] in namenode.images
        (alarm,) = daemon.status()["alarms"]
        assert f"the NameNode at {HOST}:{namenode.rpc_address[1]} cannot register backup nodes" in alarm
        assert daemon.stop() == 0
    web = int(daemon.url.rpartition(":")[2])
    assert {namenode.rpc_address[1], int(namenode.url.rpartition(":")[2]), web} <= wire.assert_private()
