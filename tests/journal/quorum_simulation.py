"""Writers, readers and JournalNodes in one thread with simulated time, which delays, loses and repeats messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import JavaIOError, RpcConnectionError, RpcTimeoutError
from journal.quorum.address import QuorumAddress
from journal.quorum.calls import Procedure, QuorumRound, Tally
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import JournalClosedError, SegmentFetchError
from journal.quorum.lanes import Lane, NodeCall
from journal.quorum.quorum_journal import QuorumJournal
from journal.quorum.reader import QuorumReader
from journal.quorum.settings import QuorumSettings
from journal.quorum.writer import QuorumWriter
from tests.journal.quorum_model import JOURNAL, NodeCrashedError

T = TypeVar("T")

RPC_TIMEOUT = 120.0  # timeout of a call to one node; a quorum call has its own timeout
LATENCY = 0.001
SETTINGS = QuorumSettings()


class Fate(Enum):
    """The fate of a request in a fault test."""

    GOOD = "performed and answered"
    FAIL_BEFORE = "not performed, the connection breaks"
    FAIL_AFTER = "performed, the connection breaks before the answer"
    LOST = "not performed, and nobody hears of it"
    SILENT = "performed, the answer never comes"
    LATE = "performed after the writer has stopped waiting"


@dataclass(eq=False)
class InFlight:
    """A call for which a client's lane waits."""

    client: Client
    lane: Lane
    work: NodeCall
    deadline: float
    ended: bool = False

    @property
    def node(self) -> str:
        return self.lane.node


@dataclass(eq=False)
class Message:
    """A request, or its result if `answer` is set; the response to a repeated request is dropped."""

    call: InFlight
    due: float
    answer: bool = False
    value: Any = None
    fault: Exception | None = None
    doubled: bool = False
    fate: Fate = Fate.GOOD

    def __repr__(self) -> str:
        way = "<-" if self.answer else "->"
        return f"{self.call.client.name} {way} {self.call.node} {self.call.work.name}{' (double)' * self.doubled}"


@dataclass(eq=False)
class Running:
    """A procedure in progress, and its result."""

    procedure: Procedure[Any]
    ask: QuorumRound[Any] | None = None
    tally: Tally[Any] | None = None
    deadline: float = 0.0
    lingers: bool = False
    ended: bool = False
    result: Any = None
    fault: Exception | None = None
    on_end: Callable[[Running], None] = field(default=lambda running: None)


@dataclass
class Host:
    """A node's machine; `reachable` shows whether other nodes can reach it."""

    node: Any
    up: bool = True
    reachable: bool = True


class Client:
    """One process with a `QuorumWriter`."""

    def __init__(self, simulation: Simulation, name: str, settings: QuorumSettings, nodes: list[str]) -> None:
        self.name = name
        self.simulation = simulation
        self.address = QuorumAddress.parse(f"qjournal://{';'.join(nodes)}/{JOURNAL}")
        self.ensemble = Ensemble(nodes, JOURNAL, queue_limit=settings.queue_limit)
        self.writer = QuorumWriter(self.ensemble, self.address.nodes, settings, simulation.source)
        self.running: list[Running] = []
        self.dead = False

    def start(self, procedure: Generator[Any, Any, Any]) -> Running:
        running = Running(procedure)
        self.running.append(running)
        self._advance(running, lambda: next(procedure))
        return running

    def kill(self) -> None:
        """End the process; its requests stay in flight, and their responses are dropped."""
        self.dead = True
        for running in self.running:
            running.procedure.close()
        self.running.clear()

    def look(self) -> None:
        """Continue the procedures whose calls have a result or have timed out."""
        for running in list(self.running):
            while not running.ended and self._decided(running):
                tally = running.tally
                self._advance(running, lambda: running.procedure.send(tally))  # noqa: B023 - called immediately
        self._send()

    def next_deadline(self) -> float:
        return min((each.deadline for each in self.running), default=float("inf"))

    def _decided(self, running: Running) -> bool:
        ask, tally, now = running.ask, running.tally, self.simulation.now
        assert ask is not None
        assert tally is not None
        if ask.decided(tally) and not running.lingers:
            running.lingers, running.deadline = True, now + ask.linger
        return now >= running.deadline or (running.lingers and ask.complete(tally))

    def _advance(self, running: Running, step: Callable[[], QuorumRound[Any]]) -> None:
        if running.tally is not None:
            running.tally.abandon()
        try:
            ask = step()
        except StopIteration as end:
            running.result = end.value
            self._end(running)
        except HdfsError as fault:
            running.fault = fault
            self._end(running)
        except Exception:
            self.running.remove(running)
            raise
        else:
            running.ask, running.deadline, running.lingers = ask, self.simulation.now + ask.timeout, False
            running.tally = self.ensemble.offer(ask)
            self._send()

    def _end(self, running: Running) -> None:
        running.ended = True
        self.running.remove(running)
        running.on_end(running)

    def _send(self) -> None:
        for lane in self.ensemble.lanes:
            work = lane.take(self.simulation.now)
            if work is not None:
                self.simulation.send(InFlight(self, lane, work, self.simulation.now + RPC_TIMEOUT))


