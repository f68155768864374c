"""Our standby with a JournalNode and an active NameNode that require Kerberos with privacy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from hadoop_rpc.ha_protocol import HA_PROTOCOL
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.kerberos_login import KerberosLogin
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.interop.cluster import JournalNode, NameNode
from tests.interop.hadoop_conf import HadoopConf, ha_pair_confs
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import private, secure, short_names
from tests.kerberos.secure_site import SETTINGS, call, mkdirs, transition
from tests.kerberos.wire import Wire, ports_of

pytestmark = [pytest.mark.interop, pytest.mark.deep]


@dataclass
class Site:
    """An active nn1 that writes to one JournalNode; `conf` is the configuration of our standby, which replaces nn2."""

    active: NameNode
    conf: HadoopConf


@pytest.fixture
def site(hadoop_here: None, kdc: Kdc, tmp_path: Path) -> Iterator[Site]:
    first, second, _ = ha_pair_confs(tmp_path)
    address = first["dfs.journalnode.rpc-address"].replace("127.0.0.1", "localhost")
    shared = {"dfs.namenode.shared.edits.dir": f"qjournal://{address}/ns1", **short_names(), **SETTINGS}
    secure(kdc, second, shared)
    with ExitStack() as stack:
        node = JournalNode(secure(kdc, first, shared)).start()
        stack.callback(node.stop)
        active = stack.enter_context(NameNode(first, name="nn1"))
        log_in(login(second))
        call(active, HA_PROTOCOL, "transitionToActive", transition())
        wait_until(lambda: active.state == "active", "nn1 active")
        yield Site(active, second)


def login(conf: HadoopConf) -> KerberosLogin:
    config = CheckpointConfig.from_configuration(Configuration.load(conf.folder, {}), Role.STANDBY)
    assert config.kerberos is not None
    return config.kerberos.login


def test_the_standby_tails_and_checkpoints(site: Site) -> None:
    with OurDaemon.standby(site.conf, "dfs.namenode.http-address.ns1.nn2") as daemon:
        mkdirs(site.active, *(f"/d{number}" for number in range(50)))
        made = daemon.checkpoint()
        assert made["outcome"] == "taken", made
        assert made["txid"] in site.active.images
        mkdirs(site.active, *(f"/e{number}" for number in range(50)))
        last = site.active.last_txid
        wait_until(lambda: daemon.status()["appliedTxid"] >= last, "the tail")
        assert daemon.status()["alarms"] == []
        command = [sys.executable, "-m", "checkpointer", "check", "--conf", str(site.conf.folder), "--json"]
        words = ["--only", "journalnodes", "--only", "namenode"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert json.loads(done.stdout)["state"] == "OK", done
        assert daemon.stop() == 0


def test_a_standby_on_a_shared_directory_with_https_only(hadoop_here: None, kdc: Kdc, tmp_path: Path) -> None:
    first, second, _ = ha_pair_confs(tmp_path)
    private(kdc, first, SETTINGS)
    private(kdc, second, SETTINGS, like=first)
    with Wire(ports_of((first, second))) as wire, NameNode(first, name="nn1") as active:
        log_in(login(second))
        call(active, HA_PROTOCOL, "transitionToActive", transition())
        wait_until(lambda: active.state == "active", "nn1 active")
        with OurDaemon.standby(second, "dfs.namenode.http-address.ns1.nn2") as daemon:
            mkdirs(active, *(f"/marked{number}" for number in range(50)))
            made = daemon.checkpoint()
            assert made["txid"] in active.images
            assert daemon.stop() == 0
    assert active.rpc_address[1] in wire.assert_private()
