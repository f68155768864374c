"""Manual failover of two NameNode processes on three JournalNode processes after a kill or a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop.hadoop_conf import ha_pair_confs
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_namenode import OurNameNode

WRITERS = 4
SETTINGS = {"dfs.ha.tail-edits.period": "1", "dfs.ha.log-roll.period": "1"}


@dataclass
class Site:
    """Two NameNodes on three JournalNodes: nn1 is active, and nn2 is its standby."""

    trio: JournalTrio
    nn1: OurNameNode
    nn2: OurNameNode


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        trio = stack.enter_context(JournalTrio(tmp_path / "nodes", ours=True))
        confs = ha_pair_confs(tmp_path, {**SETTINGS, "dfs.namenode.shared.edits.dir": trio.uri})
        nn1, nn2 = (stack.enter_context(OurNameNode(conf)) for conf in confs[:2])
        nn1.command("format").checked()
        nn1.start()
        nn2.command("bootstrap-standby").checked()
        nn2.start("--standby")
        yield Site(trio, nn1, nn2)


@dataclass
class Writers:
    """Threads that create directories in `node` until a directory is not acknowledged."""

    node: OurNameNode
    label: str
    pool: ThreadPoolExecutor
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    working: list[Future[set[str]]] = field(default_factory=list)

    def start(self, acknowledged: int) -> Writers:
        """Start the threads, and wait until this number of directories is acknowledged; the threads continue."""
        self.working = [self.pool.submit(self._work, number) for number in range(WRITERS)]
        for _ in range(acknowledged):
            assert self.begun.acquire(timeout=600)
        return self

    def made(self) -> set[str]:
        """Return everything acknowledged, after all threads have ended."""
        return {path for future in self.working for path in future.result(600)}

    def _work(self, number: int) -> set[str]:
        made: set[str] = set()
        while True:
            path = f"/{self.label}-{number}-{len(made)}"
            try:
                if not self.node.mkdirs(path):
                    return made
            except OSError:
                return made
            made.add(path)
            self.begun.release()


@pytest.fixture
def writing() -> Iterator[Callable[[OurNameNode, str], Writers]]:
    with ThreadPoolExecutor(WRITERS) as pool:
        yield lambda node, label: Writers(node, label, pool)


@pytest.mark.deep
def test_acknowledged_changes_of_a_killed_namenode_survive_the_takeover(
    site: Site, writing: Callable[[OurNameNode, str], Writers]
) -> None:
    again = site.nn1.command("format")
    assert (again.code, "already formatted" in again.err) == (6, True)
    refused = site.nn2.call("mkdirs", path="/refused")
    assert (refused[0], "is a standby" in refused[1]) == (503, True)
    writers = writing(site.nn1, "first").start(acknowledged=100)
    site.nn1.kill()
    made = writers.made()
    site.nn2.command("transition", "active").checked()
    assert made <= site.nn2.paths()
    assert len(site.nn2.paths()) <= 1 + len(made) + WRITERS
    # then transition back, without a kill
    site.nn1.start("--standby")
    writers = writing(site.nn2, "second").start(acknowledged=100)
    site.nn2.command("transition", "standby").checked()
    made |= writers.made()
    site.nn1.command("transition", "active").checked()
    assert made <= site.nn1.paths()
    wait_until(lambda: site.nn2.status()["tailFault"] == "", "the other one to follow")
    assert (site.nn1.stop(), site.nn2.stop()) == (0, 0)


@pytest.mark.deep
def test_a_paused_namenode_acknowledges_nothing_after_the_takeover(
    site: Site, writing: Callable[[OurNameNode, str], Writers]
) -> None:
    writers = writing(site.nn1, "first").start(acknowledged=100)
    site.nn1.pause()
    site.nn2.command("transition", "active").checked()
    # earlier requests are answered now, as all later requests are
    site.nn1.resume()
    made = writers.made()
    assert made <= site.nn2.paths()
    code, sentence = site.nn1.call("mkdirs", path="/after")
    assert (code, "another NameNode has taken over" in sentence) == (503, True)
    assert "taken over" in site.nn1.status()["failure"]
    assert "/after" not in site.nn2.paths()
    assert site.nn2.mkdirs("/new")
    assert "transition" in (refused := site.nn1.command("transition", "active")).command
    assert (refused.code, "taken over" in refused.err) == (1, True)
    assert site.nn1.stop() == 6
    # nn1 starts as a standby now
    site.nn1.start("--standby")
    wait_until(lambda: site.nn1.status()["lastTxid"] > 100, "nn1 to follow nn2")
    assert site.nn2.stop() == 0
    site.nn1.command("transition", "active").checked()
    assert made | {"/new"} <= site.nn1.paths()
