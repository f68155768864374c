"""Our failover controller logs in to its NameNode, and refuses requests from other users."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from failover.settings import FailoverSettings
from failover.watching import watching
from hadoop_common.access import AccessRules
from hadoop_common.configuration import Configuration
from hadoop_common.port_limits import Refusals
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import AuthenticationRequiredError, NotAuthorizedError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.zkfc_protocol import ZKFCClient
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.ports import free_port
from site_config.addresses import Identity
from site_config.kerberos import ProcessKind, kerberos_settings, open_security
from site_config.keys import DEFAULTS
from tests.failover.failover_support import LONG_SESSIONS, NAMESERVICE, FakeNameNode, namenode, properties
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.kerberos.callers import add_users, get, login
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import HOST, secure

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture
def running(kdc: Kdc, tmp_path: Path) -> Iterator[tuple[FailoverSettings, FakeNameNode, str]]:
    """Run a controller as a process and its NameNode, which requires Kerberos; yield the address of its state."""
    add_users(kdc)
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper", LONG_SESSIONS))
        node = FakeNameNode()
        web = f"{HOST}:{free_port()}"
        more = {
            "ha.zookeeper.quorum": zookeeper.hosts,
            "ha.zookeeper.session-timeout.ms": LONG_SESSIONS["maxSessionTimeout"],
            "checkpointer.zkfc.http-address": web,
        }
        conf = HadoopConf(tmp_path / "nn1", properties({"nn1": node.port, "nn2": 1}, "nn1", more))
        secure(kdc, conf, {"hadoop.rpc.protection": "privacy", "ha.zookeeper.quorum": zookeeper.hosts})
        configuration = Configuration.load(conf.folder, {})
        settings = FailoverSettings.from_configuration(configuration)
        who = Identity(NAMESERVICE, ("nn1", "nn2"), "nn1")
        theirs = kerberos_settings(configuration.with_defaults(DEFAULTS), who, ProcessKind.NAMENODE)
        node.security = open_security(AccessRules(), theirs, Refusals()).rpc_security
        stack.enter_context(namenode(node))
        with watching(settings) as election:
            election.format()
        command = [sys.executable, "-m", "checkpointer", "zkfc", "run", "--conf", str(conf.folder)]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(lambda: node.state is HAState.ACTIVE, "nn1 to be active")
            yield settings, node, f"http://{web}"
            process.terminate()
            assert process.wait(600) == 0
        finally:
            process.kill()
            process.wait()


def test_permissions_of_each_caller(running: tuple[FailoverSettings, FakeNameNode, str], kdc: Kdc) -> None:
    settings, node, url = running

    def asks(who: str) -> None:
        log_in(login(kdc, who) if who else None)
        port = settings.own.zkfc_port
        with ZKFCClient(HOST, port, user="hdfs", retry=NO_RETRY) as client:
            client.cede_active(-1)
            client.graceful_failover()

    for who in ("nn", "sn", "hdfs"):  # all have the short name hdfs
        asks(who)
    for who in ("jn", "alice"):
        with pytest.raises(NotAuthorizedError, match="ZKFCProtocol"):
            asks(who)
    with pytest.raises(AuthenticationRequiredError):
        asks("")
    assert node.state is HAState.ACTIVE
    wait_until(lambda: get(kdc, "", url, "/health/ready")[0] == 200, "the controller to be ready")
    assert get(kdc, "alice", url, "/status")[0] == 200
