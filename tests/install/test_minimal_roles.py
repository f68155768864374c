"""Each role runs with its minimal configuration in config/, with a test's hosts, ports and directories."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.install.minimal_site import Site, check_checkpoint, running, stub_of
from tests.interop.hadoop_process import port_is_open, wait_until

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("role", ["secondary", "backup"])
def test_each_role_checkpoints_with_a_single_namenode(tmp_path: Path, role: str) -> None:
    site = Site(tmp_path)
    conf = site.conf(role, role)
    name_dir = {"dfs.namenode.name.dir": (tmp_path / "nn").as_uri()}
    namenode = site.conf("secondary", "namenode", **name_dir)
    with ExitStack() as resources:
        node = stub_of(namenode, resources)
        resources.enter_context(running(site, conf, "run", "--role", role))
        ours = tmp_path / f"{role}-data/hdfs-checkpointer/{role}"
        wait_until(lambda: run_cli("status", "--conf", conf, "--role", role).code == 0, f"the {role} daemon")
        node.active.roll()
        check_checkpoint(conf, role, tmp_path / "nn/current", ours)


def test_journalnodes_and_a_standby_with_an_ha_pair(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with ExitStack() as resources:
        for number in (1, 2, 3):
            rpc = site.address(f"journal{number}.example.org:8485")
            conf = site.conf("journalnode", f"journal{number}", **{"dfs.journalnode.rpc-address": rpc})
            (tmp_path / f"journal{number}-data").mkdir()
            resources.enter_context(running(site, conf, "journalnode", "run"))
            host, _, port = rpc.partition(":")
            wait_until(lambda at=(host, int(port)): port_is_open(at), "a JournalNode")  # type: ignore[misc]
        own = {"dfs.ha.namenode.id": "nn1", "dfs.namenode.name.dir": (tmp_path / "nn").as_uri()}
        namenode = site.conf("standby", "namenode", **own)
        conf = site.conf("standby", "standby")
        node = stub_of(namenode, resources)
        resources.enter_context(running(site, conf, "run", "--role", "standby"))
        wait_until(lambda: run_cli("status", "--conf", conf, "--role", "standby").code == 0, "the standby daemon")
        node.active.roll()
        check_checkpoint(conf, "standby", tmp_path / "nn/current", tmp_path / "standby-data/hdfs-checkpointer/standby")
