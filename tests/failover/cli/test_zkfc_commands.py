"""`checkpointer zkfc`: the exit codes are Hadoop's, because scripts rely on these codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl, make_digest_acl_credential

from failover.active_node_info import ActiveNodeInfo
from failover.election import BREADCRUMB, LOCK
from hadoop_rpc.errors import ServiceFailedError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.server import RpcServer
from hadoop_rpc.zkfc_protocol import zkfc_service
from namenode_stub.demo_zookeeper import ZooKeeperServer
from tests.checkpointer.schemas import valid
from tests.cli_runner import run_cli
from tests.failover.failover_support import HERE, NAMESERVICE, FakeNameNode, namenode, properties
from tests.interop.hadoop_conf import HadoopConf


class Site:
    """A configuration of nn1's host, and a client that reads ZooKeeper."""

    def __init__(self, root: Path, zookeeper: ZooKeeperServer, zk: KazooClient, parent: str) -> None:
        self.node = FakeNameNode()
        self.parent, self.zk = parent, zk
        self.znode = f"/{parent}/{NAMESERVICE}"
        values = properties({"nn1": 1, "nn2": self.node.port}, "nn1")
        self.conf = HadoopConf(
            root,
            values
            | {
                "ha.zookeeper.quorum": zookeeper.hosts,
                "ha.zookeeper.parent-znode": f"/{parent}",
                "ha.zookeeper.session-timeout.ms": "30000",
                "ha.failover-controller.cli-check.rpc-timeout.ms": "60000",
            },
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Return the command's output, or its standard error after a failure."""
        done = run_cli("zkfc", *words, "--conf", self.conf.folder)
        assert done.code == code, done
        return done.err if code else done.out

    def reported(self, command: str, code: int = 0) -> dict[str, Any]:
        """Return the command's output with --json, after validating the documented shape of a result or a failure."""
        done = run_cli("zkfc", command, "--conf", self.conf.folder, "--json")
        assert done.code == code, done
        reported: dict[str, Any] = json.loads(done.out)
        valid("failure.json" if "error" in reported else f"zkfc-{command}.json")(reported)
        return reported

    def crumb(self, name: str = "nn2", host: str = "localhost", port: int = 0) -> None:
        data = ActiveNodeInfo(NAMESERVICE, name, host, port or self.node.port, 1).to_bytes()
        self.zk.create(f"{self.znode}/{BREADCRUMB}", data)


@pytest.fixture
def site(zookeeper: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    zk = KazooClient(zookeeper.hosts)
    zk.start(timeout=600)
    yield Site(tmp_path, zookeeper, zk, request.node.name.partition("[")[0])
    zk.stop()


def test_format_accepts_options_and_exit_codes_of_hadoop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop's spelling also works, with the configuration's directory in the environment."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(site.conf.folder))
    assert run_cli("zkfc", "-formatZK", "-nonInteractive").code == 0
    assert site.zk.exists(site.znode)
    site.crumb()
    site.zk.ensure_path(f"/{site.parent}/other/{LOCK}")
    denied = run_cli("zkfc", "-formatZK", "-nonInteractive")
    assert (denied.code, "--force" in denied.err) == (2, True)
    # standard input is not a terminal
    assert run_cli("zkfc", "-formatZK").code == 2
    assert site.zk.exists(f"{site.znode}/{BREADCRUMB}")
    assert run_cli("zkfc", "-formatZK", "-force").code == 0
    assert site.zk.get_children(site.znode) == []
    assert site.zk.exists(f"/{site.parent}/other/{LOCK}")
    assert "--force" in site.run("format", code=2)
    assert json.loads(site.run("format", "--force", "--json")) == {"existed": True, "znode": site.znode}


def test_format_sets_the_acl(site: Site) -> None:
    acl = f"digest:{make_digest_acl_credential('me', 'secret')}:rwcda"
    site.conf.update({"ha.zookeeper.acl": acl, "ha.zookeeper.auth": "digest:me:secret"})
    site.run("format")
    with pytest.raises(NoAuthError):
        site.zk.delete(site.znode)
    site.zk.add_auth("digest", "me:secret")
    acls, _ = site.zk.get_acls(site.znode)
    assert acls == [make_digest_acl("me", "secret", all=True)]


def test_format_error_names_the_znode_and_its_acl(site: Site) -> None:
    """The error names the znode and its owner; Hadoop's error reports only that the znode could not be created."""
    acl = [make_digest_acl("somebody", "else", all=True)]
    site.zk.create(f"/{site.parent}", b"", acl=acl)
    reported = site.run("format", code=1)
    assert f"/{site.parent}: ZooKeeper refuses this operation and identifies us as an anonymous client; " in reported
    assert f"; the ACL of /{site.parent} applies, and our login cannot read this ACL\n" in reported
    assert "ha.zookeeper.auth" in reported
    site.zk.add_auth("digest", "somebody:else")
    site.zk.set_acls(f"/{site.parent}", [*acl, *READ_ACL_UNSAFE])
    site.conf.update({"ha.zookeeper.auth": "digest:me:secret"})
    reported = site.run("format", code=1)
    assert f"as digest me; /{site.parent} has the ACL digest:somebody:rwcda,world:anyone:r\n" in reported
    assert f"setAcl /{site.parent} " in reported
    assert "secret" not in reported


@pytest.mark.parametrize("command", ["run", "format"])
def test_commands_fail_if_automatic_failover_is_disabled(site: Site, command: str) -> None:
    site.conf.update({"dfs.ha.automatic-failover.enabled": "false"})
    assert "dfs.ha.automatic-failover.enabled" in site.run(command, code=5)


@pytest.mark.parameters(1)
@pytest.mark.parametrize("command", ["run", "format", "status"])
def test_commands_fail_if_zookeeper_is_unreachable(site: Site, command: str) -> None:
    site.conf.update({"ha.zookeeper.quorum": f"{HERE}:1", "ha.zookeeper.session-timeout.ms": "500"})
    assert "ha.zookeeper.quorum" in site.run(command, code=6)


def test_run_fails_without_znode_or_fencing_methods(site: Site) -> None:
    assert "zkfc format" in site.run("run", code=3)
    assert "zkfc format" in site.run("status", code=3)
    site.run("format")
    del site.conf.properties["dfs.ha.fencing.methods"]
    site.conf.write()
    assert "dfs.ha.fencing.methods" in site.run("run", code=4)
    assert "dfs.ha.fencing.methods" in site.run("check", code=4)


def test_run_reports_all_configuration_errors(site: Site) -> None:
    site.conf.update({"dfs.ha.fencing.methods": "powershell(x)", "ha.zookeeper.quorum": ""})
    reported = site.run("run", code=2)
    assert "Windows" in reported
    assert "ha.zookeeper.quorum" in reported


def test_status_shows_lock_breadcrumb_and_namenodes(site: Site) -> None:
    site.run("format")
    site.crumb()
    site.zk.create(f"{site.znode}/{LOCK}", ActiveNodeInfo(NAMESERVICE, "nn2", "old.invalid", 1, 1).to_bytes())
    site.node.state = HAState.ACTIVE
    with namenode(site.node):
        reported = site.reported("status")
        text = site.run("status")
    assert (reported["lock"]["namenode"], reported["lock"]["address"]) == ("nn2", "old.invalid:1")
    assert "clear-breadcrumb" in reported["lock"]["problem"]
    assert reported["breadcrumb"]["problem"] == ""
    assert {each["namenode"]: each["state"] for each in reported["namenodes"]} == {"nn1": None, "nn2": "active"}
    assert "does not answer" in text
    assert f"breadcrumb of nn2 (localhost:{site.node.port})" in text


def test_status_without_an_active_namenode(site: Site) -> None:
    assert site.reported("status", code=3)["code"] == 3
    site.run("format")
    reported = site.reported("status")
    assert (reported["lock"], reported["breadcrumb"]) == (None, None)
    site.zk.create(f"{site.znode}/{BREADCRUMB}", b"no controller wrote this")
    reported = site.reported("status")
    assert reported["breadcrumb"]["namenode"] is None
    assert reported["breadcrumb"]["problem"]
    assert "breadcrumb of an unknown NameNode" in site.run("status")


def test_check_tests_each_fencing_method(site: Site, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    site.conf.update({"dfs.ha.fencing.methods": f"shell(touch {touched})"})
    with namenode(site.node):
        reported = site.reported("check")
    assert reported["ok"]
    ((name, ways),) = reported["namenodes"].items()
    assert name.startswith("nn2")
    assert [each["works"] for each in ways] == [True, True]
    assert not touched.exists()
    site.conf.update({"dfs.ha.fencing.methods": "shell(/no/such/program)"})
    assert "could not be fenced" in site.run("check", code=1)
    assert not site.reported("check", code=1)["ok"]
    del site.conf.properties["dfs.ha.fencing.methods"]
    site.conf.write()
    assert site.reported("check", code=4)["code"] == 4


def test_clear_breadcrumb_refuses_while_a_namenode_is_active_or_locked(site: Site) -> None:
    site.run("format")
    assert "no breadcrumb" in site.run("clear-breadcrumb")
    site.crumb()
    site.node.state = HAState.ACTIVE
    with namenode(site.node):
        assert "reports that it is active" in site.run("clear-breadcrumb", "--yes", code=1)
    assert "it was not confirmed" in site.run("clear-breadcrumb", code=1)
    lock = f"{site.znode}/{LOCK}"
    site.zk.create(lock, site.zk.get(f"{site.znode}/{BREADCRUMB}")[0])
    assert "has the lock" in site.run("clear-breadcrumb", "--yes", code=1)
    site.zk.delete(lock)
    assert json.loads(site.run("clear-breadcrumb", "--yes", "--json"))["removed"]["namenode"] == "nn2"
    assert site.zk.get_children(site.znode) == []


# ---- failover --------------------------------------------------------------------------------------------------


class Asked:
    """A controller that is asked to take over and responds with `refusal`."""

    def __init__(self) -> None:
        self.times = 0
        self.refusal = ""

    def cede_active(self, milliseconds: int) -> None:
        raise AssertionError("it is asked to take over")

    def graceful_failover(self) -> None:
        self.times += 1
        if self.refusal:
            raise ServiceFailedError(self.refusal)


def test_failover_calls_the_controller_of_the_new_active(site: Site) -> None:
    port = int(site.conf[f"dfs.ha.zkfc.port.{NAMESERVICE}.nn2"])
    assert "nn1, nn2" in site.run("failover", "nn3", code=2)
    silent = site.run("failover", "nn2", code=7)
    assert f"{HERE}:{port}" in silent
    asked = Asked()
    with RpcServer([zkfc_service(asked)], HERE, port):
        reported = json.loads(site.run("failover", "nn2", "--json"))
        assert reported == {"active": "nn2", "nameservice": NAMESERVICE}
        asked.refusal = "it is not currently healthy"
        assert asked.refusal in site.run("failover", "nn2", code=7)
    assert asked.times == 2
