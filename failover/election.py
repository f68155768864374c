"""Drives the elector by kazoo: one thread that handles events, sends requests and calls the controller.

kazoo's threads only put events into the queue. A kazoo client is one session: where that is lost, the client is closed
and another one made, since kazoo would go on with a new session by itself. What callers ask for beside the election,
such as the data of the lock, has a session of its own, which waits for a lost connection.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.exceptions import NodeExistsError as ExistsError
from kazoo.exceptions import NoNodeError as NoSuchNodeError
from kazoo.protocol.states import EventType, KazooState

from failover.elector import (
    Action,
    BecomeActive,
    BecomeStandby,
    Broken,
    CloseSession,
    Connected,
    CreateBreadcrumb,
    CreateLock,
    DeleteBreadcrumb,
    Disconnected,
    Elector,
    ElectorState,
    EnterNeutral,
    Event,
    Expired,
    Failure,
    Fatal,
    Fenced,
    FenceOldActive,
    Join,
    LockChanged,
    LookAtLock,
    MadeActive,
    OpenSession,
    Quit,
    ReadBreadcrumb,
    Refused,
    Reply,
    Request,
    SetBreadcrumb,
    Tick,
)
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import explained
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.client import Grants, given_timeout, new_client, on_end, refused, told, was_refused
from hadoop_common.zookeeper.errors import NoNodeError
from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

_LOG = logging.getLogger(__name__)

LOCK, BREADCRUMB = "ActiveStandbyElectorLock", "ActiveBreadCrumb"

_CLOSE_SECONDS = 2.0
_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError)
_FAILURES = {ExistsError: Failure.EXISTS, NoSuchNodeError: Failure.NO_NODE, BadVersionError: Failure.BAD_VERSION}


class ElectionCallbacks(Protocol):
    """What the election has the controller do; called by one thread of the election's own, one at a time."""

    def become_active(self) -> None:
        """Make the NameNode active; where that raises, the lock is given up for a second."""

    def become_standby(self) -> None:
        """Another one has the lock."""

    def enter_neutral(self) -> None:
        """Nobody knows now who has the lock; nothing is sent to the NameNode."""

    def fence_old_active(self, breadcrumb: bytes) -> None:
        """Make sure that the node that wrote this is not active; where that raises, ours does not become so."""

    def fatal(self, reason: str) -> None:
        """There is no election now; it is tried again, by and by less often."""


