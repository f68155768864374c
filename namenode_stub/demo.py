"""`make demo`: a complete checkpoint cycle on one machine, with real files and real HTTP on loopback.

An active NameNode stub and the checkpointer daemon run as two processes. Clients perform a few thousand operations on
the stub. The daemon fetches the stub's image and makes checkpoints. It continues until the stub has accepted one image
because of the transaction count and one because of the period, and has purged old edits. Then the demo kills the stub,
restarts it from disk, and compares the namespaces before and after. The demo deletes a directory, and an archive
restores the namespace without the deletion. At the end, Spark reads images and edits as tables, merges them again and
makes a report.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

from checkpointer.daemon.upload_outcome import Acceptance
from checkpointer.transfer import UploadResult
from hadoop_common.cluster_http import send_request
from hadoop_common.names import parse_segment
from hadoop_common.quantities import counted
from namenode_stub.demo_archive import undo_deletion
from namenode_stub.demo_conf import DemoPorts, free_ports, write_configuration
from namenode_stub.demo_stage import HTTP_SECONDS, DemoError, DemoStage, kill, perform, run_demo, tree
from namenode_stub.demo_tables import begin_report, merge_on_spark, print_report
from node_state.state import NodeState, from_json

_CLIENTS = 4
_DIRECTORIES = 120
_TRANSACTIONS = 2000
_PERIOD_SECONDS = 5
# outcomes after which the stub does not have the image
_REFUSALS = {each.value for each in Acceptance} - {Acceptance.ACCEPTED.value, Acceptance.KEPT.value}


@dataclass
class Demo(DemoStage):
    """One run of the demo with a stub and a daemon."""

    ports: DemoPorts = field(default_factory=free_ports)
    operations: int = 0
    rounds: int = 0
    serves: bool = False

    # ---- processes -----------------------------------------------------------------------------------------

    def start_stub(self) -> subprocess.Popen[bytes]:
        process = self.start_process("stub", "namenode_stub", "run", "--conf", str(self.scratch / "conf-nn1"))
        self.wait("the stub to answer", lambda: self.stub_status() is not None, process)
        return process

    def start_daemon(self) -> subprocess.Popen[bytes]:
        arguments = ("run", "--conf", str(self.scratch / "conf-nn2"), "--role", "standby")
        process = self.start_process("daemon", "checkpointer", *arguments)
        self.wait("the daemon to answer", lambda: self._daemon_state() is not None, process)
        return process

    # ---- HTTP ----------------------------------------------------------------------------------------------

    def _get(self, url: str) -> Any:
        try:
            answer = send_request("GET", url, timeout=HTTP_SECONDS)
        except OSError:
            return None
        return answer.json if answer.status == HTTPStatus.OK else None

    def stub_status(self) -> Any:
        return self._get(f"{self.ports.stub_url}/status")

    def _daemon_state(self) -> NodeState | None:
        status = self._get(f"{self.ports.daemon_url}/status")
        return None if status is None else from_json(NodeState, status)

    def call(self, operation: str, **arguments: Any) -> None:
        perform(self.ports.stub_url, operation, **arguments)

    # ---- work ----------------------------------------------------------------------------------------------

    def drive(self, count: int) -> None:
        """Perform about `count` operations from several concurrent clients, each client in separate directories."""
        started = time.monotonic()
        self.rounds += 1
        with ThreadPoolExecutor(_CLIENTS) as pool:
            share = count // _CLIENTS
            names = [f"round{self.rounds}-client{client}" for client in range(_CLIENTS)]
            done = sum(pool.map(lambda name: self._client(name, share), names))
        self.operations += done
        seconds = time.monotonic() - started
        self.console.print(f"  {counted(done, 'operation')} from {_CLIENTS} clients in {seconds:.1f} s")

    def roll(self) -> None:
        """Roll the edit log, because the daemon merges only finalized segments."""
        self.call("roll")

    def _client(self, name: str, count: int) -> int:
        chance = random.Random(name)
        files: list[str] = []
        done = 0
        while done < count:
            directory = f"/user/{name}/day{chance.randrange(_DIRECTORIES // _CLIENTS)}"
            done += self._step(chance, directory, files, done)
        return done

    def _step(self, chance: random.Random, directory: str, files: list[str], number: int) -> int:
        """Perform one step of a job; return the number of operations."""
        choice = chance.random()
        if choice < 0.6 or not files:
            path = f"{directory}/part-{number:05d}"
            self.call("mkdirs", path=directory)
            self.call("create", path=path)
            self.call("add_block", path=path)
            self.call("complete", path=path, length=chance.randrange(1, 1 << 27))
            files.append(path)
            return 4
        path = files[chance.randrange(len(files))]
        if choice < 0.75:
            target = f"{path}.moved{number}"
            self.call("rename", src=path, dst=target)
            files[files.index(path)] = target
        elif choice < 0.85:
            self.call("delete", path=path)
            files.remove(path)
        elif choice < 0.95:
            self.call("set_permission", path=path, mode=chance.choice([0o600, 0o640, 0o644]))
        else:
            self.call("set_owner", path=path, user=f"user{chance.randrange(20)}", group="users")
        return 1

    def wait_for_image(self, reason: str, more: Callable[[], None]) -> NodeState:
        """Wait until the stub has accepted an image made for `reason` (txns or period).

        Args:
            more: makes the clients continue; called after each image that is refused or made for another reason.
        """
        found: list[NodeState] = []
        judged: set[tuple[int | None, str]] = set()

        def accepted() -> bool:
            daemon = self._daemon_state()
            if daemon is None or not daemon.targets:
                return False
            record, target = daemon.record, daemon.targets[0]
            taken = target.result == UploadResult.SUCCESS.name and target.txid == record.saved_txid
            if taken and record.last_reason == reason and record.last_seconds is not None:
                found.append(daemon)
                return True
            outcome = (record.saved_txid, "taken" if taken else record.last_outcome)
            if (taken or record.last_outcome in _REFUSALS) and outcome not in judged:
                judged.add(outcome)
                more()
            return False

        self.wait(f"an image by {reason} that the stub accepts", accepted, self.processes[-1])
        return found[-1]

    def first_segment_is_purged(self) -> bool:
        status = self.stub_status()
        segments = () if status is None else map(parse_segment, status["segments"])
        return status is not None and all(segment is not None and segment.first > 1 for segment in segments)

    def show_storage(self) -> None:
        status = self.stub_status()
        if status is None:
            return
        self.console.print(f"  stub: images {', '.join(status['images'])}")
        self.console.print(f"  stub: edits  {', '.join(status['segments'])}")


def run(demo: Demo) -> None:
    """Run all steps of the demo.

    Raises:
        DemoError: a step failed.
    """
    say = demo.console.print
    write_configuration(demo.scratch, demo.ports, transactions=_TRANSACTIONS, period=_PERIOD_SECONDS)
    say("[bold]1. An active NameNode stub[/] writes real edits into its own and a shared directory")
    demo.run_process("namenode_stub", "format", "--conf", str(demo.scratch / "conf-nn1"))
    stub = demo.start_stub()
    demo.drive(2200)
    say(f"[bold]2. The daemon[/] fetches the image and checkpoints immediately: over {_TRANSACTIONS} transactions wait")
    # start the daemon only now, so that the period does not trigger its first checkpoint, even on a slow machine
    demo.roll()
    daemon = demo.start_daemon()
    _report(demo, demo.wait_for_image("txns", lambda: demo.drive(_TRANSACTIONS)))
    say(f"[bold]3. Only a few operations follow;[/] the daemon checkpoints after its period of {_PERIOD_SECONDS} s")
    demo.drive(400)
    _report(demo, demo.wait_for_image("period", lambda: demo.drive(40)))
    # the stub accepts the image before it purges the edits
    demo.wait("the purge of the first segment", demo.first_segment_is_purged)
    demo.show_storage()
    demo.drive(200)
    before = tree(demo.ports.stub_url)
    say("[bold]4. The stub is killed[/] with SIGKILL while an edit segment is open")
    kill(stub)
    demo.start_stub()
    after = tree(demo.ports.stub_url)
    if before != after:
        different = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
        raise DemoError(f"{counted(len(before), 'inode')} before, {len(after)} after; first difference {different[:1]}")
    say(
        f"  restarted from the checkpoint and the remaining edits of {demo.operations} operations: "
        f"all {counted(len(after), 'inode')} are the same"
    )
    say("[bold]5. A directory is deleted by mistake;[/] the archive finds the transaction and undoes it")
    # the daemon makes no further checkpoints, so that the stub does not purge edits before the archive has them
    demo.stop(daemon)
    undo_deletion(demo, demo.ports.stub_url, "/user/round1-client0")
    # end all writers before Spark reads the files
    demo.stop_all()
    current = demo.scratch / "nn1" / "current"
    # each Spark job uses one core, so both run in parallel
    report = begin_report(current, demo)
    say("[bold]6. The checkpoint as a Spark job:[/] the driver replays the edits, and tasks write the sections")
    merge_on_spark(current, demo)
    say("[bold]7. Images and edits as tables:[/] what fills the namespace, and who")
    print_report(report, demo)


def show_console(demo: Demo) -> None:
    """Print the console's address; with `serves`, restart the stub and the daemon, and wait for an interrupt."""
    if not demo.serves:
        hint = "`make demo DEMO=--serve` keeps the daemon running, with its console at"
        demo.console.print(f"{hint} {demo.ports.daemon_url}/")
        return
    demo.processes.clear()
    demo.start_stub()
    demo.start_daemon()
    demo.drive(400)
    demo.console.print(f"[bold]8. The console[/] of the daemon is at {demo.ports.daemon_url}/ until Ctrl-C")
    with suppress(KeyboardInterrupt):
        signal.pause()


def _report(demo: Demo, state: NodeState) -> None:
    record = state.record
    seconds = record.last_seconds or {}
    spent = ", ".join(f"{part} {seconds[part]:.2f} s" for part in ("load", "replay", "save"))
    demo.console.print(f"  checkpoint at txid {record.saved_txid} ({record.last_reason}): {spent}; the stub accepts it")


def main() -> None:
    """Run the demo; exit with code 1 on failure. `--serve` keeps the stub and the daemon running at the end."""
    stage = partial(Demo, serves="--serve" in sys.argv[1:])
    run_demo(stage, run, "two checkpoints made, uploaded, verified", show_console)


if __name__ == "__main__":
    main()
