"""Runs the elector on kazoo: one thread handles events, sends requests and calls the controller.

kazoo's threads only put events into the queue. The thread uses a kazoo client for only one session. When the session is
lost, the thread closes and replaces the client, because kazoo would continue with a new session. Other queries, such as
reading the lock's data, use a separate session, which waits until a lost connection is re-established.
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
    ElectionFault,
    EnterNeutral,
    Event,
    Expired,
    Failure,
    Fatal,
    FenceOldActive,
    FencingEnded,
    Join,
    LockChanged,
    OpenSession,
    Quit,
    ReadBreadcrumb,
    Reply,
    SessionRefused,
    SetBreadcrumb,
    Tick,
    ZnodeRequest,
)
from failover.elector import Elector, ElectorState
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.zookeeper.client import (
    ZnodeAcl,
    as_zookeeper_error,
    granted_timeout,
    new_client,
    on_end,
    refused_error,
    was_refused,
)
from hadoop_common.zookeeper.errors import NoNodeError
from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes
from hadoop_common.zookeeper.session import ZooKeeperAddress

_LOG = logging.getLogger(__name__)

LOCK, BREADCRUMB = "ActiveStandbyElectorLock", "ActiveBreadCrumb"

_CLOSE_SECONDS = 2.0
_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError)
_FAILURES = {ExistsError: Failure.EXISTS, NoSuchNodeError: Failure.NO_NODE, BadVersionError: Failure.BAD_VERSION}


class ElectionCallbacks(Protocol):
    """The controller's methods that the election's thread calls, one call at a time."""

    def become_active(self) -> None:
        """Make the NameNode active; after an exception, the election releases the lock for a second."""

    def become_standby(self) -> None:
        """Make the NameNode a standby, because another node has the lock."""

    def enter_neutral(self) -> None:
        """Record that the owner of the lock is unknown; the NameNode keeps its state."""

    def fence_old_active(self, breadcrumb: bytes) -> None:
        """Ensure that the node that wrote `breadcrumb` is not active; after an exception, our NameNode does not become
        active.
        """

    def fatal(self, reason: str) -> None:
        """Report that the election failed; the election retries at increasing intervals."""


class Election:
    """A participant in the election; thread-safe.

    Args:
        parent: znode of the nameservice.
        retries: number of consecutive lost requests after which the election fails for a while.
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
        """Enter the election with `data` as the lock's data; a second call only replaces the data."""
        self._post(Join(data))

    def quit(self, *, need_fence: bool) -> None:
        """Leave the election once the running callback has ended.

        Without `need_fence`, an active participant removes its breadcrumb. This is allowed only if our NameNode is
        known to be no longer active. With `need_fence`, the breadcrumb remains, so that the next active NameNode fences
        our NameNode.
        """
        if self._thread is None:
            return
        done = threading.Event()
        self._post(Quit(need_fence))
        self._events.put(done)
        if threading.current_thread() is not self._thread:
            while not done.wait(_CLOSE_SECONDS) and self._thread.is_alive():
                continue

    def close(self) -> None:
        """Close the election and release the lock immediately. A running callback continues, but no new callback
        begins.
        """
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
        """Return the facts for status and metrics; `since` is the last state change, in seconds since the epoch."""
        elector = self._elector
        last_contact = elector.last_contact_at
        return {
            "joined": elector.wanted,
            "connected": elector.connected,
            "sessionId": None if elector.owner is None else f"0x{elector.owner & (1 << 64) - 1:x}",
            "since": self._since,
            "lastContactSeconds": None if last_contact == float("-inf") else round(time.monotonic() - last_contact, 3),
            "sessionTimeoutSeconds": elector.timeout,
            "doing": elector.doing,
            "problem": elector.problem,
            "lock": self._lock,
        }

    # ---- queries -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Wait for ZooKeeper.

        Raises:
            ZooKeeperError: ZooKeeper does not answer within one session timeout, or refuses the connection.
        """
        self._znodes.exists("/")

    def parent_exists(self) -> bool:
        """Return whether the nameservice's znode exists; raise ZooKeeperError if it cannot be read."""
        return self._znodes.exists(self._parent)

    def format(self) -> None:
        """Recreate the nameservice's znode without its children; existing parents receive our ACL.

        Raises:
            ZooKeeperError: a znode cannot be changed.
        """
        self._znodes.delete_tree(self._parent)
        self._znodes.make_parents(self._parent)

    def active_data(self) -> bytes | None:
        """Return the lock's data, or None if there is no lock; raise ZooKeeperError if the lock cannot be read."""
        self._znodes.sync(self._lock)
        with suppress(NoNodeError):
            return self._znodes.get(self._lock)[0] or b""
        return None

    def breadcrumb(self) -> tuple[bytes, int] | None:
        """Return the breadcrumb's data and version, or None if there is no breadcrumb; raise ZooKeeperError if it
        cannot be read.
        """
        with suppress(NoNodeError):
            data, version = self._znodes.get(self._breadcrumb)
            return data or b"", version
        return None

    def clear_breadcrumb(self, version: int) -> None:
        """Remove the breadcrumb if it still has `version`, which `breadcrumb` returned.

        Raises:
            BadVersionError: the breadcrumb has changed since then.
            NoNodeError: the breadcrumb no longer exists.
            ZooKeeperError: the breadcrumb may still exist.
        """
        self._znodes.delete(self._breadcrumb, version)

    # ---- the thread ----------------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        with self._guard:
            if self._closed:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="election", daemon=True)
                # If the system has no more threads now, the next call tries again.
                thread.start()
                self._thread = thread
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
        """Handle an event. An exception must not end the thread, because the session would then hold an unused lock."""
        try:
            self._handle(event)
        except Exception as fault:
            _LOG.exception("a fault of the election itself; the election continues with a new session")
            try:
                self._handle(ElectionFault(f"{type(fault).__name__}: {fault}"))
            except Exception:
                _LOG.exception("a second fault; the election continues with a new session")

    def _handle(self, event: Event) -> None:
        """Execute the actions for `event`; handle the results of callbacks before other events."""
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
            case ZnodeRequest():
                if self._session is not None:
                    self._session.send(action)
            case FenceOldActive():
                return FencingEnded(self._called("fence_old_active", action.breadcrumb))
            case BecomeActive():
                return ActivationEnded(self._called("become_active"))
            case BecomeStandby():
                self._called("become_standby")
            case EnterNeutral():
                self._called("enter_neutral")
            case Fatal():
                self._called("fatal", action.reason)
        return None

    def _called(self, name: str, *arguments: Any) -> str:
        """Call the controller; return the reason why the call failed, or "" after a success."""
        if self._closed:
            return "the election is closed"
        try:
            getattr(self._callbacks, name)(*arguments)
        except Exception as fault:
            known = as_hdfs_error(fault)
            if known is None:
                _LOG.exception("%s failed", name)
                return f"{name}: {type(fault).__name__}: {fault}"
            # The controller has already logged the fault.
            _LOG.debug("%s failed: %s", name, known.message)
            return known.message
        return ""

    def _open(self, number: int) -> Event | None:
        try:
            session = _Session(number, self._address, self._parent, self._events)
        except HdfsError as fault:
            return SessionRefused(number, fault.message)
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
    """A ZooKeeper session, which puts its events into `events`; its kazoo client is never reused.

    Raises:
        HdfsError: the client cannot be set up.
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
        # This is always the same object, because kazoo stores watches in a set.
        self._watch = self._fired

    def start(self) -> None:
        self._client.start_async()

    def send(self, request: ZnodeRequest) -> None:
        client = self._client
        match request:
            case CreateLock():
                sent = client.create_async(self._lock, request.data, ephemeral=True)
            case CheckLock():
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
        """End the session and release the lock; wait only a short time for a server."""
        with self._closing:
            if self._ended:
                return
            self._ended = True
        closing = threading.Thread(target=self._stop, name="election-close", daemon=True)
        try:
            closing.start()
        except RuntimeError:
            # The lock must be released even if no thread can be started.
            self._stop()
        else:
            closing.join(_CLOSE_SECONDS)

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            _LOG.warning("a ZooKeeper session could not be ended", exc_info=True)

    # ---- kazoo's threads -----------------------------------------------------------------------------------

    def _changed(self, state: str) -> None:
        if not self._ended:
            _LOG.info("the election's session with ZooKeeper at %s is %s", self._address.hosts, state.lower())
        if state == KazooState.CONNECTED:
            self._events.put(Connected(self._number, self._client.client_id[0], granted_timeout(self._client)))
        elif state == KazooState.SUSPENDED:
            self._events.put(Disconnected(self._number))
        elif was_refused(self._client):
            self._events.put(SessionRefused(self._number, refused_error(self._address, self._parent).message))
        else:
            self._events.put(Expired(self._number))

    def _fired(self, event: Any) -> None:
        # kazoo also fires watches when a connection is lost. The response to our request shows who created a missing
        # lock.
        if event.type not in (EventType.NONE, EventType.CREATED):
            self._events.put(LockChanged(self._number))

    def _answered(self, request: ZnodeRequest, answer: Any) -> None:
        """Queue the response; if it is a refusal, first fetch the ACL, which explains the refusal."""
        if not isinstance(answer.exception, NoAuthError):
            self._events.put(self._reply(request, answer))
            return
        path = self._path(request)
        made_or_removed = isinstance(request, CreateLock | CreateBreadcrumb | DeleteBreadcrumb)
        decides = self._parent if made_or_removed else path

        def shown(acl: Any) -> None:
            entries = None if acl.exception is not None else acl.value[0]
            known = refused_error(self._address, path, ZnodeAcl(decides, entries))
            self._events.put(_other_failure(request, known))

        self._client.get_acls_async(decides).rawlink(shown)

    def _path(self, request: ZnodeRequest) -> str:
        return self._lock if isinstance(request, CreateLock | CheckLock) else self._breadcrumb

    def _reply(self, request: ZnodeRequest, answer: Any) -> Reply:
        fault = answer.exception
        absent = isinstance(request, ReadBreadcrumb) and isinstance(fault, NoSuchNodeError)
        if fault is not None and not absent:
            return self._failed(request, fault)
        if isinstance(request, CheckLock):
            return Reply(request, owner=None if answer.value is None else answer.value.ephemeralOwner)
        if isinstance(request, ReadBreadcrumb) and not absent:
            data, stat = answer.value
            return Reply(request, data=data or b"", version=stat.version)
        return Reply(request)

    def _failed(self, request: ZnodeRequest, fault: Exception) -> Reply:
        if isinstance(fault, _LOST):
            return Reply(request, Failure.LOST)
        if isinstance(fault, NoSuchNodeError) and isinstance(request, CreateLock | CreateBreadcrumb):
            reason = f"{self._parent} no longer exists in ZooKeeper; create it with `checkpointer zkfc format`"
            return Reply(request, Failure.NO_NODE, reason)
        kind = next((ours for theirs, ours in _FAILURES.items() if isinstance(fault, theirs)), Failure.OTHER)
        if not isinstance(fault, KazooException):
            return Reply(request, kind, f"{type(fault).__name__}: {fault}")
        return _other_failure(request, as_zookeeper_error(fault, self._address, self._path(request)), kind)


def _other_failure(request: ZnodeRequest, known: HdfsError, kind: Failure = Failure.OTHER) -> Reply:
    return Reply(request, kind, f"{known.message}. {known.hint}".strip(". "))
