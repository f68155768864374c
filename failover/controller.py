"""The failover controller of one NameNode (ZKFailoverController).

The controller reacts to reports of the health monitor, to transitions that the election requests, and to other
controllers' requests to cede or to take over. The controller guarantees:

- Without its lock, an active NameNode still has its breadcrumb, so that the next active NameNode fences it. The
  controller removes the breadcrumb only after the NameNode has confirmed that it is a standby. Until the lock is
  released, `blocked` prevents transitions that the election may still request.
- The controller does not change the NameNode's state because ZooKeeper is unreachable. A working NameNode keeps its
  state.
- Changes of the NameNode's state do not overlap. Each change holds the `_changing` lock. The `_deciding` lock
  serialises decisions about the election. Callbacks of the election never acquire `_deciding`, because `Election.quit`
  may wait for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from failover.active_node_info import ActiveNodeInfo
from failover.breadcrumb import last_active
from failover.controller_state import SharedState
from failover.electability import BAD_STATE_SECONDS, ElectionStep, ExpectedState, electability
from failover.election import Election
from failover.graceful_failover import GracefulFailover
from failover.health import HealthReport, NameNodeHealth
from failover.last_active_fencing import RESULTS, LastActiveFencing
from failover.settings import FailoverSettings
from failover.transitions import ActivationAttempt, TransitionError, Transitions
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error
from hadoop_rpc.ha_protocol import HAState

_LOG = logging.getLogger(__name__)


class Controller:
    """Controller of one NameNode: implements `ElectionCallbacks` and `ZKFCProtocol`; the health monitor calls
    `health_reported`.

    Args:
        clock: returns monotonic seconds.

    Attributes:
        state: state of the controller; only this class changes it.
    """

    def __init__(self, settings: FailoverSettings, clock: Callable[[], float] = time.monotonic) -> None:
        own = settings.own
        self._settings = settings
        self._own = own
        self._clock = clock
        self._data = ActiveNodeInfo(own.nameservice, own.namenode, own.name, own.port, own.zkfc_port).to_bytes()
        self._transitions = Transitions(settings.transitions, settings.user, clock)
        self._fencing = LastActiveFencing(settings, self._transitions)
        self._election: Election | None = None
        self._deciding = threading.RLock()
        self._changing = threading.Lock()
        self.state = SharedState()
        self.transitions: Counter[tuple[str, str]] = Counter()

    def begin(self, election: Election) -> None:
        """Use `election`, which calls this controller back."""
        self._election = election

    @property
    def fencings(self) -> Counter[tuple[str, str]]:
        """Counts of fencing attempts by method and result."""
        return self._fencing.counts

    def end(self) -> None:
        """Leave the election permanently; the NameNode keeps its state until the next active NameNode fences it."""
        with self._deciding:
            self._block("the controller is stopping")
            if self._election is not None:
                self._election.quit(need_fence=True)
            self.state.change(lambda state: replace(state, joined=False))

    # ---- health --------------------------------------------------------------------------------------------

    def health_reported(self, report: HealthReport) -> None:
        """Handle a report; the health monitor's thread calls this."""
        before = self.state.change(lambda state: replace(state, report=report)).report
        if report.health is not before.health:
            level = logging.INFO if report.health is NameNodeHealth.HEALTHY else logging.WARNING
            why = f": {report.reason}" if report.reason else ""
            _LOG.log(level, "%s is %s%s", self._own, report.health.value, why)
        if report.status is not None:
            self._compare(report.status.state)
        if self.state.now.predecessor and (holder := self._holder()) is not None and not self._is_ours(holder):
            # The election does not report that the lock has passed from one foreign session to another.
            self.become_standby()
        self._decide()

    def _compare(self, reported: HAState) -> None:
        """Check that the reported state is the state that the controller requested."""
        with self._deciding:
            observer = reported is HAState.OBSERVER
            before = self.state.change(lambda state: state if state.changing else state.compared(reported))
            if before.changing:
                return
            if before.observer != observer:
                _LOG.info("%s is %s an observer", self._own, "now" if observer else "no longer")
            if before.expected.compared(reported).disappointed:
                wanted = before.expected.state
                reason = f"it is {reported.name.lower()}, not {wanted.name.lower()}: another program changed its state"
                _LOG.warning("%s leaves the election for a short time: %s", self._own, reason)
                self._stay_out(BAD_STATE_SECONDS, reason)
                self._leave(need_fence=True)

    def _decide(self) -> None:
        """Join or leave the election, depending on the NameNode's health."""
        with self._deciding:
            now = self.state.now
            out = now.why_out(self._clock())
            decision = electability(now.report, out=out, observer=now.observer, changing=now.changing)
            text = f"{decision.step.value}: {decision.reason}"
            if text != now.decision:
                self.state.change(lambda state: replace(state, decision=text))
                _LOG.info("%s %s", self._own, text)
            if decision.step is ElectionStep.JOIN and not now.joined:
                assert self._election is not None
                self._election.join(self._data)
                self.state.change(lambda state: replace(state, joined=True))
            elif decision.step in (ElectionStep.QUIT, ElectionStep.QUIT_TO_BE_FENCED) and now.joined:
                self._leave(need_fence=decision.step is ElectionStep.QUIT_TO_BE_FENCED)

    def _leave(self, *, need_fence: bool) -> None:
        """Leave the election; the caller holds `_deciding`."""
        assert self._election is not None
        self.state.change(lambda state: replace(state, joined=False))
        self._election.quit(need_fence=need_fence)
        self._expect(HAState.INITIALIZING)

    def _stay_out(self, seconds: float, reason: str) -> None:
        until = self._clock() + seconds
        self.state.change(lambda state: replace(state, out_until=until, out_reason=reason))

    def _block(self, reason: str) -> None:
        self.state.change(lambda state: replace(state, blocked=reason))

    # ---- callbacks of the election -------------------------------------------------------------------------

    def become_active(self) -> None:
        """Make the NameNode active.

        Raises:
            HdfsError: the NameNode did not become active.
        """
        self.state.change(lambda state: replace(state, fatal="", predecessor=False))
        try:
            with self._change():
                stop = self._why_not_active(started=False)
                if stop:
                    raise TransitionError(f"{self._own} is not made active: {stop}")
                _LOG.info("%s has the lock and is made active", self._own)
                self._transitions.to_active(self._own, lambda: self._why_not_active(started=True))
                self._expect(HAState.ACTIVE)
        except Exception as fault:
            self._record_attempt(fault)
            raise
        _LOG.info("%s is active", self._own)
        self._record_attempt(None)

    def _why_not_active(self, *, started: bool) -> str:
        """Return the reason why the NameNode must not become active; "" if it may become active.

        Once the transition has `started`, a NameNode that does not answer health checks may still become active.
        """
        now = self.state.now
        if out := now.why_out(self._clock()):
            return out
        bad = (NameNodeHealth.UNHEALTHY,) if started else (NameNodeHealth.UNHEALTHY, NameNodeHealth.NOT_RESPONDING)
        if now.report.health in bad:
            return f"it is {now.report.health.value}: {now.report.reason}"
        if not started:
            return ""
        # The election's state may be outdated, and a later owner of the lock may have fenced the NameNode.
        assert self._election is not None
        try:
            data = self._election.active_data()
        except HdfsError as fault:
            return f"the lock cannot be read: {fault.message}"
        if data is None:
            return "the lock no longer exists"
        return "" if self._is_ours(data) else "another node has the lock"

    def _is_ours(self, data: bytes) -> bool:
        """Return whether a lock's data names this NameNode, in our notation or in another controller's."""
        if data == self._data:
            return True
        try:
            return last_active(data, self._settings).ours
        except HdfsError:
            return False

    def _holder(self) -> bytes | None:
        """Return the lock's data; None if there is no lock, or it cannot be read."""
        assert self._election is not None
        try:
            return self._election.active_data()
        except HdfsError as fault:
            _LOG.warning("the lock cannot be read: %s", fault.message)
            return None

    def become_standby(self) -> None:
        """Make the NameNode a standby. After a failure, the controller repeats the request once the NameNode answers.

        If an earlier controller of this NameNode owns the lock, the NameNode keeps its state, because no other NameNode
        is active.
        """
        self.state.change(lambda state: replace(state, fatal=""))
        with self._change():
            holder = self._holder()
            predecessor = holder is not None and self._is_ours(holder)
            self.state.change(lambda state: replace(state, predecessor=predecessor))
            if predecessor:
                _LOG.info("an earlier controller of %s owns the lock; the NameNode keeps its state", self._own)
                return
            self._expect(HAState.STANDBY)
            try:
                state = self._transitions.to_standby(self._own)
            except HdfsError as fault:
                self.transitions["standby", "failed"] += 1
                _LOG.error("%s; the request is repeated if the NameNode does not become a standby", fault.message)
                return
        if state is HAState.OBSERVER:
            _LOG.info("%s is an observer, and remains an observer", self._own)
            return
        self.transitions["standby", "done"] += 1
        _LOG.info("%s is a standby, because another NameNode has the lock", self._own)

    def enter_neutral(self) -> None:
        """Log that the owner of the lock is unknown; the NameNode keeps its state."""
        _LOG.warning("the owner of the lock is not known; %s keeps its state", self._own)

    def fatal(self, reason: str) -> None:
        """Record that the election failed; the election retries automatically."""
        self.state.change(lambda state: replace(state, fatal=reason))
        _LOG.error("automatic failover is not possible now: %s", reason)

    def fence_old_active(self, breadcrumb: bytes) -> None:
        """Ensure that the NameNode in the breadcrumb is not active.

        Raises:
            HdfsError: the NameNode may still be active.
        """
        try:
            self._fencing.fence_last_active(breadcrumb)
        except Exception as fault:
            self._record_attempt(fault)
            raise

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changing:
            self.state.change(lambda state: replace(state, changing=True))
            try:
                yield
            finally:
                self.state.change(lambda state: replace(state, changing=False))

    def _expect(self, state: HAState) -> None:
        self.state.change(lambda now: replace(now, expected=ExpectedState(state)))

    def _record_attempt(self, fault: Exception | None) -> None:
        """Record the result of an attempt to become active."""
        known = None if fault is None else as_hdfs_error(fault)
        problem = "" if fault is None else known.message if known is not None else f"{type(fault).__name__}: {fault}"
        self.transitions["active", RESULTS[bool(problem)]] += 1
        at = self._clock()
        before = self.state.change(
            lambda state: replace(state, attempt=ActivationAttempt(state.attempt.number + 1, at, problem))
        )
        # Log the problem at ERROR only if it differs from the previous attempt's problem.
        known_already = before.attempt.problem == problem
        if fault is not None:
            hint = f" {known.hint}" if known is not None and known.hint else ""
            _LOG.log(logging.DEBUG if known_already else logging.ERROR, "%s%s", problem, hint)

    # ---- requests from other controllers and operators -----------------------------------------------------

    def cede_active(self, milliseconds: int) -> None:
        """Make the NameNode a standby, release the lock, and stay out of the election for `milliseconds`; with 0 or
        less, rejoin the election.
        """
        if milliseconds <= 0:
            self._rejoin()
            _LOG.info("%s may take part in the election again", self._own)
            return
        seconds = milliseconds / 1000
        reason = f"it was asked to cede for {seconds:g} s"
        with self._deciding:
            _LOG.info("%s stays out of the election: %s", self._own, reason)
            # A transition to active must not begin before the lock is released, however long the release takes.
            blocked = self.state.change(lambda state: replace(state, decision="", blocked=reason)).blocked
            try:
                self._leave(need_fence=not self._made_standby())
            finally:
                self._stay_out(seconds, reason)
                self._block(blocked)
        self._decide()

    def _rejoin(self) -> None:
        """Wait for a running `cede_active` to end, then end the pause outside the election."""
        with self._deciding:
            self._stay_out(0.0, "")
            self._decide()

    def _made_standby(self) -> bool:
        """Make the NameNode a standby; return whether it is certain that the NameNode is not active."""
        if self.state.now.observer:
            return True
        if not self._changing.acquire(timeout=self._settings.transitions.graceful_timeout):
            _LOG.warning("%s is still changing its state; the next active NameNode will fence it", self._own)
            return False
        try:
            self._transitions.to_standby(self._own)
        except HdfsError as fault:
            _LOG.warning("%s; the next active NameNode will fence it", fault.message)
            return False
        finally:
            self._changing.release()
        return True

    def graceful_failover(self) -> None:
        """Make the NameNode active instead of the current active NameNode, which cedes.

        Raises:
            ServiceFailedError: the NameNode did not become active.
        """
        assert self._election is not None
        GracefulFailover(self._settings, self._data, self.state, self._rejoin).run(self._election)

    # ---- state ---------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        now, fencing = self.state.now, self._fencing.last
        status, attempt = now.report.status, now.attempt
        return {
            "nameservice": self._own.nameservice,
            "namenode": self._own.namenode,
            "address": self._own.address,
            "health": now.report.health.name.lower(),
            "healthReason": now.report.reason,
            "state": None if status is None else status.state.name.lower(),
            "expected": now.expected.state.name.lower(),
            "takesPart": now.joined,
            "decision": now.decision,
            "outSeconds": max(0.0, now.out_until - self._clock()),
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
            "fatal": now.fatal,
        }

    @property
    def data(self) -> bytes:
        """Data of our lock and breadcrumb."""
        return self._data
