"""The elector as a state machine without I/O, which converts events to actions (ActiveStandbyElector).

States: INIT (not in the election), ACTIVE (we own the lock, and the NameNode was made active), STANDBY (another node
owns the lock), NEUTRAL (the owner is unknown). ZooKeeper sessions are numbered; events of an earlier session are
dropped. At most one request is pending. While no server is connected, no request is pending. After a reconnection, the
elector re-reads the lock. The lock is ours only if its owner is our session; the response "exists" to a create proves
nothing.

The owner of the lock becomes active in steps, and checks the lock between them, because fencing may last longer than
the session:

    breadcrumb -> [lock -> fence the node in it -> lock] -> write the breadcrumb -> lock -> make the NameNode active

A response that confirms our ownership of the lock is valid for one session timeout after its request, because ZooKeeper
does not end a session earlier. An older response never starts a step. A server that has lost its connection to
ZooKeeper's leader may answer with an old state for a while. The breadcrumb is therefore written before the NameNode is
made active, because the leader must accept this write. The elector guarantees:

- It makes the NameNode active, and fences another NameNode, only after a valid response.
- It does not overwrite the breadcrumb of another node before that node was fenced.
- While no server is reachable, the state is NEUTRAL, in which the elector sends no commands to the NameNode.
- It does not send a create in a session that may already own the lock. After a lost connection, it first checks the
  lock.
"""

from __future__ import annotations

from enum import Enum

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
    SessionEvent,
    SessionRefused,
    SetBreadcrumb,
    Tick,
    ZnodeRequest,
)
from hadoop_common.back_off import BackOff

_QUESTIONS = 3
"""Number of checks of the lock per session timeout, because a watch may have been lost."""
_PAUSE = 1.0
"""Seconds for which this node leaves the lock to other nodes after it could not use the lock."""
_AFTER_FATAL = BackOff(_PAUSE, 30.0)


class ElectorState(Enum):
    INIT = "init"
    ACTIVE = "active"
    STANDBY = "standby"
    NEUTRAL = "neutral"


class _TakeoverStep(Enum):
    """The step that the owner of the lock must complete next before it is ACTIVE."""

    BREADCRUMB = "reads the breadcrumb"
    LOCK_BEFORE_FENCING = "checks the lock before fencing"
    FENCING = "fences"
    LOCK_AFTER_FENCING = "checks the lock after fencing"
    WRITING = "writes the breadcrumb"
    LOCK_BEFORE_ACTIVE = "checks the lock before it makes the NameNode active"
    ACTIVATING = "makes the NameNode active"
    LOCK_AFTER_ACTIVE = "checks the lock after a long activation"


