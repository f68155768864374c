"""Two checkpointers for one NameNode, as processes: the leader is killed or frozen, and the other continues."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hadoop_common.tls.settings import WebAddresses
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from tests.depth import SEED, deep, scaled
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.leader_rounds import BOUND, Load, Rounds, Stalls, WatchedDaemon
from tests.interop.our_daemon import OurDaemon
from tests.interop.upload_relay import overlapping
from tests.namenode_stub.stub_support import formatted, restarted_tree

_HERE = "127.0.0.1"


class Pair:
    """A NameNode and two daemons that elect the leader by `lock`."""

    def __init__(self, root: Path, stub: NameNodeStub, folder: Path, rpc: str, http: str, lock: dict[str, str]) -> None:
        self.stub = stub
        self.stub_folder = folder
        self.daemons = [
            OurDaemon.secondary(
                HadoopConf(
                    root / name,
                    {
                        "fs.defaultFS": f"hdfs://{rpc}",
                        "dfs.namenode.rpc-address": rpc,
                        "dfs.namenode.http-address": http,
                        "dfs.namenode.checkpoint.period": "2s",
                        "dfs.namenode.checkpoint.check.period": "1s",
                        "ha.zookeeper.session-timeout.ms": "2000",
                        **lock,
                    },
                )
            )
            for name in ("a", "b")
        ]
        self._made = 0

    def __enter__(self) -> Pair:
        for daemon in self.daemons:
            daemon.start()
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self.daemons:
            daemon.signal(signal.SIGCONT)
            daemon.stop()

    def leader(self, among: list[OurDaemon]) -> OurDaemon | None:
        leading = [each for each in among if each.status()["leader"]["claim"] == "leading"]
        assert len(leading) <= 1
        return leading[0] if leading else None

    def checkpointed(self, among: list[OurDaemon]) -> OurDaemon:
        """Write edits, wait until an image of these edits reaches the NameNode, and return the leading daemon."""
        self._made += 1
        self.stub.namespace.mkdirs(f"/{self._made}")
        newest = self.images()[-1]
        wait_until(lambda: self.images()[-1] > newest, "an image of the new edits")
        # on a busy machine, the last response of the lock's backend may be too old to show the leader
        leaders: list[OurDaemon] = []

        def led() -> bool:
            leaders.extend(filter(None, [self.leader(among)]))
            return bool(leaders)

        wait_until(led, "a leader")
        return leaders[0]

    def images(self) -> list[int]:
        """Return the txids of the NameNode's images."""
        folder = self.stub_folder / "current"
        return sorted(int(path.name.removeprefix("fsimage_")) for path in folder.glob(f"fsimage_{'[0-9]' * 19}"))


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[tuple[NameNodeStub, Path, str, str]]:
    rpc, http = (_HERE, free_port()), (_HERE, free_port())
    config = formatted(tmp_path / "stub", rpc_address=rpc, web=WebAddresses(http), checkpoint_period=1.0)
    with NameNodeStub(config) as running:
        yield running, config.image_directories[0], f"{_HERE}:{rpc[1]}", f"{_HERE}:{http[1]}"


def test_the_other_daemon_takes_over(stub: tuple[NameNodeStub, Path, str, str], tmp_path: Path) -> None:
    """With a lock on a file, the other daemon takes over after a kill and, without a wait, after an orderly stop."""
    with Pair(tmp_path, *stub, {"checkpointer.leader.lock": (tmp_path / "lock").as_uri()}) as pair:
        leader = pair.checkpointed(pair.daemons)
        (other,) = (each for each in pair.daemons if each is not leader)
        leader.kill()
        assert pair.checkpointed([other]) is other
        leader.start()
        assert pair.checkpointed(pair.daemons) is other
        wait_until(lambda: leader.status()["leader"]["claim"] == "following", "the earlier leader to follow")
        assert other.stop() == 0
        assert pair.checkpointed([leader]) is leader
        other.start()


@pytest.mark.timeout(7200)
@pytest.mark.skipif(not deep(), reason="six seconds a round")
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_leadership_survives_kills_and_freezes_of_the_leader(tmp_path: Path) -> None:
    """Lose the leader 200 times during an upload or between uploads, under constant edits. The causes are kill -9, a
    freeze, a stop, an expired session and a lost connection to ZooKeeper.

    Each time, the other daemon continues. Two uploads never overlap, and the NameNode accepts each image once and none
    from a leader that was frozen. The newest image is never older than the sum of period, session timeout, check period
    and stalls of the machine.
    """
    rpc, http = (_HERE, free_port()), (_HERE, free_port())
    config = formatted(tmp_path / "stub", rpc_address=rpc, web=WebAddresses(http), checkpoint_period=1.0)
    with ExitStack() as closing:
        stub = closing.enter_context(NameNodeStub(config))
        zookeeper = closing.enter_context(ZooKeeperServer(tmp_path / "zookeeper", {"tickTime": "100"}))
        daemons = [WatchedDaemon(name, tmp_path, zookeeper, f"{_HERE}:{rpc[1]}", http) for name in ("a", "b")]
        machine = closing.enter_context(Stalls())
        with Load(stub) as load, Rounds(daemons, random.Random(SEED)) as rounds:
            for _ in range(scaled(200, 0)):
                rounds.lose_the_leader()
        tree = stub.namespace.walk()
    assert load.fault is None
    txids = [each.txid for each in rounds.taken()]
    assert txids == sorted(set(txids))
    assert overlapping(rounds.passages, rounds.frozen) == []
    assert rounds.taken_from_who_slept() == []
    gaps = list(rounds.gaps(machine))
    print(f"{rounds.counts}; {len(txids)} images; the oldest was {max(gaps)[0]:.2f} s old")
    assert [(age, stalled) for age, stalled in gaps if age > BOUND + stalled] == []
    assert restarted_tree(config) == tree
