"""Leadership of this daemon: one thread requests the lock while the daemon runs, and other threads read the result.

A second thread checks that requests receive responses, so that a hanging backend counts as silent.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from checkpointer.leadership.leadership_state import (
    Leader,
    LeadershipState,
    LeadershipStatus,
    LeaseBasis,
    held_back,
    must_abort,
)
from checkpointer.leadership.lock_backend import LockBackend, LockOutcome, open_lock_backend
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.recurring_fault import Alarm, with_next
from node_state.state import LeaderState
from site_config.leadership import LeaderSettings

_LOG = logging.getLogger(__name__)

# requests for the lock per session timeout
_REQUESTS_PER_TIMEOUT = 5
_MAX_PAUSE_SECONDS = 2.0
# fraction of a period by which a live leader may be late with a checkpoint
_PATIENCE_PERIODS = 0.5
# seconds for which a NameNode caches the metrics in /jmx (MetricsSourceAdapter.jmxCacheTTL)
_JMX_AGE_SECONDS = 10.0


class Leadership:
    """Leadership of this daemon, which any thread may read. If no lock is configured, the daemon always leads.

    Args:
        me: this daemon, as written into the lock.
        backend: stores the lock; None if no lock is configured.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        settings: LeaderSettings,
        me: Leader,
        *,
        backend: LockBackend | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._me = me
        self._backend = backend
        self._clock = clock
        self._state = LeadershipState(timeout=settings.session_timeout)
        self._logged: tuple[LeadershipStatus, Leader | None] | None = None
        self._on_acquired: Callable[[], None] = lambda: None
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        # numbers of the unanswered request (0 for none), of the request at the last check, and of the newest request
        self._request = self._checked = self._requests = 0
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._watch = threading.Thread(target=self._watch_backend, name="leadership-watch", daemon=True)

    @classmethod
    def of(cls, settings: LeaderSettings, role: str, address: str) -> Leadership:
        """Return the leadership of a daemon with the HTTP address `address`."""
        me = Leader(host=socket.gethostname(), pid=os.getpid(), role=role, address=address, since=time.time())
        return cls(settings, me, backend=open_lock_backend(settings))

    @classmethod
    def alone(cls) -> Leadership:
        """Return the leadership of a daemon for which no lock is configured, and which therefore always leads."""
        return cls(LeaderSettings(), Leader(host="", pid=0, role="", address="", since=0.0))

    @property
    def shared(self) -> bool:
        """Whether a lock is configured."""
        return self._backend is not None

    def start(self, on_acquired: Callable[[], None] = lambda: None) -> None:
        """Start to request the lock, and wait at most one session timeout for the first response.

        The requesting thread calls `on_acquired` each time this daemon acquires the lock.
        """
        if self._backend is None:
            return
        self._on_acquired = on_acquired
        self._thread.start()
        self._watch.start()
        with self._changed:
            self._changed.wait_for(lambda: self._logged is not None, self._settings.session_timeout)

    def stop(self) -> None:
        """Release the lock so that another daemon can acquire it immediately."""
        if self._backend is None:
            return
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.session_timeout)
        self._backend.close()

    # ---- decisions -----------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this daemon is known to hold the lock; False if no lock is configured."""
        return self._state.status(self._clock()) is LeadershipStatus.LEADING

    @property
    def follows(self) -> bool:
        """Whether another daemon is known to hold the lock."""
        return self._state.leader is not None and self._state.status(self._clock()) is LeadershipStatus.FOLLOWING

    def held_back(
        self, image_age: float | None, period: float, check_period: float, others: Callable[[], bool] = lambda: False
    ) -> str:
        """Return the reason why no checkpoint may begin, or "" if a checkpoint may begin.

        Args:
            image_age: age of the newest image in seconds; the periods are also in seconds.
            others: whether a NameNode received an image from another daemon since this daemon was last known to be the
                leader; called only while the backend is unavailable.
        """
        if self._backend is None:
            return ""
        state, now, settings = self._state, self._clock(), self._settings
        patience = (1 + _PATIENCE_PERIODS) * period + settings.session_timeout + check_period + _JMX_AGE_SECONDS
        # A daemon that has just become the leader is not late yet, regardless of the image's age.
        late = image_age is not None and min(image_age, now - state.theirs_since) > patience
        cut_off = state.mine and state.status(now) is LeadershipStatus.AWAY and others()
        return held_back(state, now, required=settings.required, late=late, others=cut_off)

    def lease_basis(self) -> LeaseBasis | None:
        """Return the basis of a checkpoint that begins now, or None if no lock is configured."""
        state = self._state
        return None if self._backend is None else LeaseBasis(state.status(self._clock()), state.terms)

    def must_abort(self, basis: LeaseBasis | None, *, sending: bool = False) -> bool:
        """Return whether a checkpoint that began on `basis` must stop.

        With `sending`, return whether the upload of the checkpoint's image must stop.
        """
        if basis is None:
            return False
        required = self._settings.required
        return must_abort(self._state, self._clock(), basis, required=required, sending=sending)

    def await_certainty(self, basis: LeaseBasis | None, cancelled: Callable[[], bool]) -> None:
        """Wait before an upload until the status is certain or the backend is known to be unavailable.

        After the wait, `must_abort` decides. The wait ends early when `cancelled()` becomes true.
        """
        if basis is None or basis.status is LeadershipStatus.FOLLOWING:
            return
        with self._changed:
            while not cancelled() and self._state.status(self._clock()) is LeadershipStatus.UNCERTAIN:
                self._changed.wait(self._pause())

    def state(self) -> LeaderState | None:
        """Return the state for status and metrics, or None if no lock is configured."""
        if self._backend is None:
            return None
        state = self._state
        status = state.status(self._clock())
        return LeaderState(
            lock=self._settings.lock,
            claim=status.value,
            leader=str(self._me if status is LeadershipStatus.LEADING else state.leader or ""),
            problem=state.problem,
            terms=state.terms,
        )

    # ---- the thread ----------------------------------------------------------------------------------------

    def _pause(self) -> float:
        return min(_MAX_PAUSE_SECONDS, self._settings.session_timeout / _REQUESTS_PER_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.ask()
            self._stopping.wait(self._pause())

    def _watch_backend(self) -> None:
        while not self._stopping.wait(self._pause()):
            self.check_backend()

    def ask(self) -> None:
        """Try once to acquire the lock, and log changes."""
        assert self._backend is not None
        asked_at = self._clock()
        with self._changed:
            self._requests += 1
            self._request = self._requests
        try:
            held, leader = self._backend.ask(self._me)
        except Exception as fault:
            known = as_hdfs_error(fault)
            if known is None:
                _LOG.exception("the request for the leadership lock failed")
                known = HdfsError(f"{type(fault).__name__}: {fault}")
            # The silence begins now, because this process may have slept. If the silence is longer, `check_backend` has
            # already recorded its start.
            state = self._state.silent(self._clock(), Alarm(known.message, known.hint))
        else:
            ours = held is not LockOutcome.HELD_BY_OTHER
            before = replace(self._state, timeout=min(self._settings.session_timeout, self._backend.validity))
            state = (
                before.ours(asked_at, taken=held is LockOutcome.ACQUIRED) if ours else before.theirs(asked_at, leader)
            )
        with self._changed:
            self._request = 0
            taken = state.terms != self._state.terms
            self._store(state)
        if taken:
            self._on_acquired()

    def check_backend(self) -> None:
        """Record that the backend is silent if the request that was unanswered at the last check is still unanswered.

        The silence begins now, because this process may have slept between the two checks.
        """
        with self._changed:
            if self._request and self._request == self._checked:
                self._store(self._state.silent(self._clock(), "the lock's backend does not answer"))
            self._checked = self._request

    def _store(self, state: LeadershipState) -> None:
        """Store the state and log its change; the caller holds `_changed`."""
        self._state = state
        self._log_change(state)
        self._changed.notify_all()

    def _log_change(self, state: LeadershipState) -> None:
        now = state.status(self._clock()), state.leader
        if now == self._logged:
            return
        self._logged = now
        match now[0]:
            case LeadershipStatus.LEADING:
                _LOG.info("this checkpointer is the leader (%s)", self._settings.lock)
            case LeadershipStatus.FOLLOWING:
                leader = state.leader or "another daemon"
                _LOG.info("this checkpointer is not the leader; the leader is %s (%s)", leader, self._settings.lock)
            case LeadershipStatus.UNCERTAIN:
                problem = state.problem or "the lock's backend has not answered yet"
                _LOG.warning("%s", with_next(f"the leader is currently unknown: {problem}", _hint(state)))
            case LeadershipStatus.AWAY:
                consequence = "no checkpoint is made" if self._settings.required else "checkpoints continue"
                text = f"the leadership lock cannot be acquired, {consequence}: {state.problem}"
                _LOG.warning("%s", with_next(text, _hint(state)))


def _hint(state: LeadershipState) -> str:
    return getattr(state.problem, "hint", "")
