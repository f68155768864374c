"""Real NameNodes write to our JournalNodes and read from them, with privacy and HTTPS only.

Our commands also work in such a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hadoop_rpc.ha_protocol import HA_PROTOCOL
from hadoop_rpc.kerberos import log_in
from tests.interop.cluster import NAMENODE, NameNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf, ha_pair_confs
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.journal_trio import OurJournalNode
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.callers import add_users
from tests.kerberos.callers import login as login_as
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import private
from tests.kerberos.secure_site import SETTINGS, call, mkdirs, transition
from tests.kerberos.wire import Wire, ports_of
from tests.tls.hadoop_tls import https_only

pytestmark = [pytest.mark.interop, pytest.mark.deep]


@dataclass
class Site:
    """Two NameNodes, nn1 of them active, and the URI of their journal."""

    first: NameNode
    second: NameNode
    nodes: list[OurJournalNode]
    uri: str
    wire: Wire


@pytest.fixture
def site(hadoop_here: None, kdc: Kdc, tmp_path: Path) -> Iterator[Site]:
    add_users(kdc)
    first, second, _ = ha_pair_confs(tmp_path)
    confs = [HadoopConf(tmp_path / f"jn{number}") for number in (1, 2, 3)]
    places = [conf["dfs.journalnode.rpc-address"].replace("127.0.0.1", "localhost") for conf in confs]
    uri = f"qjournal://{';'.join(places)}/{NAMESERVICE}"
    shared = {"dfs.namenode.shared.edits.dir": uri, **SETTINGS}
    private(kdc, first, shared)
    private(kdc, second, shared, like=first)
    with ExitStack() as stack:
        nodes = []
        wire = Wire(ports_of((first, second, *map(https_only, confs))))
        stack.enter_context(wire)
        for conf in confs:
            own = {key: value for key, value in conf.properties.items() if key.startswith("dfs.journalnode.")}
            names = {key: value for key, value in first.properties.items() if key != "dfs.ha.namenode.id"}
            named = {key: value.replace("127.0.0.1", "localhost") for key, value in own.items()}
            conf.update({**names, **named})
            nodes.append(OurJournalNode(conf).start())
            stack.callback(nodes[-1].stop)
        one = stack.enter_context(NameNode(first, name="nn1"))
        log_in(login_as(kdc, "nn"))
        call(one, HA_PROTOCOL, "transitionToActive", transition())
        wait_until(lambda: one.state == "active", "nn1 active")
        run_once(NAMENODE, "-bootstrapStandby", "-force", conf=second).checked()
        two = stack.enter_context(NameNode(second, name="nn2"))
        yield Site(one, two, nodes, uri, wire)
    spoken_to = wire.assert_private()
    for node in nodes:
        for key in ("rpc", "https"):
            assert int(node.conf[f"dfs.journalnode.{key}-address"].rpartition(":")[2]) in spoken_to


def test_an_ha_pair_and_our_standby_use_our_journal_nodes(site: Site, kdc: Kdc, tmp_path: Path) -> None:
    mkdirs(site.first, *(f"/marked{number}" for number in range(50)))
    last = site.first.last_txid
    wait_until(lambda: site.second.last_txid >= last, "the tail of nn2")
    # a failover: nn2 fences by epochs, recovers and writes
    site.first.kill()
    call(site.second, HA_PROTOCOL, "transitionToActive", transition())
    wait_until(lambda: site.second.state == "active", "nn2 active")
    mkdirs(site.second, *(f"/marked-later{number}" for number in range(50)))
    own = https_only(HadoopConf(tmp_path / "ours", site.first.conf.properties))
    own.update({f"dfs.namenode.name.dir.{NAMESERVICE}.nn1": (tmp_path / "ours" / "name").as_uri()})
    with OurDaemon.standby(own, f"dfs.namenode.http-address.{NAMESERVICE}.nn1") as daemon:
        made = daemon.checkpoint()
        assert made["txid"] in site.second.images
        assert daemon.stop() == 0
    command = [sys.executable, "-m", "checkpointer", "edits", "convert", site.uri, f"file://{tmp_path}/copy"]
    version = ["--version-file", str(site.second.current / "VERSION"), "--conf", str(own.folder)]
    done = subprocess.run([*command, *version], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for node in site.nodes:
        log = node.log.read_text()
        assert "Not authorized" not in log, log[-3000:]
        assert "Only Namenode" not in log, log[-3000:]
    check = [sys.executable, "-m", "checkpointer", "check", "--conf", str(own.folder), "--json"]
    done = subprocess.run([*check, "--only", "journalnodes"], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["state"] == "OK", done
