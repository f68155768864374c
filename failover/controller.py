"""The failover controller of one NameNode (ZKFailoverController).

It hears from three sides: the health monitor tells how the NameNode is, the election tells what is to become of it,
and other controllers ask it to give way or to take over. What must never be:

- The lock is given up with the breadcrumb taken away, and the NameNode is active still: readers would see two. The
  breadcrumb goes only after the NameNode has said that it is a standby, and until the lock is gone `_held` keeps a
  transition that the election might yet ask for from beginning.
- Something is sent to the NameNode because ZooKeeper cannot be reached: a NameNode that works goes on working.
- Two changes of the NameNode's state cross: `_changing` is held around each. Decisions about the election are made one
  at a time under `_deciding`. Callbacks of the election take the first lock, never the second, for `Election.quit`
  may wait for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from failover.active_node_info import ActiveNodeInfo
from failover.breadcrumb import last_active
from failover.electability import BAD_STATE_SECONDS, Expectation, Step, electability
from failover.fencing.fencer import Outcome
from failover.health import Health, Report
from failover.settings import FailoverSettings
from failover.target import Target
from failover.transitions import TransitionError, Transitions
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import explained
from hadoop_rpc.errors import RpcError, ServiceFailedError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.retry import NO_RETRY
from hadoop_rpc.zkfc_protocol import ZKFCClient

_LOG = logging.getLogger(__name__)

RESULTS = ("done", "failed")


class Elector(Protocol):
    """What the controller needs of `failover.election.Election`."""

    def join(self, data: bytes) -> None: ...

    def quit(self, *, need_fence: bool) -> None: ...

    def active_data(self) -> bytes | None: ...


class NotFencedError(HdfsError):
    """The NameNode that was active before may be so still."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The `number`th try to make the NameNode active: `problem` says why it failed, "" where it did not.

    `at` is monotonic; number 0 is none.
    """

    number: int = 0
    at: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Fencing:
    """The last try to fence a NameNode: `outcomes` of what was tried in its order, the last one counts."""

    namenode: str
    outcomes: tuple[Outcome, ...]

    @property
    def done(self) -> bool:
        return any(each.worked for each in self.outcomes)


class Controller:
    """`ElectionCallbacks` and `ZKFCProtocol` over one NameNode; `heard` takes what the health monitor tells.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, settings: FailoverSettings, clock: Callable[[], float] = time.monotonic) -> None:
        own = settings.own
        self._settings = settings
        self._own = own
        self._clock = clock
        self._data = ActiveNodeInfo(own.nameservice, own.namenode, own.name, own.port, own.zkfc_port).to_bytes()
        self._transitions = Transitions(settings.transitions, settings.user, clock)
        self._election: Elector | None = None
        self._deciding = threading.RLock()
        self._changing = threading.Lock()
        # guards what follows, and tells whoever waits for it
        self._news = threading.Condition()
        self._report = Report()
        self._expected = Expectation()
        self._observer = False
        self._joined = False
        self._changes = False
        self._predecessor = False
        self._out: tuple[float, str] = (0.0, "")
        # why no transition begins, however long that lasts
        self._held = ""
        self._attempt = Attempt()
        self._fencing: Fencing | None = None
        self._fatal = ""
        self._told = ""
        self.transitions: Counter[tuple[str, str]] = Counter()
        self.fencings: Counter[tuple[str, str]] = Counter()

    def begin(self, election: Elector) -> None:
        """Take part by `election`, whose callbacks are this controller's."""
        self._election = election

    def end(self) -> None:
        """Leave the election for good; whoever is next fences the NameNode, which stays as it is."""
        with self._deciding:
            self._hold("the controller is stopping")
            if self._election is not None:
                self._election.quit(need_fence=True)
            self._joined = False

    # ---- health --------------------------------------------------------------------------------------------

    def heard(self, report: Report) -> None:
        """A round of the health monitor; its thread calls."""
        with self._news:
            before, self._report = self._report, report
            self._news.notify_all()
        if report.health is not before.health:
            level = logging.INFO if report.health is Health.HEALTHY else logging.WARNING
            why = f": {report.reason}" if report.reason else ""
            _LOG.log(level, "%s is %s%s", self._own, report.health.value, why)
        if report.status is not None:
            self._compare(report.status.state)
        if self._predecessor and (holder := self._holder()) is not None and not self._is_ours(holder):
            # the election tells nothing when the lock goes from one that is not ours to another
            self.become_standby()
        self._decide()

    def _compare(self, told: HAState) -> None:
        """Look whether the NameNode has the state that it was given."""
        with self._deciding:
            with self._news:
                if self._changes:
                    return
                was_observer, self._observer = self._observer, told is HAState.OBSERVER
                self._expected = self._expected.compared(told)
                wanted, disappointed = self._expected.state, self._expected.disappointed
                if disappointed:
                    self._expected = Expectation()
            if was_observer != self._observer:
                _LOG.info("%s is %s an observer", self._own, "now" if self._observer else "no longer")
            if disappointed:
                reason = f"it is {told.name.lower()}, and should be {wanted.name.lower()}: somebody else changed it"
                _LOG.warning("%s leaves the election for a moment: %s", self._own, reason)
                self._stay_out(BAD_STATE_SECONDS, reason)
                self._leave(need_fence=True)

    def _decide(self) -> None:
        """Join or leave the election, as the NameNode's health says."""
        with self._deciding:
            with self._news:
                decision = electability(
                    self._report, out=self._why_out(), observer=self._observer, changing=self._changes
                )
            told = f"{decision.step.value}: {decision.reason}"
            if told != self._told:
                self._told = told
                _LOG.info("%s %s", self._own, told)
            if decision.step is Step.JOIN and not self._joined:
                assert self._election is not None
                self._joined = True
                self._election.join(self._data)
            elif decision.step in (Step.QUIT, Step.QUIT_TO_BE_FENCED) and self._joined:
                self._leave(need_fence=decision.step is Step.QUIT_TO_BE_FENCED)

    def _leave(self, *, need_fence: bool) -> None:
        """For whoever holds `_deciding`."""
        assert self._election is not None
        self._joined = False
        self._election.quit(need_fence=need_fence)
        with self._news:
            self._expected = Expectation()

    def _stay_out(self, seconds: float, reason: str) -> None:
        with self._news:
            self._out = (self._clock() + seconds, reason)

    def _hold(self, reason: str) -> None:
        with self._news:
            self._held = reason

    def _why_out(self) -> str:
        """For whoever has `_news`."""
        return self._held or (self._out[1] if self._clock() < self._out[0] else "")

    # ---- what the election wants ---------------------------------------------------------------------------

    def become_active(self) -> None:
        """Make the NameNode active.

        Raises:
            HdfsError: it is not.
        """
        self._goes_on()
        self._predecessor = False
        try:
            with self._change():
                stop = self._why_not_active(started=False)
                if stop:
                    raise TransitionError(f"{self._own} is not made active: {stop}")
                _LOG.info("%s has the lock and is made active", self._own)
                self._transitions.to_active(self._own, lambda: self._why_not_active(started=True))
                self._expect(HAState.ACTIVE)
        except Exception as fault:
            self._tried(fault)
            raise
        _LOG.info("%s is active", self._own)
        self._tried(None)

    def _why_not_active(self, *, started: bool) -> str:
        """Why the NameNode is not to become active, "" where it is; one that has started to may be silent meanwhile."""
        with self._news:
            if out := self._why_out():
                return out
            bad = (Health.UNHEALTHY,) if started else (Health.UNHEALTHY, Health.NOT_RESPONDING)
            if self._report.health in bad:
                return f"it is {self._report.health.value}: {self._report.reason}"
        if not started:
            return ""
        # What the election knows of the lock is old by now, and whoever has it since has fenced the NameNode.
        assert self._election is not None
        try:
            data = self._election.active_data()
        except HdfsError as fault:
            return f"the lock cannot be looked at: {fault.message}"
        if data is None:
            return "nobody has the lock any more"
        return "" if self._is_ours(data) else "another one has the lock"

    def _is_ours(self, data: bytes) -> bool:
        """Whether a lock is of this NameNode: ours, or that of a controller that wrote it in other words."""
        if data == self._data:
            return True
        try:
            return last_active(data, self._settings).ours
        except HdfsError:
            return False

    def _holder(self) -> bytes | None:
        """What lies in the lock; None where there is none, or it cannot be looked at."""
        assert self._election is not None
        try:
            return self._election.active_data()
        except HdfsError as fault:
            _LOG.warning("the lock cannot be looked at: %s", fault.message)
            return None

    def become_standby(self) -> None:
        """Make the NameNode a standby; one that does not become it is told again as soon as it answers.

        Where the lock is that of an earlier controller of the same NameNode nothing is sent: nobody else is active.
        """
        self._goes_on()
        with self._change():
            holder = self._holder()
            self._predecessor = holder is not None and self._is_ours(holder)
            if self._predecessor:
                _LOG.info("the lock is that of an earlier controller of %s, which stays as it is", self._own)
                return
            self._expect(HAState.STANDBY)
            try:
                self._transitions.to_standby(self._own)
            except HdfsError as fault:
                self.transitions["standby", "failed"] += 1
                _LOG.error("%s; it is told again if it stays so", fault.message)
                return
        self.transitions["standby", "done"] += 1
        _LOG.info("%s is a standby, for another NameNode has the lock", self._own)

    def enter_neutral(self) -> None:
        """Who has the lock is not known; the NameNode stays as it is."""
        _LOG.warning("who has the lock is not known now; %s stays as it is", self._own)

    def fatal(self, reason: str) -> None:
        """The election cannot go on; it tries again by itself."""
        with self._news:
            self._fatal = reason
        _LOG.error("there is no automatic failover now: %s", reason)

    def _goes_on(self) -> None:
        with self._news:
            self._fatal = ""

    def fence_old_active(self, breadcrumb: bytes) -> None:
        """Make sure that the NameNode that the breadcrumb names is not active.

        Raises:
            HdfsError: it may be.
        """
        try:
            found = last_active(breadcrumb, self._settings)
            if found.ours:
                _LOG.info("the breadcrumb names %s itself, in other words; nothing is fenced", self._own)
                return
            if found.moved:
                _LOG.warning("%s", found.moved)
            self._fence(found.target, found.moved)
        except Exception as fault:
            self._tried(fault)
            raise

    def _fence(self, target: Target, moved: str) -> None:
        _LOG.info("%s was active last, and is fenced", target)
        outcomes: list[Outcome] = []
        for outcome in self._fencings(target):
            outcomes.append(outcome)
            name, result = outcome.method.partition("(")[0], RESULTS[not outcome.worked]
            self.fencings[name, result] += 1
            level = logging.INFO if outcome.worked else logging.WARNING
            _LOG.log(level, "%s: %s %s: %s", target, outcome.method, result, outcome.reason)
        with self._news:
            self._fencing = fencing = Fencing(target.namenode, tuple(outcomes))
        if not fencing.done:
            why = "; ".join(f"{each.method}: {each.reason}" for each in outcomes)
            raise NotFencedError(
                f"{target} cannot be fenced, so that {self._own.namenode} does not become active: {why}",
                hint=moved
                or "Two active NameNodes lose edits: make sure on its host that this one has ended, or see by "
                "`checkpointer zkfc check` what would fence it.",
            )

    def _fencings(self, target: Target) -> Iterator[Outcome]:
        """By asking it first; then by the methods that are configured."""
        try:
            self._transitions.to_standby(target)
        except HdfsError as fault:
            yield Outcome("rpc", False, f"{fault.message} {fault.hint}".strip())
            yield from self._settings.fencer(target).fence()
        else:
            yield Outcome("rpc", True, "it says that it is a standby")

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changing:
            self._set_changes(True)
            try:
                yield
            finally:
                self._set_changes(False)

    def _set_changes(self, changes: bool) -> None:
        with self._news:
            self._changes = changes

    def _expect(self, state: HAState) -> None:
        with self._news:
            self._expected = Expectation(state)

    def _tried(self, fault: Exception | None) -> None:
        """Remember how an attempt to become active ended."""
        known = None if fault is None else explained(fault)
        problem = "" if fault is None else known.message if known is not None else f"{type(fault).__name__}: {fault}"
        self.transitions["active", RESULTS[bool(problem)]] += 1
        with self._news:
            # one that is tried each second and fails always in the same way is one line
            known_already = self._attempt.problem == problem
            self._attempt = Attempt(self._attempt.number + 1, self._clock(), problem)
            self._news.notify_all()
        if fault is not None:
            hint = f" {known.hint}" if known is not None and known.hint else ""
            _LOG.log(logging.DEBUG if known_already else logging.ERROR, "%s%s", problem, hint)

    # ---- what other controllers and operators want -----------------------------------------------------------

    def cede_active(self, milliseconds: int) -> None:
        """Make the NameNode a standby, give up the lock and stay out so long; 0 or less ends a stay."""
        if milliseconds <= 0:
            self._come_back()
            _LOG.info("%s may take part in the election again", self._own)
            return
        seconds = milliseconds / 1000
        reason = f"it was asked to give way for {seconds:g} s"
        with self._deciding:
            _LOG.info("%s stays out of the election: %s", self._own, reason)
            held, self._told = self._held, ""
            # No transition to active begins before the lock is given up, however long that takes.
            self._hold(reason)
            try:
                self._leave(need_fence=not self._stood_down())
            finally:
                self._stay_out(seconds, reason)
                self._hold(held)
        self._decide()

    def _come_back(self) -> None:
        """End a stay, once whoever gives way has done so."""
        with self._deciding:
            self._stay_out(0.0, "")
            self._decide()

    def _stood_down(self) -> bool:
        """Whether the NameNode is known not to be active from here on."""
        with self._news:
            if self._observer:
                return True
        if not self._changing.acquire(timeout=self._settings.transitions.graceful_timeout):
            _LOG.warning("%s is changing its state still; it is fenced by whoever becomes active", self._own)
            return False
        try:
            self._transitions.to_standby(self._own)
        except HdfsError as fault:
            _LOG.warning("%s; it is fenced by whoever becomes active", fault.message)
            return False
        finally:
            self._changing.release()
        return True

    def graceful_failover(self) -> None:
        """Make the NameNode active in place of the one that is, which gives way.

        Raises:
            ServiceFailedError: it did not become active.
        """
        _LOG.info("%s is asked to become active", self._own)
        try:
            self._graceful_failover()
        except HdfsError as fault:
            _LOG.error("%s did not take over: %s", self._own, fault.message)
            raise fault if isinstance(fault, ServiceFailedError) else ServiceFailedError(fault.message) from fault

    def _graceful_failover(self) -> None:
        assert self._election is not None
        with self._news:
            report, observer = self._report, self._observer
        if report.health is not Health.HEALTHY:
            why = f": {report.reason}" if report.reason else ""
            raise ServiceFailedError(f"{self._own} is not currently healthy, it is {report.health.value}{why}")
        if observer:
            raise ServiceFailedError(f"{self._own} is an observer, which does not become active")
        data = self._election.active_data()
        if data is None:
            raise ServiceFailedError("No other node is currently active.")
        if data == self._data:
            _LOG.info("%s is active already", self._own)
            return
        found = last_active(data, self._settings)
        if found.ours:
            _LOG.info("%s is active already", self._own)
            return
        self._take_over(found.target)

    def _take_over(self, active: Target) -> None:
        """Ask all others to give way, the active one last (3.x); 2.7 asks that one alone, and has no other."""
        self._come_back()
        with self._news:
            before = self._attempt.number
        others = [each for each in self._settings.others if each.namenode != active.namenode]
        seconds = 2 * self._settings.transitions.graceful_timeout
        asked: list[Target] = []
        try:
            for target in (*others, active):
                asked.append(target)
                try:
                    self._ask_to_cede(target, int(seconds * 1000))
                except RpcError as fault:
                    if target is active:
                        raise ServiceFailedError(
                            f"the controller of {target} does not give way: {fault.message}"
                        ) from fault
                    # who does not answer may win the lock, which the wait for it then tells
                    _LOG.warning("the controller of %s, a standby, does not answer: %s", target, fault.message)
            self._wait_for_attempt(before, seconds + self._settings.transitions.new_active_timeout)
        finally:
            for target in asked:
                try:
                    self._ask_to_cede(target, -1)
                except RpcError as fault:
                    _LOG.warning("the controller of %s comes back by itself: %s", target, fault.message)

    def _ask_to_cede(self, target: Target, milliseconds: int) -> None:
        timeout = 2 * self._settings.transitions.graceful_timeout
        with ZKFCClient(
            target.host,
            target.zkfc_port,
            user=self._settings.user,
            timeout=timeout,
            connect_timeout=timeout,
            retry=NO_RETRY,
        ) as client:
            client.cede_active(milliseconds)

    def _wait_for_attempt(self, before: int, seconds: float) -> None:
        """For one after the one of that number."""

        def over() -> bool:
            return self._attempt.number > before or self._report.health is not Health.HEALTHY

        with self._news:
            in_time = self._news.wait_for(over, seconds)
            attempt, report = self._attempt, self._report
        if attempt.number > before:
            if attempt.problem:
                raise ServiceFailedError(attempt.problem)
            return
        if in_time:
            raise ServiceFailedError(f"{self._own} became {report.health.value}: {report.reason}")
        raise ServiceFailedError(f"{self._own} did not get the lock within {seconds:g} s")

    # ---- what it tells -------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """For status and metrics."""
        with self._news:
            status, attempt, fencing = self._report.status, self._attempt, self._fencing
            return {
                "nameservice": self._own.nameservice,
                "namenode": self._own.namenode,
                "address": self._own.address,
                "health": self._report.health.name.lower(),
                "healthReason": self._report.reason,
                "state": None if status is None else status.state.name.lower(),
                "expected": self._expected.state.name.lower(),
                "takesPart": self._joined,
                "decision": self._told,
                "outSeconds": max(0.0, self._out[0] - self._clock()),
                "lastAttempt": None
                if not attempt.number
                else {"secondsAgo": self._clock() - attempt.at, "problem": attempt.problem},
                "lastFencing": None
                if fencing is None
                else {
                    "namenode": fencing.namenode,
                    "done": fencing.done,
                    "tried": [{"method": e.method, "worked": e.worked, "reason": e.reason} for e in fencing.outcomes],
                },
                "fatal": self._fatal,
            }

    @property
    def data(self) -> bytes:
        """What it writes into lock and breadcrumb."""
        return self._data