class Simulation:
    """Nodes, clients, and the messages between them.

    Args:
        make_node: makes a node from its name and a function that fetches segments from the other nodes.
        count: number of nodes.
    """

    def __init__(self, make_node: Callable[[str, Callable[[str], bytes]], Any], count: int = 3) -> None:
        self.now = 0.0
        self.names = [f"jn{number}:8485" for number in range(1, count + 1)]
        self.hosts = {name: Host(make_node(name, self.fetch)) for name in self.names}
        self.clients: list[Client] = []
        self.wire: list[Message] = []
        self.in_flight: list[InFlight] = []
        self.trace: list[str] = []
        self.on_send: Callable[[Message], None] = lambda message: None
        self._numbers = itertools.count(1)

    def client(self, settings: QuorumSettings = SETTINGS) -> Client:
        client = Client(self, f"w{next(self._numbers)}", settings, self.names)
        self.clients.append(client)
        return client

    def fetch(self, url: str) -> bytes:
        """Return the response of another node's HTTP server to a node."""
        name = self.name_of(url)
        host = self.hosts[name]
        if not (host.up and host.reachable):
            raise JavaIOError(f"{url} cannot be reached")
        try:
            content: bytes = host.node.serve(url)
        except NodeCrashedError as end:
            self.crash(name)
            raise JavaIOError(f"{url} was interrupted") from end
        return content

    def source(self, url: str) -> bytes:
        """Return the response of a node's HTTP server to a client."""
        try:
            return self.fetch(url)
        except JavaIOError as fault:
            raise SegmentFetchError(fault.text, file=url) from fault

    @staticmethod
    def name_of(url: str) -> str:
        return f"{urlsplit(url).hostname}:8485"

    # ---- messages ----

    def send(self, call: InFlight) -> None:
        self.in_flight.append(call)
        message = Message(call, self.now + LATENCY)
        self.wire.append(message)
        self.on_send(message)

    def deliver(self, message: Message) -> None:
        self.wire.remove(message)
        self.trace.append(f"{self.now:8.3f} {message}")
        if message.answer:
            self._conclude(message.call, message.value, message.fault)
        elif message.fate is Fate.FAIL_BEFORE:
            self._conclude(message.call, None, RpcConnectionError("the connection broke", sent=True))
        elif message.fate is not Fate.LOST:
            self._answer(message)

    def break_connection(self, message: Message) -> None:
        """Lose a message; its client learns immediately that the connection is closed."""
        self.wire.remove(message)
        self.trace.append(f"{self.now:8.3f} {message} is lost")
        if not message.doubled:
            self._conclude(message.call, None, RpcConnectionError("the connection broke", sent=True))

    def lose(self, message: Message) -> None:
        """Lose a message; its client notices only at the call's timeout."""
        self.wire.remove(message)
        self.trace.append(f"{self.now:8.3f} {message} is lost in silence")

    def double(self, message: Message) -> None:
        """Deliver a request a second time, at a random moment."""
        self.wire.append(Message(message.call, message.due, doubled=True))

    def crash(self, name: str) -> None:
        """Kill a node; waiting clients learn that the connection broke."""
        host = self.hosts[name]
        if host.up:
            self.trace.append(f"{self.now:8.3f} {name} dies")
            host.up = False
            host.node.crash()
        for call in [each for each in self.in_flight if each.node == name]:
            self._conclude(call, None, RpcConnectionError("the connection broke", sent=True))

    def restart(self, name: str) -> None:
        self.hosts[name].up = True

    # ---- time ----

    def next_time(self) -> float:
        """Return the time of the next event."""
        messages = (message.due for message in self.wire)
        calls = (call.deadline for call in self.in_flight)
        procedures = (client.next_deadline() for client in self.clients)
        return min(itertools.chain(messages, calls, procedures), default=float("inf"))

    def pass_time(self, until: float) -> None:
        """Advance the time, so that timeouts occur; messages stay in flight."""
        self.now = max(self.now, until)
        for call in [each for each in self.in_flight if each.deadline <= self.now]:
            self._conclude(call, None, RpcTimeoutError("no answer in time", sent=True))
        for client in self.clients:
            client.look()

    def step(self) -> None:
        """Run the next event."""
        until = self.next_time()
        assert until < float("inf"), "nothing can happen any more"
        due = [message for message in self.wire if message.due <= until]
        if due:
            self.now = max(self.now, until)
            self.deliver(min(due, key=lambda message: message.due))
        else:
            self.pass_time(until)

    def settle(self) -> None:
        """Run until nothing is in flight."""
        while self.next_time() < float("inf"):
            self.step()

    # ---- below ----

    def _answer(self, message: Message) -> None:
        answer = self._performed(message)
        if message.fate is Fate.FAIL_AFTER:
            self._conclude(message.call, None, RpcConnectionError("the connection broke", sent=True))
        elif answer is not None and not message.doubled and message.fate is not Fate.SILENT:
            self.wire.append(answer)

    def _performed(self, message: Message) -> Message | None:
        call, host = message.call, self.hosts[message.call.node]
        answer = Message(call, self.now + LATENCY, answer=True)
        if not host.up:
            answer.fault = RpcConnectionError("connection refused")
            return answer
        try:
            answer.value = call.work.run(host.node)
        except NodeCrashedError:
            self.crash(call.node)
            return None
        except HdfsError as fault:
            answer.fault = fault
        return answer

    def _conclude(self, call: InFlight, value: Any, fault: Exception | None) -> None:
        if call.ended:
            return
        call.ended = True
        self.in_flight.remove(call)
        if call.client.dead:
            return
        if fault is None:
            call.lane.finish(value)
        else:
            call.lane.fail(fault)
        call.client.look()


