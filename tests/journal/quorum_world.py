"""Events of writers and nodes of a quorum journal, and the invariants after each event."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from journal.journal import RecordBatch
from journal.quorum.calls import majority
from journal.quorum.decisions import choose_recovery
from journal.quorum.errors import QuorumError, SegmentFetchError
from journal.quorum.phases import Phase
from journal.quorum.writer import WriterSegment
from tests.journal.quorum_model import JOURNAL, LAYOUT, NAMESPACE, ModelNode, Snapshot
from tests.journal.quorum_ops import batch_of, mark, read_all, start_op
from tests.journal.quorum_simulation import SETTINGS, Client, Running, Simulation, instant_reader

CRASH_POINTS = ("promised", "writer epoch written", "torn", "written", "finalized", "downloaded", "persisted")


@dataclass(eq=False)
class Actor:
    """A writer, and the transactions that it will write next."""

    client: Client
    next_txid: int = 0
    segment: WriterSegment | None = None

    @property
    def phase(self) -> Phase:
        return self.client.writer.phase

    @property
    def busy(self) -> bool:
        return bool(self.client.running)


@dataclass
class Oracle:
    """Promised transactions: acknowledged to a writer, or shown to a reader."""

    acked: dict[int, bytes] = field(default_factory=dict)
    acked_in: dict[int, int] = field(default_factory=dict)
    shown: dict[int, bytes] = field(default_factory=dict)
    decided: dict[int, bytes] = field(default_factory=dict)
    epochs: dict[int, Client] = field(default_factory=dict)
    purged_below: int = 1

    def ack(self, epoch: int, first: int, records: list[bytes]) -> None:
        for txid, record in enumerate(records, first):
            assert txid not in self.acked, f"txid {txid} was acknowledged twice"
            assert self.shown.get(txid, record) == record, f"readers saw another txid {txid}"
            self.acked[txid] = record
            self.acked_in[txid] = epoch

    def show(self, ops: dict[int, bytes]) -> None:
        for txid, record in ops.items():
            assert self.promised.get(txid, record) == record, f"a reader sees another txid {txid}"
            self.shown[txid] = record

    @property
    def promised(self) -> dict[int, bytes]:
        kept = {**self.shown, **self.acked}
        return {txid: record for txid, record in kept.items() if txid >= self.purged_below}


class World:
    """A simulation of nodes with several writers.

    Args:
        make_node: makes a node, such as `ModelNode`, from its name and a function that fetches segments from the other
            nodes.
        nodes: number of nodes.
        writers: number of simultaneous writers.
    """

    def __init__(
        self, make_node: Callable[[str, Callable[[str], bytes]], Any] = ModelNode, *, nodes: int = 3, writers: int = 2
    ) -> None:
        self.simulation = Simulation(make_node, nodes)
        for host in self.simulation.hosts.values():
            host.node.format(JOURNAL, NAMESPACE, force=False)
        self.actors = [Actor(self.simulation.client()) for _ in range(writers)]
        self.oracle = Oracle()
        self.need = majority(nodes)
        self._values = itertools.count(1000)

    def snapshots(self) -> dict[str, Snapshot]:
        return {name: host.node.snapshot() for name, host in self.simulation.hosts.items()}

    # ---- writers ----

    def go_on(self, actor: Actor, size: int, choice: int) -> bool:
        """Perform the writer's next step; return whether the writer had a step."""
        if actor.busy:
            return False
        match actor.phase:
            case Phase.IDLE | Phase.LOST:
                self._recover(actor)
            case Phase.READY:
                self._start(actor)
            case Phase.WRITING:
                assert actor.segment is not None
                if choice == 0 and actor.segment.next_txid > actor.segment.first_txid:
                    self._finalize(actor)
                else:
                    self._append(actor, size)
            case _:
                self.replace(actor)
        return True

    def replace(self, actor: Actor) -> None:
        """End the writer's process, and start another."""
        self.simulation.trace.append(f"{actor.client.name} dies")
        actor.client.kill()
        actor.client = self.simulation.client()
        actor.segment = None

    def purge(self, actor: Actor) -> None:
        if actor.busy or actor.phase is not Phase.READY or actor.next_txid < 4:
            return
        # As after a checkpoint, purge only transactions that are older than every writer's transactions.
        limit = max(self.oracle.purged_below, min(self.oracle.acked, default=1), actor.next_txid - 10)
        self.oracle.purged_below = limit
        actor.client.start(actor.client.writer.purge(limit))

    def _recover(self, actor: Actor) -> None:
        running = actor.client.start(actor.client.writer.recover(NAMESPACE))
        self._then(running, lambda: self._recovered(actor))

    def _recovered(self, actor: Actor) -> None:
        actor.next_txid = self.finalized_end() + 1
        newer = [epoch for epoch in self.oracle.epochs if epoch > (actor.client.writer.epoch or 0)]
        promised = max(self.oracle.promised, default=0)
        assert newer or promised < actor.next_txid, (
            f"txid {promised} was promised, but {actor.next_txid} would come next"
        )

    def _start(self, actor: Actor) -> None:
        running = actor.client.start(actor.client.writer.start_segment(actor.next_txid, LAYOUT))

        def started() -> None:
            actor.segment = running.result

        self._then(running, started)

    def _append(self, actor: Actor, size: int) -> None:
        segment = actor.segment
        assert segment is not None
        first = segment.next_txid
        records = [mark(txid, next(self._values)) for txid in range(first, first + size)]
        if first == segment.first_txid:
            records[0] = start_op(first)
        epoch = actor.client.writer.epoch or 0
        given_way = sum(host.node.promised > epoch for host in self.simulation.hosts.values()) >= self.need
        batch: RecordBatch = batch_of(first, records)
        running = actor.client.start(actor.client.writer.append(segment, batch))

        def appended() -> None:
            assert not given_way, f"epoch {epoch} wrote txid {first} after a majority had promised a newer epoch"
            self.oracle.ack(epoch, first, records)
            actor.next_txid = first + size

        self._then(running, appended)

    def _finalize(self, actor: Actor) -> None:
        segment = actor.segment
        assert segment is not None
        actor.client.start(actor.client.writer.finalize(segment, segment.next_txid - 1))
        actor.segment = None

    @staticmethod
    def _then(running: Running, done: Callable[[], None]) -> None:
        def ended(each: Running) -> None:
            if each.fault is None:
                done()

        if running.ended:
            ended(running)
        else:
            running.on_end = ended

    # ---- readers ----

    def read(self, nodes: Iterable[str], *, tail: bool) -> None:
        """Read everything from a majority, including the open segment."""
        reader = instant_reader(self.simulation, list(nodes), SETTINGS)
        first = self.oracle.purged_below
        if tail:
            first = max([first, *self.oracle.promised])
        try:
            found = reader.newest(first) if tail else reader.streams(first, in_progress=True)
        except QuorumError:
            return
        # Transactions that are unreadable now, because a node is down, were not shown to a reader.
        shown = {}
        with suppress(SegmentFetchError):
            for segment in found:
                shown |= read_all([segment], first)
        self.oracle.show(shown)

    # ---- invariants ----

    def finalized_end(self) -> int:
        """Return the newest transaction id in the finalized segments of all nodes; 0 if there are none."""
        nodes = self.snapshots().values()
        return max((first + len(held) - 1 for node in nodes for first, held in node.finalized.items()), default=0)

    def check(self) -> None:
        self._check_epochs()
        snapshots = self.snapshots()
        self._check_copies(snapshots)
        for group in itertools.combinations(self.simulation.names, self.need):
            self._check_recoverable({name: snapshots[name] for name in group})

    def _check_epochs(self) -> None:
        for actor in self.actors:
            epoch = actor.client.writer.epoch
            if epoch is not None:
                owner = self.oracle.epochs.setdefault(epoch, actor.client)
                assert owner is actor.client, f"epoch {epoch} has two writers"

    def _check_copies(self, snapshots: dict[str, Snapshot]) -> None:
        """Check that finalized copies are identical everywhere and contain all promised transactions."""
        oracle, promised = self.oracle, self.oracle.promised
        for name, node in snapshots.items():
            for first, records in node.finalized.items():
                for txid, record in enumerate(records, first):
                    assert oracle.decided.setdefault(txid, record) == record, f"txid {txid} differs on {name}"
                    assert promised.get(txid, record) == record, f"{name} finalized another txid {txid}"
        for name, node in snapshots.items():
            for first in node.opened.keys() - oracle.decided.keys():
                for txid, record in enumerate(node.opened[first], first):
                    # A copy of an earlier epoch is abandoned, and never wins a recovery.
                    if node.seen(first) >= oracle.acked_in.get(txid, 1 << 62):
                        assert oracle.acked[txid] == record, f"{name} holds another txid {txid}"

    def _check_recoverable(self, nodes: dict[str, Snapshot]) -> None:
        """Check that a writer that reaches only these nodes, all restarted, finds all promised transactions."""
        held = {
            txid: record
            for node in nodes.values()
            for first, records in node.finalized.items()
            for txid, record in enumerate(records, first)
        }
        newest = max((node.newest for node in nodes.values() if node.newest is not None), default=None)
        if newest is not None:
            reported = {name: node.reported(newest) for name, node in nodes.items()}
            chosen = choose_recovery(newest, {name: prepared for name, (prepared, _) in reported.items()})
            if chosen is not None:
                held |= dict(enumerate(reported[chosen.node][1], newest))
        for txid, record in self.oracle.promised.items():
            assert held.get(txid) == record, f"txid {txid} would be lost on {', '.join(nodes)}"

    # ---- the end ----

    def heal(self) -> None:
        """Restart all nodes and end everything in flight; then continue with a new writer, and read everything."""
        for name, host in self.simulation.hosts.items():
            host.reachable = True
            host.node.crash_at = ""
            self.simulation.restart(name)
        for actor in self.actors:
            actor.client.kill()
        self.simulation.settle()
        self.check()
        actor = Actor(self.simulation.client())
        self.actors = [actor]
        for wanted in (Phase.READY, Phase.WRITING, Phase.WRITING):
            self.go_on(actor, 2, 1)
            self.simulation.settle()
            assert actor.phase is wanted, self.simulation.trace
        self.go_on(actor, 1, 0)
        self.simulation.settle()
        self.check()
        first = self.oracle.purged_below
        for group in itertools.combinations(self.simulation.names, self.need):
            found = read_all(instant_reader(self.simulation, list(group)).streams(first, in_progress=False), first)
            assert list(found) == list(range(first, actor.next_txid))
            assert {txid: found[txid] for txid in self.oracle.promised} == self.oracle.promised
