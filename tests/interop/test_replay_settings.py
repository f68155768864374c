"""A daemon whose settings of replay differ from a real NameNode's: the NameNode never receives its image."""

from __future__ import annotations

import pytest

from hadoop_common.exit_codes import ExitCode
from tests.interop.clients import ClientJvm
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.our_daemon import OurDaemon

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(SERVER.layout > -67, reason="ordered deletion of snapshots exists since Hadoop 3.4"),
]
_ORDERED = "dfs.namenode.snapshot.deletion.ordered"


def test_no_image_until_the_daemon_has_the_settings_of_the_namenode(conf: HadoopConf, client_jvm: ClientJvm) -> None:
    """Without the comparison, the restarted NameNode reports "Cannot find the snapshot of directory /a"."""
    own = HadoopConf(conf.root / "ours", conf.properties, conf.release)
    conf.update({_ORDERED: "true"})
    client = client_jvm.of(conf)
    with NameNode(conf) as node:
        client.shell("-mkdir", "-p", "/a/b").checked()
        client.admin("-allowSnapshot", "/a").checked()
        for name in ("one", "two"):
            client.shell("-createSnapshot", "/a", name).checked()
        # only marks the snapshot
        client.shell("-deleteSnapshot", "/a", "two").checked()
        with OurDaemon.secondary(own) as daemon:
            refused = daemon.ask_for_checkpoint()
            assert refused.code == ExitCode.FAILURE, refused
            assert f"{_ORDERED} is true on that NameNode, but false on this node" in refused.err
            assert node.images == [0]
        own.update({_ORDERED: "true"})
        with OurDaemon.secondary(own) as daemon:
            node.wait_for_image(daemon.checkpoint()["txid"])
        (marked,) = [
            name for line in client.shell("-ls", "/a/.snapshot").checked().out.split() if "two#" in (name := line)
        ]
        client.shell("-deleteSnapshot", "/a", "one").checked()
        client.shell("-deleteSnapshot", "/a", marked.rpartition("/")[2]).checked()
        node.restart()
        assert "/a/.snapshot" not in client.shell("-ls", "/a/.snapshot").out
