"""`make demo-bookkeeper`: a NameNode stub with a required journal on BookKeeper loses no acknowledged change when a
bookie and the stub are killed.

ZooKeeper, four bookies and the stub run as processes of this machine. Clients create directories and record the
acknowledged directories. During the load, the demo kills a bookie, then the stub; a new stub recovers the journal.
Every acknowledged directory must exist in the new stub. It must also be in the journal, which the demo recovers and
reads after the stub and the bookies have stopped.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from contextlib import closing, suppress

from hadoop_common.quantities import counted
from journal.bookie.bookie import JOURNAL
from journal.bookie.cli import RUNNING
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, open_bookkeeper_journal
from journal.bookkeeper.settings import BookKeeperSettings
from journal.errors import JournalError
from journal.ops import MkdirOp
from namenode_stub.demo import Demo
from namenode_stub.demo_conf import write_configuration
from namenode_stub.demo_stage import DemoError, kill, run_demo, tree
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.ports import free_port

_BOOKIES = 4
_CLIENTS = 8
_ENOUGH = 400
# working bookies and ZooKeeper respond earlier, even on the slowest machine
_SECONDS = 60.0
_PATIENCE = {
    "dfs.namenode.bookkeeperjournal.zk.session.timeout": int(_SECONDS * 1000),
    "dfs.namenode.bookkeeperjournal.addEntryTimeoutSec": int(_SECONDS),
    "dfs.namenode.bookkeeperjournal.readEntryTimeoutSec": int(_SECONDS),
}


class _ClientLoad:
    """Clients that create directories and record the acknowledged directories, until a stop or the end of the stub."""

    def __init__(self, demo: Demo, label: str) -> None:
        self.acknowledged: list[str] = []
        self._demo = demo
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(f"/{label}/client{number}",)) for number in range(_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, root: str) -> None:
        number = 0
        with suppress(OSError, DemoError):
            while not self._stop.is_set():
                path = f"{root}/{number}"
                self._demo.call("mkdirs", path=path)
                self.acknowledged.append(path)
                number += 1

    def reach(self, count: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until the stub `process` has acknowledged `count` directories."""

        def reached() -> bool:
            if not any(thread.is_alive() for thread in self._threads):
                raise DemoError(f"the stub refused all clients after {counted(len(self.acknowledged), 'directory')}")
            return len(self.acknowledged) >= count

        self._demo.wait(counted(count, "acknowledged directory"), reached, process)

    def end(self) -> list[str]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.acknowledged


def run(demo: Demo) -> None:
    """Run all steps of the demo.

    Raises:
        DemoError: a step failed.
    """
    if MISSING:
        raise DemoError(MISSING)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    say = demo.console.print
    with ZooKeeperServer(demo.scratch / "zookeeper") as zookeeper:
        uri = f"bookkeeper://{zookeeper.hosts}/hdfsjournal"
        write_configuration(
            demo.scratch, demo.ports, transactions=1_000_000, period=3600, shared_edits=uri, further=_PATIENCE
        )
        say(f"[bold]1. ZooKeeper and {_BOOKIES} of our bookies[/], which are for demos and tests")
        ports = [free_port() for _ in range(_BOOKIES)]
        bookies = {port: _start_bookie(demo, zookeeper.hosts, port) for port in ports}
        say(f"[bold]2. A NameNode stub[/] with {uri} as its required journal, and {_CLIENTS} clients")
        demo.run_process("namenode_stub", "format", "--conf", str(demo.scratch / "conf-nn1"))
        stub = demo.start_stub()
        load = _ClientLoad(demo, "first")
        load.reach(_ENOUGH, stub)
        say("[bold]3. A bookie is killed[/] with SIGKILL under load")
        # the bookie with the most data stores the open ledger
        busiest = max(ports, key=lambda port: (demo.scratch / f"bookie-{port}" / JOURNAL).stat().st_size)
        kill(bookies[busiest])
        load.reach(len(load.acknowledged) + _ENOUGH, stub)
        say(f"  {counted(len(load.acknowledged), 'directory')} acknowledged so far")
        say("[bold]4. The stub is killed[/] with SIGKILL under load, with an open ledger")
        kill(stub)
        acknowledged = list(load.end())
        stub = demo.start_stub()
        second = _ClientLoad(demo, "second")
        second.reach(_ENOUGH, stub)
        acknowledged += second.end()
        present = {inode["path"] for inode in tree(demo.ports.stub_url)}
        _check("the stub", acknowledged, present)
        say("[bold]5. The journal alone:[/] the stub and every bookie are stopped, and the bookies are restarted")
        # in this order: the stub needs its bookies until its last batch is acknowledged
        demo.stop_all()
        for port in ports:
            _start_bookie(demo, zookeeper.hosts, port)
        _check("the journal", acknowledged, _recovered_directories(demo, uri))
        say(f"  all {counted(len(acknowledged), 'acknowledged directory')} exist")


def _start_bookie(demo: Demo, hosts: str, port: int) -> subprocess.Popen[bytes]:
    name = f"bookie-{port}"
    log = demo.scratch / f"{name}.log"
    before = log.read_text().count(RUNNING) if log.exists() else 0
    arguments = ("--dir", str(demo.scratch / name), "--zookeeper", hosts, "--port", str(port), "--reserve", "0")
    process = demo.start_process(name, "checkpointer", "bookie", "run", *arguments)
    demo.wait(name, lambda: log.read_text().count(RUNNING) > before, process)
    return process


def _recovered_directories(demo: Demo, uri: str) -> set[str]:
    """Return all directories created by the journal's transactions, after recovering open ledgers."""
    settings = BookKeeperSettings(read_timeout=_SECONDS, add_timeout=_SECONDS, session_timeout=_SECONDS)
    options = BookKeeperOptions(settings)
    with closing(open_bookkeeper_journal(uri, options)) as journal:
        faults: list[JournalError] = []

        def recovered() -> bool:
            try:
                journal.recover(journal.namespace())
            except JournalError as fault:
                # bookies may have just started
                faults[:] = [fault]
                return False
            return True

        try:
            demo.wait("the journal to be recovered", recovered)
        except DemoError as error:
            raise DemoError(f"{error}{''.join(f': {fault}' for fault in faults)}") from error
        ops = (op for segment in journal.segments(1) for op in segment.read(segment.first))
        return {op.path for op in ops if isinstance(op, MkdirOp)}


def _check(where: str, acknowledged: list[str], present: set[str]) -> None:
    missing = [path for path in acknowledged if path not in present]
    if missing:
        raise DemoError(f"{where} lost {len(missing)} of {len(acknowledged)} directories, such as {missing[0]}")


def main() -> None:
    """Run the demo; exit with code 1 on failure."""
    run_demo(Demo, run, "a bookie and the writer were killed under load, and nothing was lost")


if __name__ == "__main__":
    main()
