"""Our standby beside a real NameNode that was restored from an older image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clients import ClientJvm
from tests.interop.cluster import HaPair
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.our_daemon import OurDaemon
from tests.interop.test_operations import NAMENODE, cli, restore

pytestmark = [pytest.mark.interop]

QUICK = ("dfs.ha.tail-edits.period", "dfs.namenode.checkpoint.check.period", "dfs.ha.log-roll.period")


def checkpoint_beyond(daemon: OurDaemon, txid: int) -> int:
    """Txid of a checkpoint that has new edits, which come with a roll of the log."""
    made = [txid]
    wait_until(lambda: made.append(daemon.checkpoint()["txid"]) or made[-1] > txid, "edits beyond the image")
    return made[-1]


def test_it_offers_no_image_of_a_lost_past(client_jvm: ClientJvm, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    with HaPair(tmp_path / "pair", dict.fromkeys(QUICK, "1")) as pair:
        client = client_jvm.of(pair.client_conf)
        conf, key = pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2"
        pair.nn1.start()
        pair.activate(client, "nn1")
        with OurDaemon.standby(conf, key) as daemon:
            client.load(100, seed=1)
            checkpoint_beyond(daemon, 0)
            rpc = "{}:{}".format(*pair.nn1.rpc_address)
            txid = cli("fetch-image", "--from", pair.nn1.url, "--rpc", rpc, shelf)["txid"]
            client.load(100, seed=2, path="/since")
            lost = checkpoint_beyond(daemon, txid)
        pair.nn1.kill()
        pair.shared_dir.rename(pair.shared_dir.with_name("shared.broken"))
        restore(pair.nn1, shelf, txid)
        run_once(NAMENODE, "-initializeSharedEdits", "-force", "-nonInteractive", conf=pair.nn1.conf).checked()
        pair.nn1.start()
        pair.activate(client, "nn1")
        client.load(10, seed=3, path="/after")
        with OurDaemon.standby(conf, key) as daemon:
            wait_until(lambda: bool(daemon.status()["alarms"]), "an alarm")
            assert "the edits end at" in daemon.status()["alarms"][0]
            wait_until(lambda: "set back" in daemon.status()["lastError"], "a poll that offers nothing")
        assert lost not in pair.nn1.images
