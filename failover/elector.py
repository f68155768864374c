"""The elector as a table without I/O: what happened goes in, what is to be done comes out (ActiveStandbyElector).

States: INIT (takes no part), ACTIVE (has the lock, and the NameNode was made active), STANDBY (another one has the
lock), NEUTRAL (not known who has it). A session of ZooKeeper is a number here; whatever belongs to an earlier one is
dropped. At most one request is on its way, and while no server is connected there is none: what is known then is asked
for anew. A lock is ours only if its owner is our session; that some create answered "exists" says nothing.

Whoever has the lock becomes active in steps, and looks at the lock between them, for fencing may last longer than the
session:

    breadcrumb -> [lock -> fence the node in it -> lock] -> write the breadcrumb -> lock -> make the NameNode active

What the lock's owner is told by an answer holds for one session timeout from when it was asked for, for ZooKeeper ends
no session earlier; nothing is begun on an answer that is older. A server that is cut off from the leader may answer
what was, for a while: the write of the breadcrumb, which the leader has to take, stands before the NameNode is made
active. What can never happen:

- The NameNode is made active, or another one fenced, without such an answer.
- The breadcrumb of another node is overwritten before that node was fenced.
- The NameNode is sent anything because a server cannot be reached: that is NEUTRAL, in which nothing is sent.
- A create goes out in a session that may have the lock already: after a lost connection the lock is looked at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hadoop_common.back_off import BackOff

_QUESTIONS = 3
"""So many times in a session timeout the lock is looked at, for a watch may have been lost."""
_PAUSE = 1.0
"""Seconds for which the lock is left to others after it could not be used."""
_AFTER_FATAL = BackOff(_PAUSE, 30.0)


class ElectorState(Enum):
    INIT = "init"
    ACTIVE = "active"
    STANDBY = "standby"
    NEUTRAL = "neutral"


# ---- what happens ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Take part from now on, with this in the lock; a second one only changes that."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Quit:
    """Take no part from now on; `need_fence` leaves the breadcrumb, for the next active to fence our NameNode."""

    need_fence: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """A server answers.

    Attributes:
        owner: id of the session, as ZooKeeper has it.
        timeout: of the session, which may be shorter than the one that was asked for.
    """

    session: int
    owner: int
    timeout: float = float("inf")


@dataclass(frozen=True, slots=True)
class Disconnected:
    session: int


@dataclass(frozen=True, slots=True)
class Expired:
    session: int


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no session to be had in this way: a login that is not taken, a store that cannot be read."""

    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class LockChanged:
    """A watch fired."""

    session: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to `request`.

    Attributes:
        owner: session that owns the lock, None where there is no lock; of LookAtLock.
        data, version: of ReadBreadcrumb; None and 0 where there is none.
    """

    request: Request
    failure: Failure | None = None
    reason: str = ""
    owner: int | None = None
    data: bytes | None = None
    version: int = 0


class Failure(Enum):
    """Why a request was not done; what is none of these is OTHER."""

    EXISTS = "exists"
    NO_NODE = "no node"
    BAD_VERSION = "bad version"
    LOST = "lost"
    """It may have been done, or not."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Fenced:
    """How FenceOldActive ended, "" for well."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class MadeActive:
    """How BecomeActive ended, "" for well."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """What was to be done was not done, by a fault of whoever does it; no session is relied on any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


SessionEvent = Connected | Disconnected | Expired | Refused | LockChanged
Event = Join | Quit | SessionEvent | Reply | Fenced | MadeActive | Broken | Tick


# ---- what is to be done ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSession:
    session: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    session: int


@dataclass(frozen=True, slots=True)
class Request:
    """Something that is asked of ZooKeeper, and answered by a Reply; no two have the same number."""

    session: int
    number: int


@dataclass(frozen=True, slots=True)
class CreateLock(Request):
    data: bytes


@dataclass(frozen=True, slots=True)
class LookAtLock(Request):
    """With a watch."""


@dataclass(frozen=True, slots=True)
class ReadBreadcrumb(Request):
    pass


@dataclass(frozen=True, slots=True)
class CreateBreadcrumb(Request):
    data: bytes


@dataclass(frozen=True, slots=True)
class SetBreadcrumb(Request):
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class DeleteBreadcrumb(Request):
    version: int


@dataclass(frozen=True, slots=True)
class FenceOldActive:
    """Answered by Fenced before anything else is handled."""

    breadcrumb: bytes


