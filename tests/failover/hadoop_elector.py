"""An elector for the model, which decides as Hadoop's ActiveStandbyElector does, but has our interface."""

from __future__ import annotations

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
    SetBreadcrumb,
    ZnodeRequest,
)
from failover.elector import ElectorState

_SLEEP = 1.0


class HadoopElector:
    """Elector that becomes active in one atomic step; events that arrive during this step wait for its end."""

    def __init__(self, retries: int = 3) -> None:
        self.state = ElectorState.INIT
        self.owner: int | None = None
        self.dead = False
        self._retries = retries
        self._data: bytes | None = None
        self._session = self._number = 0
        self._open = self._first = False
        self._creates = self._checks = 0
        self._claim: ZnodeRequest | None = None
        self._calling = False
        self._deferred: list[Event] = []
        self._old: tuple[bytes | None, int] = (None, 0)
        self._delete: ZnodeRequest | None = None
        self._awake_at = float("inf")
        self._actions: list[Action] = []

    @property
    def wanted(self) -> bool:
        return self._data is not None

    @property
    def busy(self) -> bool:
        return self._delete is not None

    def wake_at(self) -> float:
        return self._awake_at

    def handle(self, event: Event, now: float) -> list[Action]:
        self._actions = []
        self._one(event, now)
        while self._deferred and not self._claiming():
            self._one(self._deferred.pop(0), now)
        if now >= self._awake_at:
            self._awake_at = float("inf")
            self._connect()
        return self._actions

    def _claiming(self) -> bool:
        return self._claim is not None or self._calling

    def _one(self, event: Event, now: float) -> None:
        match event:
            case Reply() if event.request == self._claim:
                self._claim = None
                self._claimed(event, now)
            case FencingEnded():
                self._calling = False
                self._rejoin(now) if event.problem else self._write()
            case ActivationEnded():
                self._calling = False
                if event.problem:
                    self._rejoin(now)
                else:
                    self.state = ElectorState.ACTIVE
                    self._check_lock()
            case Reply() if event.request == self._delete:
                if isinstance(event.request, ReadBreadcrumb) and event.failure is None and event.data == self._old[0]:
                    self._delete = DeleteBreadcrumb(self._session, self._next(), event.version)
                    self._actions.append(self._delete)
                else:
                    self._terminate()
            case Quit():
                self._quit(event.need_fence)
            case _ if self._claiming():
                self._deferred.append(event)
            case Join():
                joined, self._data = self._data is not None, event.data
                if not joined:
                    self._connect()
            case Connected() if event.session == self._session and self._open:
                self.owner = event.owner
                if self._first:
                    self._first, self._creates = False, 0
                    self._create()
                elif self._data is not None:
                    self._check_lock()
            case Disconnected() if event.session == self._session and self._open:
                self._neutral()
            case Expired() if event.session == self._session and self._open:
                self._neutral()
                self._terminate()
                if self._data is not None:
                    self._connect()
            case LockChanged() if event.session == self._session and self._open:
                if self.state is ElectorState.ACTIVE:
                    self._neutral()
                self._creates = 0
                self._create()
            case Reply() if event.request.session == self._session and self._data is not None:
                self._replied(event)
            case _:
                pass

    # ---- as in the table -----------------------------------------------------------------------------------

    def _replied(self, reply: Reply) -> None:
        match reply.request, reply.failure:
            case CreateLock(), None:
                self._become_active()
            case CreateLock(), Failure.EXISTS:
                if self._creates == 0:
                    self._standby()
                self._check_lock()
            case CreateLock(), Failure.LOST:
                self._creates += 1
                self._create() if self._creates <= self._retries else self._fatal()
            case CheckLock(), None if reply.owner is None:
                self._neutral()
                self._creates = 0
                self._create()
            case CheckLock(), None if reply.owner == self.owner:
                self._become_active()
            case CheckLock(), None:
                self._standby()
            case CheckLock(), Failure.LOST:
                self._checks += 1
                self._check_lock() if self._checks <= self._retries else self._fatal()
            case _:
                self._fatal()
        if reply.failure is not Failure.LOST:
            self._checks = 0

    def _become_active(self) -> None:
        if self.state is not ElectorState.ACTIVE:
            self._claim = ReadBreadcrumb(self._session, self._next())
            self._actions.append(self._claim)

    def _claimed(self, reply: Reply, now: float) -> None:
        if reply.failure is not None:
            self._rejoin(now)
        elif isinstance(reply.request, ReadBreadcrumb):
            self._old = (reply.data, reply.version)
            if reply.data is None or reply.data == self._data:
                self._write()
            else:
                self._calling = True
                self._actions.append(FenceOldActive(reply.data))
        else:
            self._calling = True
            self._actions.append(BecomeActive())

    def _write(self) -> None:
        assert self._data is not None
        data, version = self._old
        number = self._next()
        if data is None:
            self._claim = CreateBreadcrumb(self._session, number, self._data)
        else:
            self._claim = SetBreadcrumb(self._session, number, self._data, version)
        self._actions.append(self._claim)

    def _quit(self, need_fence: bool) -> None:
        was_active, mine = self.state is ElectorState.ACTIVE, self._data
        self._data, self._claim, self._calling, self._deferred = None, None, False, []
        self._awake_at = float("inf")
        self.state = ElectorState.INIT
        if was_active and not need_fence and self._open:
            self._old = (mine, 0)
            self._delete = ReadBreadcrumb(self._session, self._next())
            self._actions.append(self._delete)
        else:
            self._terminate()

    def _rejoin(self, now: float) -> None:
        self._terminate()
        self._awake_at = now + _SLEEP

    def _fatal(self) -> None:
        self.dead = True
        self._terminate()
        self._actions.append(Fatal("fatal"))

    # ---- sessions and requests -----------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _connect(self) -> None:
        self._terminate()
        self._session += 1
        self._open = self._first = True
        self._actions.append(OpenSession(self._session))

    def _terminate(self) -> None:
        if self._open:
            self._actions.append(CloseSession(self._session))
        self._open, self.owner, self._claim, self._delete = False, None, None, None

    def _create(self) -> None:
        if self._data is not None:
            self._actions.append(CreateLock(self._session, self._next(), self._data))

    def _check_lock(self) -> None:
        self._actions.append(CheckLock(self._session, self._next()))

    def _standby(self) -> None:
        if self.state is not ElectorState.STANDBY:
            self._actions.append(BecomeStandby())
        self.state = ElectorState.STANDBY

    def _neutral(self) -> None:
        if self.state is not ElectorState.NEUTRAL:
            self._actions.append(EnterNeutral())
        self.state = ElectorState.NEUTRAL