class Election:
    """One participant, for any thread.

    Args:
        parent: the znode of the nameservice.
        retries: lost requests in a row after which the election is given up for a while.
    """

    def __init__(
        self, address: ZooKeeperAddress, parent: str, callbacks: ElectionCallbacks, *, retries: int = 3
    ) -> None:
        self._address = address
        self._parent = parent
        self._lock, self._breadcrumb = f"{parent}/{LOCK}", f"{parent}/{BREADCRUMB}"
        self._callbacks = callbacks
        self._elector = Elector(address.session_timeout, retries)
        self._events: queue.SimpleQueue[Event | threading.Event] = queue.SimpleQueue()
        self._session: _Session | None = None
        self._znodes = KazooZNodes(address, grace=0.0)
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._since = time.time()

    # ---- the election --------------------------------------------------------------------------------------

    def join(self, data: bytes) -> None:
        """Take part from now on, with `data` in the lock; where it does already, only the data change."""
        self._tell(Join(data))

    def quit(self, *, need_fence: bool) -> None:
        """Take no part any more, once the callback that runs has ended.

        `need_fence` False takes our breadcrumb away where we are active: only for a NameNode that is known not to be
        active any more. True leaves it, and the next active fences our NameNode.
        """
        if self._thread is None:
            return
        done = threading.Event()
        self._tell(Quit(need_fence))
        self._events.put(done)
        if threading.current_thread() is not self._thread:
            while not done.wait(_CLOSE_SECONDS) and self._thread.is_alive():
                continue

    def close(self) -> None:
        """End it; no callback begins after this. One that runs goes on, and the lock is given up at once."""
        with self._guard:
            self._closed = True
            session = self._session
        self._events.put(threading.Event())
        if session is not None:
            session.close()
        self._znodes.close()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_SECONDS)

    @property
    def state(self) -> ElectorState:
        return self._elector.state

    def facts(self) -> dict[str, object]:
        """For status and metrics; `since` is of the state, in seconds since the epoch."""
        elector = self._elector
        heard = elector.heard_at
        return {
            "joined": elector.wanted,
            "connected": elector.connected,
            "sessionId": None if elector.owner is None else f"0x{elector.owner & (1 << 64) - 1:x}",
            "since": self._since,
            "lastContactSeconds": None if heard == float("-inf") else round(time.monotonic() - heard, 3),
            "sessionTimeoutSeconds": elector.timeout,
            "doing": elector.doing,
            "problem": elector.problem,
            "lock": self._lock,
        }

    # ---- beside it -----------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Wait for ZooKeeper.

        Raises:
            ZooKeeperError: it does not answer within one session timeout, or refuses.
        """
        self._znodes.exists("/")

    def parent_exists(self) -> bool:
        """Raises ZooKeeperError where that cannot be told."""
        return self._znodes.exists(self._parent)

    def format(self) -> None:
        """Remove the znode of the nameservice with all in it, and make it anew; parents that are there get our ACL.

        Raises:
            ZooKeeperError: what could not be done.
        """
        self._znodes.delete_tree(self._parent)
        self._znodes.make_parents(self._parent)

    def active_data(self) -> bytes | None:
        """What lies in the lock now; None where there is no lock. Raises ZooKeeperError where that cannot be told."""
        self._znodes.sync(self._lock)
        with suppress(NoNodeError):
            return self._znodes.get(self._lock)[0] or b""
        return None

    def breadcrumb(self) -> tuple[bytes, int] | None:
        """Data and version; None where there is none. Raises ZooKeeperError where that cannot be told."""
        with suppress(NoNodeError):
            data, version = self._znodes.get(self._breadcrumb)
            return data or b"", version
        return None

    def clear_breadcrumb(self, version: int) -> None:
        """Remove it as it was read.

        Raises:
            BadVersionError: it was changed since; NoNodeError: it is gone; ZooKeeperError: it may be there.
        """
        self._znodes.delete(self._breadcrumb, version)

    # ---- the thread ----------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        with self._guard:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="election", daemon=True)
                self._thread.start()
        self._events.put(event)

    def _run(self) -> None:
        waiting: list[threading.Event] = []
        while not self._closed:
            try:
                wait = max(0.0, min(self._elector.wake_at() - time.monotonic(), _CLOSE_SECONDS))
                event = self._events.get(timeout=wait)
            except queue.Empty:
                event = Tick()
            if isinstance(event, threading.Event):
                waiting.append(event)
            else:
                self._take(event)
            if not self._elector.busy:
                while waiting:
                    waiting.pop().set()
        while waiting:
            waiting.pop().set()

    def _take(self, event: Event) -> None:
        """Handle it; no fault ends the thread, without which a session that lives on would keep the lock for nobody."""
        try:
            self._handle(event)
        except Exception as fault:
            _LOG.exception("a fault of the election itself; its session is closed, and another one begun")
            try:
                self._handle(Broken(f"{type(fault).__name__}: {fault}"))
            except Exception:
                _LOG.exception("a second fault; the election goes on with another session")

    def _handle(self, event: Event) -> None:
        """What follows from `event`; what a callback answers is handled before anything else."""
        events = deque([event])
        while events and not self._closed:
            before = self._elector.state
            actions = self._elector.handle(events.popleft(), time.monotonic())
            if self._elector.state is not before:
                self._since = time.time()
            for action in actions:
                answer = self._do(action)
                if answer is not None:
                    events.append(answer)

    def _do(self, action: Action) -> Event | None:
        match action:
            case OpenSession():
                return self._open(action.session)
            case CloseSession():
                self._end_session()
            case Request():
                if self._session is not None:
                    self._session.send(action)
            case FenceOldActive():
                return Fenced(self._called("fence_old_active", action.breadcrumb))
            case BecomeActive():
                return MadeActive(self._called("become_active"))
            case BecomeStandby():
                self._called("become_standby")
            case EnterNeutral():
                self._called("enter_neutral")
            case Fatal():
                self._called("fatal", action.reason)
        return None

    def _called(self, name: str, *arguments: Any) -> str:
        """Call back; why it failed, "" where it did not."""
        if self._closed:
            return "the election is closed"
        try:
            getattr(self._callbacks, name)(*arguments)
        except Exception as fault:
            known = explained(fault)
            if known is None:
                _LOG.exception("%s failed", name)
                return f"{name}: {type(fault).__name__}: {fault}"
            # the controller has told of it
            _LOG.debug("%s failed: %s", name, known.message)
            return known.message
        return ""

    def _open(self, number: int) -> Event | None:
        try:
            session = _Session(number, self._address, self._parent, self._events)
        except HdfsError as fault:
            return Refused(number, fault.message)
        with self._guard:
            if not self._closed:
                self._session = session
                session.start()
        return None

    def _end_session(self) -> None:
        with self._guard:
            session, self._session = self._session, None
        if session is not None:
            session.close()


class _Session:
    """One session of ZooKeeper, whose events go to `events`; a client of kazoo that is never used for another.

    Raises:
        HdfsError: there can be none.
    """

    def __init__(
        self, number: int, address: ZooKeeperAddress, parent: str, events: queue.SimpleQueue[Event | threading.Event]
    ) -> None:
        self._number = number
        self._address = address
        self._parent = parent
        self._lock, self._breadcrumb = f"{parent}/{LOCK}", f"{parent}/{BREADCRUMB}"
        self._events = events
        self._client = new_client(address)
        self._client.add_listener(self._changed)
        on_end(self._client, lambda: events.put(Expired(number)))
        self._closing = threading.Lock()
        self._ended = False
        # One object: kazoo keeps watches in a set.
        self._watch = self._fired

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: Request) -> None:
        client = self._client
        match request:
            case CreateLock():
                sent = client.create_async(self._lock, request.data, ephemeral=True)
            case LookAtLock():
                sent = client.exists_async(self._lock, watch=self._watch)
            case ReadBreadcrumb():
                sent = client.get_async(self._breadcrumb)
            case CreateBreadcrumb():
                sent = client.create_async(self._breadcrumb, request.data)
            case SetBreadcrumb():
                sent = client.set_async(self._breadcrumb, request.data, request.version)
            case DeleteBreadcrumb():
                sent = client.delete_async(self._breadcrumb, request.version)
            case _:
                raise AssertionError(request)
        sent.rawlink(lambda answer: self._answered(request, answer))

    def close(self) -> None:
        """End the session, and with it the lock; a server that does not answer is not waited for long."""
        with self._closing:
            if self._ended:
                return
            self._ended = True
        closing = threading.Thread(target=self._stop, name="election-close", daemon=True)
        try:
            closing.start()
        except RuntimeError:
            # There are no threads left, but the lock has to go.
            self._stop()
        else:
            closing.join(_CLOSE_SECONDS)

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            _LOG.warning("a session with ZooKeeper did not end well", exc_info=True)

    # ---- kazoo's threads -----------------------------------------------------------------------------------

    def _changed(self, state: str) -> None:
        if not self._ended:
            _LOG.info("the session of the election with ZooKeeper at %s is %s", self._address.hosts, state.lower())
        if state == KazooState.CONNECTED:
            self._events.put(Connected(self._number, self._client.client_id[0], given_timeout(self._client)))
        elif state == KazooState.SUSPENDED:
            self._events.put(Disconnected(self._number))
        elif was_refused(self._client):
            self._events.put(Refused(self._number, refused(self._address, self._parent).message))
        else:
            self._events.put(Expired(self._number))

    def _fired(self, event: Any) -> None:
        # kazoo calls watches at each lost connection too; who made a lock that was missing is told by our own request
        if event.type not in (EventType.NONE, EventType.CREATED):
            self._events.put(LockChanged(self._number))

    def _answered(self, request: Request, answer: Any) -> None:
        """Hand the answer on; one that is a refusal with the ACL that it is by, which is asked for first."""
        if not isinstance(answer.exception, NoAuthError):
            self._events.put(self._reply(request, answer))
            return
        path = self._path(request)
        made_or_removed = isinstance(request, CreateLock | CreateBreadcrumb | DeleteBreadcrumb)
        decides = self._parent if made_or_removed else path

        def shown(acl: Any) -> None:
            entries = None if acl.exception is not None else acl.value[0]
            known = refused(self._address, path, Grants(decides, entries))
            self._events.put(_other_failure(request, known))

        self._client.get_acls_async(decides).rawlink(shown)

    def _path(self, request: Request) -> str:
        return self._lock if isinstance(request, CreateLock | LookAtLock) else self._breadcrumb

    def _reply(self, request: Request, answer: Any) -> Reply:
        fault = answer.exception
        absent = isinstance(request, ReadBreadcrumb) and isinstance(fault, NoSuchNodeError)
        if fault is not None and not absent:
            return self._failed(request, fault)
        if isinstance(request, LookAtLock):
            return Reply(request, owner=None if answer.value is None else answer.value.ephemeralOwner)
        if isinstance(request, ReadBreadcrumb) and not absent:
            data, stat = answer.value
            return Reply(request, data=data or b"", version=stat.version)
        return Reply(request)

    def _failed(self, request: Request, fault: Exception) -> Reply:
        if isinstance(fault, _LOST):
            return Reply(request, Failure.LOST)
        if isinstance(fault, NoSuchNodeError) and isinstance(request, CreateLock | CreateBreadcrumb):
            reason = f"{self._parent} is gone from ZooKeeper; make it by `checkpointer zkfc format`"
            return Reply(request, Failure.NO_NODE, reason)
        kind = next((ours for theirs, ours in _FAILURES.items() if isinstance(fault, theirs)), Failure.OTHER)
        if not isinstance(fault, KazooException):
            return Reply(request, kind, f"{type(fault).__name__}: {fault}")
        return _other_failure(request, told(fault, self._address, self._path(request)), kind)


def _other_failure(request: Request, known: HdfsError, kind: Failure = Failure.OTHER) -> Reply:
    return Reply(request, kind, f"{known.message}. {known.hint}".strip(". "))