@dataclass(frozen=True, slots=True)
class BecomeActive:
    """Answered by MadeActive before anything else is handled."""


@dataclass(frozen=True, slots=True)
class BecomeStandby:
    pass


@dataclass(frozen=True, slots=True)
class EnterNeutral:
    pass


@dataclass(frozen=True, slots=True)
class Fatal:
    """There is no election now; it is tried again after a while."""

    reason: str


Action = OpenSession | CloseSession | Request | FenceOldActive | BecomeActive | BecomeStandby | EnterNeutral | Fatal


class _Step(Enum):
    """What whoever has the lock waits for, on its way to being active."""

    BREADCRUMB = "reads the breadcrumb"
    LOCK_BEFORE_FENCING = "looks at the lock before fencing"
    FENCING = "fences"
    LOCK_AFTER_FENCING = "looks at the lock after fencing"
    WRITING = "writes the breadcrumb"
    LOCK_BEFORE_ACTIVE = "looks at the lock before the NameNode is made active"
    ACTIVATING = "makes the NameNode active"
    LOCK_AFTER_ACTIVE = "looks at the lock after that lasted long"


class Elector:
    """One participant; `handle` is called by one thread.

    Args:
        timeout: of a session, seconds, as it is asked for.
        retries: lost requests in a row after which the election is given up for a while.

    Attributes:
        timeout: of the session, seconds; of one that is still to come what is asked for.
        problem: why the lock or the election was given up last, "" once that is past.
        connected: whether a server answers.
        owner: id of the session, None where there is none.
        heard_at: when what was answered last was asked for.
    """

    def __init__(self, timeout: float, retries: int = 3) -> None:
        self._asked_timeout = self.timeout = timeout
        self._retries = retries
        self.state = ElectorState.INIT
        self.problem = ""
        self.connected = False
        self.owner: int | None = None
        self.heard_at = float("-inf")
        self._data: bytes | None = None
        self._session = 0
        self._open = False
        self._fresh = self._answered = False
        self._number = 0
        self._pending: Request | None = None
        self._asked_at = float("-inf")
        self._again = False
        self._lost = 0
        self._fatals = 0
        self._step: _Step | None = None
        self._old: tuple[bytes | None, int] = (None, 0)
        self._back_at: float | None = None
        self._leaving = False
        self._actions: list[Action] = []

    @property
    def wanted(self) -> bool:
        """Whether it takes part."""
        return self._data is not None

    @property
    def doing(self) -> str:
        """What it does on the way to being active, "" where it has not the lock or is active."""
        return "" if self._step is None else self._step.value

    @property
    def busy(self) -> bool:
        """Whether it is on its way out still."""
        return self._leaving

    def wake_at(self) -> float:
        """When a Tick is due."""
        if self._back_at is not None:
            return self._back_at
        if not (self._data is not None and self._open):
            return float("inf")
        overdue = self.heard_at + self.timeout if self.state is ElectorState.ACTIVE else float("inf")
        look = self._asked_at + self.timeout / _QUESTIONS if self.connected and self._pending is None else float("inf")
        return min(overdue, look)

    def handle(self, event: Event, now: float) -> list[Action]:
        """What follows from `event`; `now` is monotonic, seconds."""
        self._actions = []
        match event:
            case Join():
                self._join(event.data)
            case Quit():
                self._quit(need_fence=event.need_fence, now=now)
            case Tick():
                self._tick(now)
            case Broken():
                self._give_up(event.reason, now)
            case Fenced():
                self._fenced(event.problem, now)
            case MadeActive():
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
        """An answer on the way out: our own breadcrumb goes, at the version that was read, and then the session."""
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
                    self._look(now)
            case Disconnected():
                self.connected = False
                if self._leaving:
                    self._close()
                    return
                self._step = None
                self._neutral()
            case Expired() if not self._answered:
                self._give_up("the session with ZooKeeper ended before anything was answered", now)
            case Expired():
                self._close()
                if self._data is not None:
                    self._neutral()
                    self._open_session()
            case Refused():
                self._give_up(event.reason, now)
            case LockChanged():
                if self._data is None or not self.connected:
                    return
                if self._pending is None:
                    self._step = None
                    self._look(now)
                else:
                    # what is on its way may tell of the time before
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

    def _give_up(self, reason: str, now: float) -> None:
        """Nothing can be done for now."""
        self._fatals += 1
        self._lost = 0
        self.problem = reason
        self._close()
        if self._data is None:
            return
        self._neutral()
        self._actions.append(Fatal(reason))
        self._back_at = now + _AFTER_FATAL.wait(self._fatals)

    def _let_others(self, reason: str, now: float) -> None:
        """We have the lock, and cannot use it."""
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
        if self.state is ElectorState.ACTIVE and now >= self.heard_at + self.timeout:
            # ZooKeeper may have given the lock to another one; it is looked at again once a server answers.
            self._step = None
            self._neutral()
        if self.connected and self._pending is None and now >= self._asked_at + self.timeout / _QUESTIONS:
            self._step = None
            self._look(now)

    # ---- requests ------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, request: Request, now: float) -> None:
        self._pending, self._asked_at, self._again = request, now, False
        self._actions.append(request)

    def _create(self, now: float) -> None:
        assert self._data is not None
        self._fresh = False
        self._step = None
        self._ask(CreateLock(self._session, self._next(), self._data), now)

    def _look(self, now: float) -> None:
        self._fresh = False
        self._ask(LookAtLock(self._session, self._next()), now)

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
                self._give_up(f"ZooKeeper's answers were lost {self._lost} times in a row", now)
            # else the lock is looked at once a server is connected, or by the next tick
            return
        self._lost = 0
        self._answered = True
        self.heard_at = self._asked_at
        if self._again:
            # Something happened to the lock since this was asked.
            self._step = None
            self._look(now)
            return
        match reply.request:
            case CreateLock():
                self._created(reply, now)
            case LookAtLock():
                self._looked(reply, now)
            case _:
                self._breadcrumb(reply, now)

    def _created(self, reply: Reply, now: float) -> None:
        match reply.failure:
            case None:
                self._claim(now)
            case Failure.EXISTS:
                # It may be ours, by a request whose answer was lost: the owner tells.
                self._look(now)
            case _:
                self._give_up(reply.reason, now)

    def _looked(self, reply: Reply, now: float) -> None:
        if reply.failure is not None:
            self._give_up(reply.reason, now)
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
        self._step = _Step.BREADCRUMB
        self._ask(ReadBreadcrumb(self._session, self._next()), now)

    def _breadcrumb(self, reply: Reply, now: float) -> None:
        match self._step:
            case _Step.BREADCRUMB if reply.failure is None:
                self._old = (reply.data, reply.version)
                if reply.data is None or reply.data == self._data:
                    self._write(now)
                else:
                    self._look_before(_Step.LOCK_BEFORE_FENCING, now)
            case _Step.WRITING if reply.failure is None:
                self._look_before(_Step.LOCK_BEFORE_ACTIVE, now)
            case _:
                self._let_others(f"the breadcrumb cannot be used: {reply.reason}", now)

    def _look_before(self, step: _Step, now: float) -> None:
        self._step = step
        self._look(now)

    def _ours_still(self, now: float) -> None:
        """The lock is ours, as was asked for at `_asked_at`."""
        assert self._step is not None
        if now >= self._asked_at + self.timeout:
            self._look_before(self._step, now)
            return
        match self._step:
            case _Step.LOCK_BEFORE_FENCING:
                self._step = _Step.FENCING
                assert self._old[0] is not None
                self._actions.append(FenceOldActive(self._old[0]))
            case _Step.LOCK_AFTER_FENCING:
                self._write(now)
            case _Step.LOCK_BEFORE_ACTIVE:
                self._step = _Step.ACTIVATING
                self._actions.append(BecomeActive())
            case _Step.LOCK_AFTER_ACTIVE:
                self._active()
            case _:
                self._claim(now)

    def _fenced(self, problem: str, now: float) -> None:
        if self._step is not _Step.FENCING:
            return
        if problem:
            self._let_others(problem, now)
        else:
            self._look_before(_Step.LOCK_AFTER_FENCING, now)

    def _write(self, now: float) -> None:
        assert self._data is not None
        self._step = _Step.WRITING
        data, version = self._old
        number = self._next()
        if data is None:
            self._ask(CreateBreadcrumb(self._session, number, self._data), now)
        else:
            self._ask(SetBreadcrumb(self._session, number, self._data, version), now)

    def _made_active(self, problem: str, now: float) -> None:
        if self._step is not _Step.ACTIVATING:
            return
        if problem:
            # It may have become active all the same: once another one has the lock it is to be told.
            self._let_others(problem, now)
            self._neutral()
        elif now < self._asked_at + self.timeout:
            self._active()
        else:
            self._neutral()
            self._look_before(_Step.LOCK_AFTER_ACTIVE, now)

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
