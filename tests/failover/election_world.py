"""Three controllers and a ZooKeeper in simulated time: expired sessions, lost responses, and freezes.

Guarantees of ZooKeeper: it performs and answers the requests of a session in order, and a watch fires before any
response that shows the change. A session ends no earlier than one timeout after the last message of its owner, together
with its ephemeral znodes. Everything else is random: the time of each arrival, and the order in which kazoo's threads
deliver responses, watches and changes of the connection.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from failover.election_events import (
    Action,
    ActivationEnded,
    BecomeActive,
    BecomeStandby,
    CheckLock,
    CloseSession,
    Connected,
    CreateBreadcrumb,
    CreateLock,
    DeleteBreadcrumb,
    Disconnected,
    Event,
    Expired,
    Failure,
    FenceOldActive,
    FencingEnded,
    Join,
    LockChanged,
    OpenSession,
    Quit,
    ReadBreadcrumb,
    Reply,
    SetBreadcrumb,
    Tick,
    ZnodeRequest,
)
from failover.elector import Elector, ElectorState
from tests.failover.hadoop_elector import HadoopElector

TIMEOUT = 10.0
# frequency per 10,000 steps
_RATES = {"cut": 60, "freeze": 6, "stop": 2, "start": 40, "controller": 60, "kill": 5, "wipe": 5, "expire": 5}
_DISTURBANCES = [*_RATES, ""]
_WEIGHTS = [*_RATES.values(), 10_000 - sum(_RATES.values())]
_CHANNELS = ("answers", "watches", "notices")


@dataclass
class Link:
    """A session from its client's point of view, and the connection."""

    number: int
    owner: int | None = None
    up: bool = False
    noticed: bool = True
    requests: deque[ZnodeRequest] = field(default_factory=deque)
    pipe: deque[Any] = field(default_factory=deque)
    lost: list[Any] = field(default_factory=list)


@dataclass
class Node:
    """A NameNode with its controller."""

    name: str
    elector: Any
    link: Link | None = None
    active: bool = False
    frozen_until: float = 0.0
    restart_at: float | None = None
    wanted: bool = False
    freezes: bool = False
    made_active: bool = False
    callback: tuple[float, Action] | None = None
    answers: deque[Event] = field(default_factory=deque)
    watches: deque[Event] = field(default_factory=deque)
    notices: deque[Event] = field(default_factory=deque)

    @property
    def data(self) -> bytes:
        return self.name.encode()

    @property
    def ours(self) -> bool:
        return isinstance(self.elector, Elector)


