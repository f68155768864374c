"""Two checkpointers that elect a leader with ZooKeeper, constant edits, and ways to lose the leader."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from checkpointer.merging.engines import LOADED
from namenode_stub.demo_zookeeper import ZooKeeperServer
from namenode_stub.node import NameNodeStub
from tests.failover.cutting_proxy import CuttingProxy
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.interop.upload_relay import Passage, UploadRelay

PERIOD, SESSION_TIMEOUT, CHECK_PERIOD = 3.0, 2.0, 3.0
BOUND = PERIOD + SESSION_TIMEOUT + CHECK_PERIOD
# an image of this many directories uploads in a quarter of a second at this bandwidth (bytes per second)
_DIRECTORIES = 400
_BANDWIDTH = 100_000
_TICK = 0.01
_WARM = LOADED.encode()
# tolerated delay of a sleep
_USUAL = 0.02


class Beside:
    """A context manager with a thread that runs until `_ended` is set."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class Load(Beside):
    """A client that removes and makes directories; `fault` is the error that ended it early."""

    def __init__(self, stub: NameNodeStub) -> None:
        super().__init__()
        self.fault: BaseException | None = None
        self._stub = stub
        for number in range(_DIRECTORIES):
            stub.namespace.mkdirs(f"/load/{number}")

    def _run(self) -> None:
        try:
            for number in count():
                path = f"/load/{number % _DIRECTORIES}"
                self._stub.namespace.delete(path)
                self._stub.namespace.mkdirs(path)
                if self._ended.wait(_TICK):
                    return
        except BaseException as fault:
            self.fault = fault
            raise


class Stalls(Beside):
    """Stalls of the machine: the time that a thread slept beyond the requested time, which is not a daemon's fault."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[tuple[float, float]] = []

    def _run(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(_TICK):
            now = time.monotonic()
            if (late := now - before - _TICK) > _USUAL:
                self._found.append((now, late))
            before = now

    def between(self, begun: float, ended: float) -> float:
        """Return the seconds of all stalls."""
        return sum(late for at, late in self._found if begun <= at <= ended)


class WatchedDaemon:
    """A secondary with a separate proxy in front of ZooKeeper and a separate relay in front of the NameNode."""

    def __init__(self, name: str, root: Path, zookeeper: ZooKeeperServer, rpc: str, http: tuple[str, int]) -> None:
        self.name = name
        self.passages: list[Passage] = []
        self.proxy = CuttingProxy(zookeeper.port)
        self._relay = UploadRelay(name, http, self.passages)
        seconds = {"dfs.namenode.checkpoint.period": PERIOD, "dfs.namenode.checkpoint.check.period": CHECK_PERIOD}
        conf = {
            "fs.defaultFS": f"hdfs://{rpc}",
            "dfs.namenode.rpc-address": rpc,
            "dfs.namenode.http-address": self._relay.address,
            "dfs.image.transfer.bandwidthPerSec": str(_BANDWIDTH),
            "dfs.image.transfer.chunksize": "4096",
            "ha.zookeeper.quorum": self.proxy.hosts,
            "ha.zookeeper.session-timeout.ms": f"{SESSION_TIMEOUT * 1000:.0f}",
            **{key: f"{value:.0f}s" for key, value in seconds.items()},
        }
        self.process = OurDaemon.secondary(HadoopConf(root / name, conf))
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            entered.enter_context(self.proxy)
            entered.enter_context(self._relay)
            entered.enter_context(self.process)
            # a daemon cannot stop gracefully while it is frozen or disconnected
            entered.callback(self.proxy.let_through)
            entered.callback(self.process.signal, signal.SIGCONT)
            self._closing = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def restart(self) -> None:
        """Restart the daemon and wait until it has loaded the merge code; only then can it take over in time."""
        logged = self.process.log.stat().st_size
        self.process.start()
        self.gets_warm(logged)

    def gets_warm(self, logged: int = 0) -> None:
        """Wait until the daemon's log, after the first `logged` bytes, reports that the merge code was loaded."""
        wait_until(lambda: _WARM in self.process.log.read_bytes()[logged:], f"{self.name} to be warm")

    @property
    def claim(self) -> str:
        return str(self.process.status()["leader"]["claim"])

    @property
    def uploads(self) -> bool:
        """Whether an upload is running."""
        return any(each.ended is None for each in list(self.passages))