class Elector:
    """A participant in the election; only one thread may call `handle`.

    Args:
        timeout: requested session timeout, in seconds.
        retries: number of consecutive lost requests after which the election fails for a while.

    Attributes:
        timeout: timeout of the session in seconds; the requested timeout while there is no session.
        problem: reason why the lock was last released or the election last failed; "" once the problem has ended.
        connected: whether a server answers.
        owner: ZooKeeper's id of the session; None if there is no session.
        last_contact_at: time when the last answered request was sent.
    """

    def __init__(self, timeout: float, retries: int = 3) -> None:
        self._asked_timeout = self.timeout = timeout
        self._retries = retries
        self.state = ElectorState.INIT
        self.problem = ""
        # reason why the last fencing failed
        self._fencing_problem = ""
        self.connected = False
        self.owner: int | None = None
        self.last_contact_at = float("-inf")
        self._data: bytes | None = None
        self._session = 0
        self._open = False
        self._fresh = self._answered = False
        self._number = 0
        self._pending: ZnodeRequest | None = None
        self._asked_at = float("-inf")
        self._again = False
        self._lost = 0
        self._fatals = 0
        self._step: _TakeoverStep | None = None
        self._old: tuple[bytes | None, int] = (None, 0)
        self._back_at: float | None = None
        self._leaving = False
        self._actions: list[Action] = []

    @property
    def wanted(self) -> bool:
        """Whether this participant is in the election."""
        return self._data is not None

    @property
    def doing(self) -> str:
        """Next step before ACTIVE; "" if we do not own the lock, or are ACTIVE."""
        return "" if self._step is None else self._step.value

    @property
    def busy(self) -> bool:
        """Whether this participant is still leaving."""
        return self._leaving

    def wake_at(self) -> float:
        """Return the time when the next Tick is due."""
        if self._back_at is not None:
            return self._back_at
        if not (self._data is not None and self._open):
            return float("inf")
        overdue = self.last_contact_at + self.timeout if self.state is ElectorState.ACTIVE else float("inf")
        check_at = (
            self._asked_at + self.timeout / _QUESTIONS if self.connected and self._pending is None else float("inf")
        )
        return min(overdue, check_at)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Return the actions for `event`; `now` is in monotonic seconds."""
        self._actions = []
        match event:
            case Join():
                self._join(event.data)
            case Quit():
                self._quit(need_fence=event.need_fence, now=now)
            case Tick():
                self._tick(now)
            case ElectionFault():
                self._fail(event.reason, now)
            case FencingEnded():
                self._fenced(event.problem, now)
            case ActivationEnded():
                self._made_active(event.problem, now)
            case Reply():
                if event.request == self._pending:
                    self._pending = None
                    self._replied(event, now)
            case _:
                if event.session == self._session and self._open:
                    self._session_event(event, now)
        return self._actions

    # ---- joining and leaving -------------------------------------------------------------------------------

    def _join(self, data: bytes) -> None:
        joined, self._data = self._data is not None, data
        if not joined:
            self._close()
            self._open_session()

    def _quit(self, *, need_fence: bool, now: float) -> None:
        was_active, mine = self.state is ElectorState.ACTIVE, self._data
        if self._leaving:
            return
        self._data = None
        self._back_at = self._step = None
        self.state, self.problem, self._lost, self._fatals = ElectorState.INIT, "", 0, 0
        if was_active and not need_fence and self.connected and mine is not None:
            self._leaving = True
            self._old = (mine, 0)
            self._ask(ReadBreadcrumb(self._session, self._next()), now)
        else:
            self._close()

    def _left(self, reply: Reply, now: float) -> None:
        """Handle a response while leaving: delete the breadcrumb if it is still ours, then close the session."""
        ours = isinstance(reply.request, ReadBreadcrumb) and reply.data is not None and reply.data == self._old[0]
        if reply.failure is None and ours:
            self._ask(DeleteBreadcrumb(self._session, self._next(), reply.version), now)
            return
        self._close()

    # ---- sessions ------------------------------------------------------------------------------------------

    def _session_event(self, event: SessionEvent, now: float) -> None:
        match event:
            case Connected():
                self.connected, self.owner = True, event.owner
                self.timeout = min(self._asked_timeout, event.timeout)
                self._pending = None
                if self._data is not None and self._fresh:
                    self._create(now)
                elif self._data is not None:
                    self._check_lock(now)
            case Disconnected():
                self.connected = False
                if self._leaving:
                    self._close()
                    return
                self._step = None
                self._neutral()
            case Expired() if not self._answered:
                self._fail("the session with ZooKeeper ended before an answer arrived", now)
            case Expired():
                self._close()
                if self._data is not None:
                    self._neutral()
                    self._open_session()
            case SessionRefused():
                self._fail(event.reason, now)
            case LockChanged():
                if self._data is None or not self.connected:
                    return
                if self._pending is None:
                    self._step = None
                    self._check_lock(now)
                else:
                    # The pending response may be older than the change.
                    self._again = True

    def _open_session(self) -> None:
        self._session += 1
        self._open = self._fresh = True
        self._answered = False
        self._actions.append(OpenSession(self._session))

    def _close(self) -> None:
        if self._open:
            self._actions.append(CloseSession(self._session))
        self._open = self.connected = self._leaving = self._again = False
        self.owner = self._pending = self._step = None

    def _fail(self, reason: str, now: float) -> None:
        """Close the session and retry the election after a pause."""
        self._fatals += 1
        self._lost = 0
        self.problem = reason
        self._close()
        if self._data is None:
            return
        self._neutral()
        self._actions.append(Fatal(reason))
        self._back_at = now + _AFTER_FATAL.wait(self._fatals)

    def _yield_lock(self, reason: str, now: float) -> None:
        """Release the lock, which we own but cannot use, for a while."""
        self.problem = reason
        self._close()
        self._back_at = now + _PAUSE

    def _tick(self, now: float) -> None:
        if self._back_at is not None:
            if now >= self._back_at:
                self._back_at = None
                self._open_session()
            return
        if self._data is None or not self._open:
            return
        if self.state is ElectorState.ACTIVE and now >= self.last_contact_at + self.timeout:
            # Another node may own the lock by now; the elector checks the lock once a server answers.
            self._step = None
            self._neutral()
        if self.connected and self._pending is None and now >= self._asked_at + self.timeout / _QUESTIONS:
            self._step = None
            self._check_lock(now)

    # ---- requests ------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, request: ZnodeRequest, now: float) -> None:
        self._pending, self._asked_at, self._again = request, now, False
        self._actions.append(request)

    def _create(self, now: float) -> None:
        assert self._data is not None
        self._fresh = False
        self._step = None
        self._ask(CreateLock(self._session, self._next(), self._data), now)

    def _check_lock(self, now: float) -> None:
        self._fresh = False
        self._ask(CheckLock(self._session, self._next()), now)

    def _replied(self, reply: Reply, now: float) -> None:
        if self._leaving:
            self._left(reply, now)
            return
        if self._data is None:
            return
        if reply.failure is Failure.LOST:
            self._lost += 1
            self._step = None
            if self._lost > self._retries:
                self._fail(f"ZooKeeper's answers were lost {self._lost} times in a row", now)
            # Otherwise, the elector checks the lock at the next connection or tick.
            return
        self._lost = 0
        self._answered = True
        self.last_contact_at = self._asked_at
        if self._again:
            # The lock has changed since this request.
            self._step = None
            self._check_lock(now)
            return
        match reply.request:
            case CreateLock():
                self._created(reply, now)
            case CheckLock():
                self._lock_checked(reply, now)
            case _:
                self._breadcrumb(reply, now)

    def _created(self, reply: Reply, now: float) -> None:
        match reply.failure:
            case None:
                self._claim(now)
            case Failure.EXISTS:
                # A request whose response was lost may have created the lock, so check the lock's owner.
                self._check_lock(now)
            case _:
                self._fail(reply.reason, now)

    def _lock_checked(self, reply: Reply, now: float) -> None:
        if reply.failure is not None:
            self._fail(reply.reason, now)
        elif reply.owner is None:
            if self.state is ElectorState.ACTIVE:
                self._neutral()
            self._create(now)
        elif reply.owner != self.owner:
            self._step = None
            self._standby()
        elif self._step is not None:
            self._ours_still(now)
        elif self.state is not ElectorState.ACTIVE:
            self._claim(now)

    # ---- becoming active -----------------------------------------------------------------------------------

    def _claim(self, now: float) -> None:
        self._step = _TakeoverStep.BREADCRUMB
        self._ask(ReadBreadcrumb(self._session, self._next()), now)

    def _breadcrumb(self, reply: Reply, now: float) -> None:
        match self._step:
            case _TakeoverStep.BREADCRUMB if reply.failure is None:
                self._old = (reply.data, reply.version)
                if reply.data is None or reply.data == self._data:
                    self._write(now)
                else:
                    self._look_before(_TakeoverStep.LOCK_BEFORE_FENCING, now)
            case _TakeoverStep.WRITING if reply.failure is None:
                self._look_before(_TakeoverStep.LOCK_BEFORE_ACTIVE, now)
            case _:
                self._yield_lock(f"the breadcrumb cannot be used: {reply.reason}", now)

    def _look_before(self, step: _TakeoverStep, now: float) -> None:
        self._step = step
        self._check_lock(now)

    def _ours_still(self, now: float) -> None:
        """Continue after a response that confirms our ownership of the lock. The request was sent at `_asked_at`."""
        assert self._step is not None
        if now >= self._asked_at + self.timeout:
            self._look_before(self._step, now)
            return
        match self._step:
            case _TakeoverStep.LOCK_BEFORE_FENCING:
                self._step = _TakeoverStep.FENCING
                assert self._old[0] is not None
                self._actions.append(FenceOldActive(self._old[0]))
            case _TakeoverStep.LOCK_AFTER_FENCING:
                self._write(now)
            case _TakeoverStep.LOCK_BEFORE_ACTIVE:
                self._step = _TakeoverStep.ACTIVATING
                self._actions.append(BecomeActive())
            case _TakeoverStep.LOCK_AFTER_ACTIVE:
                self._active()
            case _:
                self._claim(now)

    def _fenced(self, problem: str, now: float) -> None:
        if self._step is not _TakeoverStep.FENCING:
            return
        if self.problem == self._fencing_problem:
            self.problem = ""
        self._fencing_problem = problem
        if problem:
            self._yield_lock(problem, now)
        else:
            self._look_before(_TakeoverStep.LOCK_AFTER_FENCING, now)

    def _write(self, now: float) -> None:
        assert self._data is not None
        self._step = _TakeoverStep.WRITING
        data, version = self._old
        number = self._next()
        if data is None:
            self._ask(CreateBreadcrumb(self._session, number, self._data), now)
        else:
            self._ask(SetBreadcrumb(self._session, number, self._data, version), now)

    def _made_active(self, problem: str, now: float) -> None:
        if self._step is not _TakeoverStep.ACTIVATING:
            return
        if problem:
            # The NameNode may have become active nevertheless; it becomes a standby once another node owns the lock.
            self._yield_lock(problem, now)
            self._neutral()
        elif now < self._asked_at + self.timeout:
            self._active()
        else:
            self._neutral()
            self._look_before(_TakeoverStep.LOCK_AFTER_ACTIVE, now)

    # ---- states --------------------------------------------------------------------------------------------

    def _active(self) -> None:
        self._step = None
        self._settled(ElectorState.ACTIVE)

    def _standby(self) -> None:
        if self.state is not ElectorState.STANDBY:
            self._actions.append(BecomeStandby())
        self._settled(ElectorState.STANDBY)

    def _settled(self, state: ElectorState) -> None:
        self.state, self.problem, self._fatals = state, "", 0

    def _neutral(self) -> None:
        if self.state is not ElectorState.NEUTRAL:
            self._actions.append(EnterNeutral())
        self.state = ElectorState.NEUTRAL