class SimulatedDriver:
    """`Driver` that runs the simulation until a procedure has ended."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._closed = False

    def run(self, procedure: Procedure[T]) -> T:
        if self._closed:
            raise JournalClosedError("closed")
        running = self._client.start(procedure)
        while not running.ended:
            self._client.simulation.step()
        if running.fault is not None:
            raise running.fault
        result: T = running.result
        return result

    def locked(self, action: Callable[[], T]) -> T:
        return action()

    def close(self) -> None:
        self._closed = True
        self._client.kill()


class InstantDriver:
    """`Driver` that receives the responses of some nodes immediately, and so shows a reader's current view of the
    nodes.
    """

    def __init__(self, simulation: Simulation, ensemble: Ensemble, reached: list[str]) -> None:
        self._simulation = simulation
        self._ensemble = ensemble
        self._reached = reached

    def run(self, procedure: Procedure[T]) -> T:
        try:
            ask = next(procedure)
            while True:
                tally = self._ensemble.offer(ask)
                for lane in self._ensemble.lanes:
                    self._work(lane)
                ask = procedure.send(tally)
        except StopIteration as end:
            result: T = end.value
            return result

    def _work(self, lane: Lane) -> None:
        while (work := lane.take(0.0)) is not None:
            host = self._simulation.hosts[lane.node]
            try:
                if lane.node not in self._reached or not host.up:
                    raise RpcConnectionError("out of reach")
                value = work.run(host.node)
            except NodeCrashedError:
                self._simulation.crash(lane.node)
                lane.fail(RpcConnectionError("the connection broke", sent=True))
            except HdfsError as fault:
                lane.fail(fault)
            else:
                lane.finish(value)


def simulated_journal(simulation: Simulation, settings: QuorumSettings = SETTINGS) -> QuorumJournal:
    """Return a `QuorumJournal` on the simulation's nodes; its calls return when they have ended in simulated time."""
    client = simulation.client(settings)
    return QuorumJournal(client.address, client.ensemble, SimulatedDriver(client), settings, source=simulation.source)


def instant_reader(simulation: Simulation, nodes: list[str], settings: QuorumSettings = SETTINGS) -> QuorumReader:
    """Return a reader that reaches only `nodes`, and takes no simulated time."""
    ensemble = Ensemble(simulation.names, JOURNAL, queue_limit=1)
    address = QuorumAddress.parse(f"qjournal://{';'.join(simulation.names)}/{JOURNAL}")
    driver = InstantDriver(simulation, ensemble, nodes)
    return QuorumReader(ensemble, address.nodes, settings, run=driver.run, source=simulation.source, namespace=None)