class World:
    """The simulated world.

    Args:
        kinds: kind of each elector, True for ours and False for Hadoop's.
        wild: whether an operator also wipes locks and ends sessions.
    """

    def __init__(self, seed: int, kinds: tuple[bool, ...], *, wild: bool) -> None:
        self.random = random.Random(seed)
        self.wild = wild
        self.calm = False
        self.now = 0.0
        self.server_up = True
        self.sessions: dict[int, float] = {}
        self.lock: tuple[int, bytes] | None = None
        self.breadcrumb: tuple[bytes, int] | None = None
        self.written_at = 0.0
        self.watching: set[int] = set()
        self.fenced: dict[tuple[str, str], float] = {}
        self._sessions_made = 0
        self.nodes = [Node(f"nn{at}", self._elector(ours)) for at, ours in enumerate(kinds)]
        self.counts = {"events": 0, "active": 0, "fence": 0, "expired": 0, "lost": 0}

    def _elector(self, ours: bool) -> Elector | HadoopElector:
        # some controllers request longer sessions than the servers grant
        return Elector(self.random.choice((TIMEOUT, 3 * TIMEOUT))) if ours else HadoopElector()

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # ---- one step ------------------------------------------------------------------------------------------

    def step(self) -> None:
        node = self.random.choice(self.nodes)
        if not self.calm:
            self._disturb(node)
        roll = self.random.random()
        if roll < 0.25:
            self._pass(self.random.expovariate(1 / (0.05 if self.chance(0.97) else 1.0)))
        elif roll < 0.45:
            self._serve(node)
        elif roll < 0.6:
            self._receive(node)
        elif roll < 0.7:
            self._network(node)
        else:
            self._run(node)
        self.check()

    def _disturb(self, node: Node) -> None:
        found = self.random.choices(_DISTURBANCES, _WEIGHTS)[0]
        match found:
            case "cut" if node.link is not None:
                self._cut(node.link)
            case "freeze":
                node.frozen_until = self.now + self.random.uniform(0, 3 * TIMEOUT)
            case "stop" if self.server_up:
                self._stop_server(False)
            case "start" if not self.server_up:
                self._stop_server(True)
            case "controller":
                self._controller(node)
            case "kill":
                self._kill(node)
            case "wipe" if self.wild and self.lock is not None:
                self._remove_lock()
            case "expire" if self.wild and self.sessions:
                self._expire(self.random.choice(list(self.sessions)))

    def _controller(self, node: Node) -> None:
        """Change the health of a node; an orderly stop first makes the NameNode a standby."""
        if node.callback is not None or node.frozen_until > self.now or node.restart_at is not None:
            return
        if not node.wanted:
            node.wanted = True
            self._handle(node, Join(node.data))
        elif self.chance(0.3):
            node.wanted = False
            need_fence = self.chance(0.5)
            if not need_fence:
                node.active = False
            self._handle(node, Quit(need_fence))

    def _kill(self, node: Node) -> None:
        """Kill the controller but not the NameNode; ZooKeeper ends the session later."""
        if node.link is not None:
            node.link.up = False
        node.elector, node.link, node.callback = self._elector(node.ours), None, None
        for channel in _CHANNELS:
            getattr(node, channel).clear()
        node.wanted = False

    # ---- time and sessions ---------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            link = node.link
            if link is not None and link.up and link.owner in self.sessions and node.frozen_until <= self.now:
                self.sessions[link.owner] = self.now
        if self.server_up:
            for session in [each for each, received in self.sessions.items() if self.now - received >= TIMEOUT]:
                self._expire(session)

    def _expire(self, session: int) -> None:
        self.counts["expired"] += 1
        self._end(session)
        for node in self.nodes:
            if node.link is not None and node.link.owner == session:
                self._cut(node.link)

    def _end(self, session: int) -> None:
        self.sessions.pop(session, None)
        self.watching.discard(session)
        if self.lock is not None and self.lock[0] == session:
            self._remove_lock()

    def _remove_lock(self) -> None:
        self.lock = None
        for node in self.nodes:
            link = node.link
            if link is not None and link.owner in self.watching and link.up:
                link.pipe.append(LockChanged(link.number))
        self.watching.clear()

    def _stop_server(self, up: bool) -> None:
        self.server_up = up
        if up:
            self.sessions = dict.fromkeys(self.sessions, self.now)
            return
        for node in self.nodes:
            if node.link is not None:
                self._cut(node.link)

    def _cut(self, link: Link) -> None:
        if not link.up:
            return
        link.up = link.noticed = False
        while link.pipe and self.chance(0.3):
            link.lost.append(link.pipe.pop())
        if link.owner is not None:
            self.watching.discard(link.owner)

    def _network(self, node: Node) -> None:
        """Act as kazoo does: notice a lost connection, and reconnect."""
        link = node.link
        if link is None or node.frozen_until > self.now or link.up:
            return
        if not link.noticed:
            link.noticed = True
            for each in (
                *(item.request for item in (*link.pipe, *link.lost) if isinstance(item, Reply)),
                *link.requests,
            ):
                self.counts["lost"] += 1
                node.answers.append(Reply(each, Failure.LOST))
            link.pipe.clear()
            link.lost.clear()
            link.requests.clear()
            # kazoo then also calls all watches, but our election ignores calls that report no change
            node.notices.append(Disconnected(link.number))
        elif not self.server_up or (not self.calm and self.chance(0.3)):
            return
        elif link.owner is None:
            self._sessions_made += 1
            link.owner = self._sessions_made
            self._connected(node, link)
        elif link.owner in self.sessions:
            self._connected(node, link)
        else:
            node.answers.extend(Reply(each, Failure.LOST) for each in link.requests)
            link.requests.clear()
            node.notices.append(Expired(link.number))
            node.link = None

    def _connected(self, node: Node, link: Link) -> None:
        assert link.owner is not None
        self.sessions[link.owner] = self.now
        link.up = link.noticed = True
        node.notices.append(Connected(link.number, link.owner, TIMEOUT))

    # ---- ZooKeeper -----------------------------------------------------------------------------------------

    def _serve(self, node: Node) -> None:
        link = node.link
        if link is None or not link.up or not link.requests or not self.server_up:
            return
        assert link.owner is not None
        request = link.requests.popleft()
        self.sessions[link.owner] = self.now
        link.pipe.append(self._answer(node, link.owner, request))
        if node.freezes:
            # the node freezes while the response is in transit
            node.freezes = False
            node.frozen_until = self.now + self.random.uniform(0, 3 * TIMEOUT)

    def _answer(self, node: Node, owner: int, request: ZnodeRequest) -> Reply:
        match request:
            case CreateLock():
                if self.lock is not None:
                    return Reply(request, Failure.EXISTS, "exists")
                self.lock = (owner, request.data)
                for each in self.nodes:
                    link = each.link
                    if link is not None and link.owner in self.watching and link.up:
                        link.pipe.append(LockChanged(link.number))
                self.watching.clear()
            case CheckLock():
                self.watching.add(owner)
                return Reply(request, owner=None if self.lock is None else self.lock[0])
            case ReadBreadcrumb():
                data, version = self.breadcrumb or (None, 0)
                return Reply(request, data=data, version=version)
            case CreateBreadcrumb():
                if self.breadcrumb is not None:
                    return Reply(request, Failure.EXISTS, "exists")
                self.breadcrumb, self.written_at = (request.data, 0), self.now
            case SetBreadcrumb():
                if self.breadcrumb is None:
                    return Reply(request, Failure.NO_NODE, "no node")
                if self.breadcrumb[1] != request.version:
                    return Reply(request, Failure.BAD_VERSION, "bad version")
                self._check_fenced(node)
                self.breadcrumb, self.written_at = (request.data, request.version + 1), self.now
            case DeleteBreadcrumb():
                if self.breadcrumb is None or self.breadcrumb[1] != request.version:
                    return Reply(request, Failure.BAD_VERSION, "bad version")
                assert self.breadcrumb[0] == node.data
                assert not node.active, f"{node.name} is active, but its breadcrumb is deleted"
                self.breadcrumb = None
        return Reply(request)

    def _check_fenced(self, node: Node) -> None:
        assert self.breadcrumb is not None
        before = self.breadcrumb[0].decode()
        fenced_at = self.fenced.get((node.name, before), -1.0)
        assert before == node.name or fenced_at >= self.written_at, f"{node.name} did not fence {before}"

    def _receive(self, node: Node) -> None:
        link = node.link
        # Data sent before the cut can still be read.
        if link is None or not link.pipe or node.frozen_until > self.now:
            return
        item = link.pipe.popleft()
        (node.watches if isinstance(item, LockChanged) else node.answers).append(item)

    # ---- controllers ---------------------------------------------------------------------------------------

    def _run(self, node: Node) -> None:
        if node.frozen_until > self.now:
            return
        if node.restart_at is not None:
            if self.now >= node.restart_at:
                node.restart_at = None
                self._kill(node)
            return
        if node.callback is not None:
            if self.now >= node.callback[0]:
                self._called(node)
            return
        filled = [getattr(node, channel) for channel in _CHANNELS if getattr(node, channel)]
        if filled:
            self._handle(node, self.random.choice(filled).popleft())
        elif self.now >= node.elector.wake_at():
            self._handle(node, Tick())
        elif self.chance(0.1):
            self._compare(node)

    def _compare(self, node: Node) -> None:
        """Leave the election and rejoin if another controller has changed the NameNode's state, for example by fencing
        the NameNode late.
        """
        expected = {ElectorState.ACTIVE: True, ElectorState.STANDBY: False}.get(node.elector.state)
        if expected is not None and expected is not node.active:
            self._handle(node, Quit(need_fence=True))
            node.wanted = False

    def _handle(self, node: Node, event: Event) -> None:
        self.counts["events"] += 1
        before = node.elector.state
        for action in node.elector.handle(event, self.now):
            self._do(node, action)
        self._check_state(node, before, event)
        if getattr(node.elector, "dead", False) and node.restart_at is None:
            node.restart_at = self.now + self.random.uniform(0, 5)

    def _do(self, node: Node, action: Action) -> None:
        match action:
            case OpenSession():
                assert node.link is None
                node.link = Link(action.session)
            case CloseSession():
                link, node.link = node.link, None
                # kazoo waits for the server for a limited time
                if link is not None and link.up and self.server_up and link.owner and (self.calm or self.chance(0.9)):
                    for request in link.requests:
                        self._answer(node, link.owner, request)
                    self._end(link.owner)
            case ZnodeRequest():
                if node.link is not None:
                    node.link.requests.append(action)
                    if not self.calm and self.chance(0.08):
                        node.freezes = True
                else:
                    node.answers.append(Reply(action, Failure.LOST))
            case FenceOldActive() | BecomeActive():
                self._check_lock(node)
                lasts = self.random.choice((0.0, 0.1) if self.calm else (0.0, 0.1, TIMEOUT / 2, 2 * TIMEOUT))
                node.callback = (self.now + lasts, action)
            case BecomeStandby():
                node.active = False
            case _:
                pass

    def _check_lock(self, node: Node) -> None:
        """Check that our elector starts no action without the lock."""
        if node.ours and not self.wild:
            assert node.link is not None
            assert self.lock is not None, f"{node.name} begins without a lock"
            assert self.lock[0] == node.link.owner, f"{node.name} begins without the lock"

    def _called(self, node: Node) -> None:
        assert node.callback is not None
        action = node.callback[1]
        node.callback = None
        fails = not self.calm and self.chance(0.2)
        if isinstance(action, FenceOldActive):
            if not fails:
                self.counts["fence"] += 1
                target = action.breadcrumb.decode()
                next(each for each in self.nodes if each.name == target).active = False
                self.fenced[node.name, target] = self.now
            self._handle(node, FencingEnded("no" if fails else ""))
            return
        if not fails or self.chance(0.5):
            node.active = True
        self.counts["active"] += not fails
        self._handle(node, ActivationEnded("no" if fails else ""))

    # ---- invariants ----------------------------------------------------------------------------------------

    def leaders(self) -> list[Node]:
        """Return the electors that consider themselves active and have a live session."""
        return [
            each
            for each in self.nodes
            if each.elector.state is ElectorState.ACTIVE and each.elector.owner in self.sessions
        ]

    def _check_state(self, node: Node, before: ElectorState, event: Event) -> None:
        """Check that our elector becomes active only after its NameNode, and does not remain active for longer than its
        last confirmation allows.
        """
        active = node.elector.state is ElectorState.ACTIVE
        if isinstance(event, ActivationEnded) and not event.problem:
            node.made_active = True
        if active and before is not ElectorState.ACTIVE:
            assert node.made_active, f"{node.name} is active by {event}, but its NameNode received no request"
        elif not active and before is ElectorState.ACTIVE:
            node.made_active = False
        if active and node.ours and not self.wild and isinstance(event, ActivationEnded | Tick):
            assert node.elector.owner in self.sessions, f"{node.name} is active by {event} after the end of its session"

    def check(self) -> None:
        if not self.wild:
            leaders = self.leaders()
            assert len(leaders) <= 1, [each.name for each in leaders]

    def rest(self) -> None:
        """Run without faults for a while. At the end, exactly one controller is active, and the breadcrumb names it."""
        self.calm = True
        if not self.server_up:
            self._stop_server(True)
        for node in self.nodes:
            node.frozen_until = 0.0
        end = self.now + 40 * TIMEOUT
        while self.now < end and not self._settled():
            for node in self.nodes:
                if not node.wanted and node.restart_at is None and node.callback is None:
                    node.wanted = True
                    self._handle(node, Join(node.data))
            self.step()
        assert self._settled(), {each.name: (each.elector.state.value, each.active) for each in self.nodes}
        self.calm = False

    def _settled(self) -> bool:
        active = [each for each in self.nodes if each.elector.state is ElectorState.ACTIVE]
        standby = [each for each in self.nodes if each.elector.state is ElectorState.STANDBY]
        return (
            len(active) == 1
            and len(standby) == len(self.nodes) - 1
            and self.leaders() == [each for each in self.nodes if each.active] == active
            and self.breadcrumb is not None
            # a Hadoop elector whose lock was wiped by hand may write its breadcrumb when another elector has the lock
            and (self.breadcrumb[0] == active[0].data or (self.wild and not all(each.ours for each in self.nodes)))
        )
