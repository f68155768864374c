"""Edits that no NameNode of Hadoop 3 replays: the removal of an erasure-coded file that was renamed in a snapshot."""

from __future__ import annotations

import pytest

from tests.interop.clients import EC_ADMIN, ClientJvm
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.our_daemon import OurDaemon

pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SERVER.is_3, reason="Hadoop 2 has no erasure coding")]


def test_the_namenode_starts_from_our_image(conf: HadoopConf, client_jvm: ClientJvm) -> None:
    """Without our image, the NameNode exits with IllegalStateException at the removal of the directory."""
    client = client_jvm.of(conf)
    with NameNode(conf) as node:
        client.shell("-mkdir", "/ec", "/other").checked()
        client.tool(EC_ADMIN, "-setPolicy", "-path", "/ec", "-policy", "RS-6-3-1024k").checked()
        client.shell("-touchz", "/ec/f").checked()
        client.admin("-allowSnapshot", "/ec").checked()
        client.shell("-createSnapshot", "/ec", "s").checked()
        client.shell("-mv", "/ec/f", "/other/f").checked()
        # removes the file from the NameNode's memory, but does not log the removal
        assert "java.lang.IllegalStateException" in client.shell("-rm", "-skipTrash", "/other/f").err
        client.shell("-rm", "-r", "-skipTrash", "/other").checked()
        with OurDaemon.secondary(conf) as daemon:
            node.wait_for_image(daemon.checkpoint()["txid"])
        node.restart()
        listed = client.shell("-ls", "-R", "/").checked().out
        assert "/ec" in listed
        assert "/other" not in listed
        assert "/ec/.snapshot/s/f" in client.shell("-ls", "-R", "/ec/.snapshot/s").checked().out
