"""The web server of a controller applies dfs.http.policy, and reads the cluster's ssl-server.xml for HTTPS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from failover.server import FailoverServer
from failover.settings import FailoverSettings
from hadoop_common.cli.output import load_configuration
from hadoop_common.cluster_http import UnreachableServerError, send_request
from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.reloading import use_client
from hadoop_common.tls.settings import TlsConfig
from namenode_stub.demo_zookeeper import ZooKeeperServer
from namenode_stub.ports import free_port
from tests.failover.failover_support import HERE, LONG_SESSIONS, NAMESERVICE, FakeNameNode, namenode, properties
from tests.interop.hadoop_conf import HadoopConf
from tests.namenode_stub.stub_support import wait_until
from tests.tls.certificates import Identity, authority, tls_folder

WAIT = 600.0


@pytest.fixture(scope="module")
def ca() -> Identity:
    return authority()


@pytest.fixture
def node() -> Iterator[FakeNameNode]:
    with namenode() as running:
        yield running
    use_client(TlsConfig())


class Site:
    """A configuration with HTTPS for the controller of nn1; `http` and `https` are its permitted addresses."""

    def __init__(self, root: Path, zookeeper: ZooKeeperServer, node: FakeNameNode, ca: Identity, policy: str) -> None:
        self.http, self.https = free_port(), free_port()
        parent = f"/{policy}-{self.https}"
        zk = KazooClient(zookeeper.hosts)
        zk.start(timeout=600)
        zk.ensure_path(f"{parent}/{NAMESERVICE}")
        zk.stop()
        values = {
            "dfs.http.policy": policy,
            "checkpointer.zkfc.http-address": f"{HERE}:{self.http}",
            "checkpointer.zkfc.https-address": f"{HERE}:{self.https}",
            f"dfs.namenode.https-address.{NAMESERVICE}.nn1": f"{HERE}:1",
            f"dfs.namenode.https-address.{NAMESERVICE}.nn2": f"{HERE}:1",
            "ha.zookeeper.quorum": zookeeper.hosts,
            "ha.zookeeper.parent-znode": parent,
            "ha.zookeeper.session-timeout.ms": LONG_SESSIONS["maxSessionTimeout"],
        }
        self.conf = HadoopConf(root, properties({"nn1": node.port, "nn2": 1}, "nn1", values))
        tls_folder(self.conf.folder, ca.issue(), [ca])

    def server(self) -> FailoverServer:
        return FailoverServer(FailoverSettings.from_configuration(load_configuration(self.conf.folder)))


def status_of(url: str) -> int:
    return send_request("GET", url, timeout=WAIT).status


@pytest.mark.parametrize(
    ("policy", "plain", "secure"),
    [("HTTPS_ONLY", False, True), ("HTTP_AND_HTTPS", True, True), ("HTTP_ONLY", True, False)],
)
@pytest.mark.parameters(3)
def test_status_and_health_are_served_as_the_http_policy_says(
    tmp_path: Path, zookeeper: ZooKeeperServer, node: FakeNameNode, ca: Identity, policy: str, plain: bool, secure: bool
) -> None:
    site = Site(tmp_path, zookeeper, node, ca, policy)
    urls = {f"http://localhost:{site.http}": plain, f"https://localhost:{site.https}": secure}
    with site.server() as server:
        assert server.url.startswith("http://" if plain else "https://")
        for url, served in urls.items():
            if not served:
                with pytest.raises(UnreachableServerError):
                    status_of(f"{url}/health/live")
                continue
            wait_until("the controller to take part", lambda url=url: status_of(f"{url}/health/ready") == 200)
            assert status_of(f"{url}/health/live") == 200
            assert send_request("GET", f"{url}/status", timeout=WAIT).json["namenode"] == "nn1"
            metrics = send_request("GET", f"{url}/metrics", timeout=WAIT).text
            assert "hdfs_zkfc_ready 1.0" in metrics
            assert ('hdfs_zkfc_tls_certificate_end_seconds{side="server"}' in metrics) == secure


def test_server_does_not_start_without_a_keystore(
    tmp_path: Path, zookeeper: ZooKeeperServer, node: FakeNameNode, ca: Identity
) -> None:
    site = Site(tmp_path, zookeeper, node, ca, "HTTPS_ONLY")
    (site.conf.folder / "ssl-server.xml").write_text("<configuration/>")
    with pytest.raises(TlsSetupError, match=r"ssl\.server\.keystore\.location"):
        site.server()