@dataclass
class Rounds:
    """Rounds in which the leader is lost and another daemon makes a checkpoint.

    Attributes:
        frozen: daemons stopped with SIGSTOP, with the start and end of the freeze in monotonic seconds.
        counts: rounds by the way of losing the leader.
    """

    daemons: list[WatchedDaemon]
    choose: random.Random
    frozen: list[tuple[str, float, float]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _closing: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for daemon in self.daemons:
                entered.enter_context(daemon)
            for daemon in self.daemons:
                daemon.gets_warm()
            self._closing = entered.pop_all()
        wait_until(lambda: bool(self.taken()), "the first image")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def lose_the_leader(self) -> None:
        """Play one round; at its end, the lost daemon is back."""
        leader = self._leader()
        (other,) = (each for each in self.daemons if each is not leader)
        ways: dict[str, Callable[[WatchedDaemon, WatchedDaemon], None]] = {
            "killed": self._kill,
            "frozen": self._freeze,
            "cut off": self._cut_off,
            "expired": self._expire,
            "stopped": self._stop,
        }
        way = self.choose.choice(list(ways))
        self.counts[way] = self.counts.get(way, 0) + 1
        if self.choose.random() < 0.5:
            wait_until(lambda: leader.uploads or leader.claim != "leading", "an upload")
            self._pass(self.choose.uniform(0, 0.2))
        else:
            self._pass(self.choose.uniform(0, PERIOD))
        ways[way](leader, other)

    def _leader(self) -> WatchedDaemon:
        found: list[WatchedDaemon] = []

        def leads() -> bool:
            found[:] = [each for each in self.daemons if each.claim == "leading"]
            return len(found) == 1

        wait_until(leads, "a leader")
        return found[0]

    def _kill(self, leader: WatchedDaemon, other: WatchedDaemon) -> None:
        leader.process.kill()
        self._goes_on(other)
        leader.restart()

    def _stop(self, leader: WatchedDaemon, other: WatchedDaemon) -> None:
        assert leader.process.stop() == 0
        self._goes_on(other)
        leader.restart()

    def _freeze(self, leader: WatchedDaemon, other: WatchedDaemon) -> None:
        since = time.monotonic()
        leader.process.signal(signal.SIGSTOP)
        self._goes_on(other)
        self.frozen.append((leader.name, since, time.monotonic()))
        leader.process.signal(signal.SIGCONT)
        wait_until(lambda: leader.claim == "following", "the frozen daemon to notice")

    def _cut_off(self, leader: WatchedDaemon, other: WatchedDaemon) -> None:
        leader.proxy.hold_back()
        for _ in range(self.choose.choice((1, 1, 3))):
            self._goes_on(other)
        leader.proxy.let_through()
        wait_until(lambda: leader.claim == "following", "the disconnected daemon to notice")

    def _expire(self, leader: WatchedDaemon, other: WatchedDaemon) -> None:
        leader.proxy.expire()
        self._goes_on(leader, other)

    def _goes_on(self, *those: WatchedDaemon) -> None:
        """Wait until a daemon in `those` makes an image that the NameNode accepts."""
        now = time.monotonic()
        wait_until(
            lambda: any(each.taken and each.begun > now for daemon in those for each in list(daemon.passages)),
            f"an image of {' or '.join(each.name for each in those)}",
        )

    def _pass(self, seconds: float) -> None:
        """Wait for a random time before the leader is lost."""
        threading.Event().wait(seconds)

    # ---- observations --------------------------------------------------------------------------------------

    @property
    def passages(self) -> list[Passage]:
        """All uploads, ordered by their start."""
        found = [each for daemon in self.daemons for each in list(daemon.passages)]
        return sorted(found, key=lambda each: each.begun)

    def taken(self) -> list[Passage]:
        """Return the uploads that the NameNode accepted, in the order of acceptance."""
        found = [(each.ended, each) for each in self.passages if each.taken and each.ended is not None]
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]

    def taken_from_who_slept(self) -> list[Passage]:
        """Return the accepted uploads of a daemon that was frozen during the upload."""
        return [
            each
            for each in self.taken()
            for who, since, until in self.frozen
            if who == each.sender and each.ended is not None and each.begun < since and each.ended > until
        ]

    def gaps(self, machine: Stalls) -> Iterator[tuple[float, float]]:
        """Yield the age of the newest image when the next image was accepted, and the machine's stalls in between."""
        for one, after in pairwise(self.taken()):
            assert one.ended is not None
            assert after.ended is not None
            yield after.ended - one.ended, machine.between(one.ended, after.ended)
