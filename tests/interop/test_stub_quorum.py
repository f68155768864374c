"""Our NameNode stub and a real NameNode as an HA pair on a quorum: each takes over from the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from tests.interop.client_stub import without_times
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NAMENODE, NameNode
from tests.interop.hadoop_conf import ha_pair_confs
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_namenode import OurNameNode

pytestmark = pytest.mark.interop

MIXTURES = {"Hadoop's nodes": False, "two of Hadoop's and ours": (False, False, True)}
SETTINGS = {
    "dfs.ha.tail-edits.period": "1",
    "dfs.ha.log-roll.period": "1",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.namenode.checkpoint.txns": "1000000",
    "dfs.namenode.num.extra.edits.retained": "0",
    "dfs.namenode.num.checkpoints.retained": "1",
}


@dataclass
class Site:
    """A pair: nn1 is our stub and active; nn2 is Hadoop's, without storage."""

    trio: JournalTrio
    stub: OurNameNode
    real: NameNode
    client: HdfsClient

    def bootstrap(self) -> None:
        """Bootstrap the second NameNode with Hadoop's command, from our stub and the JournalNodes."""
        run_once(NAMENODE, "-bootstrapStandby", "-nonInteractive", conf=self.real.conf).checked()
        self.real.start()
        assert self.real.state == "standby"

    def state_of(self, name: str) -> str:
        return self.client.ha_admin("-getServiceState", name).checked().out.strip()

    def make_active(self, name: str) -> None:
        """Transition as an administrator does if the other NameNode does not answer."""
        self.client.ha_admin("-transitionToActive", "--forceactive", name).checked()


@pytest.fixture(params=MIXTURES)
def site(request: pytest.FixtureRequest, client_jvm: ClientJvm, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        trio = stack.enter_context(JournalTrio(tmp_path / "nodes", ours=MIXTURES[request.param]))
        shared = {"dfs.namenode.shared.edits.dir": trio.uri}
        first, second, clients = ha_pair_confs(tmp_path / "pair", {**SETTINGS, **shared})
        stub = stack.enter_context(OurNameNode(first))
        real = NameNode(second, name="nn2")
        stack.callback(real.stop)
        stub.command("format", "--layout", str(SERVER.layout)).checked()
        stub.start()
        yield Site(trio, stub, real, client_jvm.of(clients))


@pytest.mark.deep
def test_a_namenode_and_the_stub_take_over_from_each_other(site: Site) -> None:
    stub, real, client = site.stub, site.real, site.client
    client.load(300, seed=1)
    site.bootstrap()
    client.load(200, seed=2, path="/second")
    # the standby makes the stub roll, and reads the finalized segment
    last = stub.status()["lastTxid"]
    wait_until(lambda: real.last_txid >= last, f"txid {last} in the real standby")
    assert stub.mkdirs("/in-the-open-segment")
    before = client.namespace()

    site.make_active("nn2")
    assert real.state == "active"
    code, sentence = stub.call("mkdirs", path="/lost")
    assert (code, "another NameNode has taken over" in sentence) == (503, True)
    assert stub.call("mkdirs", path="/later")[0] == 503
    # Hadoop's haadmin reports the stub as initializing and unhealthy
    assert site.state_of("nn1") == "initializing"
    assert "taken over" in client.ha_admin("-checkHealth", "nn1").err
    assert without_times(client.namespace()) == without_times(before)
    assert stub.stop() == 6

    stub.start("--standby")
    assert (site.state_of("nn1"), site.state_of("nn2")) == ("standby", "active")
    client.load(200, seed=3, path="/third")
    last = real.last_txid
    wait_until(lambda: stub.status()["lastTxid"] >= last, f"txid {last} in our standby")
    client.shell("-mkdir", "/in-the-open-segment-of-hadoops").checked()
    before = client.namespace()
    site.make_active("nn1")
    assert stub.status()["role"] == "active"
    # Hadoop's NameNode exits when it notices the takeover
    client.shell("-mkdir", "/whoever-gets-this").checked()
    assert without_times(client.namespace()) == {
        **without_times(before),
        "/whoever-gets-this": without_times(client.namespace())["/whoever-gets-this"],
    }
    assert stub.mkdirs("/by-our-own-api")
    assert stub.stop() == 0


@pytest.mark.deep
def test_a_real_standby_checkpoints_the_stub_and_the_quorum_is_purged(site: Site) -> None:
    # the stub with a namespace of Hadoop 3 refuses images of fewer transactions, as Hadoop 3 does
    assert site.stub.stop() == 0
    for conf in (site.stub.conf, site.real.conf):
        conf.update({"dfs.namenode.checkpoint.txns": "100", "dfs.namenode.checkpoint.period": "3600"})
    site.stub.start()
    site.client.load(200, seed=4)
    site.bootstrap()
    site.client.load(200, seed=5, path="/second")
    wait_until(lambda: site.stub.status()["checkpointTxid"] > 200, "a checkpoint by the real standby")
    covered = site.stub.status()["checkpointTxid"]
    assert verify_image(site.stub.current / image_name(covered)).valid
    wait_until(
        lambda: all(first > 1 for number in range(3) for first, _ in site.trio.segments(number)),
        f"the purge of edits before txid {covered}",
    )
    before = site.client.namespace()
    assert site.stub.stop() == 0
    site.stub.start()
    assert without_times(site.client.namespace()) == without_times(before)
