"""Controllers on an ensemble of three: ZooKeeper servers crash, hang and return without any effect on the NameNodes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from failover.election import LOCK
from hadoop_rpc.ha_protocol import HAState
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer, await_service
from tests.failover.controller_pair import Pair, ZooKeeperEnsemble

pytestmark = [pytest.mark.deep, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble")) as servers:
        yield servers


@pytest.fixture
def pair(ensemble: ZooKeeperEnsemble, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        made = Pair(stack, ensemble, request.node.name.partition("[")[0])
        # time within which a client finds another server, and the servers elect another leader
        made._values["ha.zookeeper.session-timeout.ms"] = "5000"
        made.both()
        yield made


def undisturbed(pair: Pair) -> None:
    """Check that both controllers are ready, and that nn1 received only requests to be active."""
    pair.until(lambda: all(server.ready().ok for server in pair.servers.values()), "both controllers")
    assert pair.nodes["nn1"].state is HAState.ACTIVE
    assert set(pair.nodes["nn1"].reported) == {HAState.ACTIVE}
    assert HAState.ACTIVE not in pair.nodes["nn2"].reported
    assert pair.named(LOCK) == "nn1"


def serving(pair: Pair, name: str, ensemble: ZooKeeperEnsemble) -> ZooKeeperServer | None:
    """Return the server of a controller's session, or None if there is no connection."""
    session = pair.servers[name].election._session
    link = None if session is None else session._client._connection._socket
    if link is None:
        return None
    try:
        _, port = link.getpeername()
    except OSError:
        return None
    return next(server for server in ensemble.servers if server.port == port)


def die(server: ZooKeeperServer) -> Callable[[], None]:
    server.stop()
    return server.start


def hang(server: ZooKeeperServer) -> Callable[[], None]:
    os.kill(server.pid, signal.SIGSTOP)

    def go_on() -> None:
        os.kill(server.pid, signal.SIGCONT)
        await_service(server.hosts)

    return go_on


@pytest.mark.parametrize("failure", [die, hang])
def test_failure_of_the_server_that_has_the_session(
    ensemble: ZooKeeperEnsemble, pair: Pair, failure: Callable[[ZooKeeperServer], Callable[[], None]]
) -> None:
    """Stop the server of our session three times, so that one of the stopped servers is the leader of the ensemble."""
    for _ in range(3):
        server = serving(pair, "nn1", ensemble)
        assert server is not None
        back = failure(server)
        pair.until(lambda gone=server: serving(pair, "nn1", ensemble) not in (None, gone), "another server")  # type: ignore[misc]
        undisturbed(pair)
        back()


def test_loss_and_return_of_the_zookeeper_majority(ensemble: ZooKeeperEnsemble, pair: Pair) -> None:
    for server in ensemble.servers[:2]:
        server.stop()
    pair.until(
        lambda: not any(server.ready().ok for server in pair.servers.values()), "controllers without a ZooKeeper"
    )
    assert set(pair.nodes["nn1"].reported) == {HAState.ACTIVE}
    for server in ensemble.servers[:2]:
        server.launch()
    for server in ensemble.servers:
        await_service(server.hosts)
    undisturbed(pair)


def test_failover_while_a_zookeeper_server_is_down(ensemble: ZooKeeperEnsemble, pair: Pair) -> None:
    away = ensemble.servers[0]
    away.stop()
    undisturbed(pair)
    pair.unwell("nn1", "no room")
    pair.becomes("nn2", HAState.ACTIVE)
    pair.has_lock("nn2")
    away.start()
    pair.unwell("nn1", "")
    pair.until(lambda: pair.election("nn1") == "standby", "nn1 to stand by")
    assert pair.active() == ["nn2"]
