"""Holds or watches the lock beside a daemon's work: a thread that asks, and state for whoever wants to begin."""

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
from hadoop_common.file_faults import explained
from servlets.node_state import LeaderState
from site_config.leadership import LeaderSettings

_LOG = logging.getLogger(__name__)

# so many times in a session timeout the lock is asked for
_REQUESTS_PER_TIMEOUT = 5
_MAX_PAUSE_SECONDS = 2.0
# A leader that is alive and makes no checkpoint is waited for so much of a period beyond it.
_PATIENCE_PERIODS = 0.5


class Leadership:
    """Whether this daemon leads; for any thread. Without a lock it always does.

    Args:
        me: written into the lock.
        backend: None where every daemon is for itself.
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
        self._told: tuple[LeadershipStatus, Leader | None] | None = None
        self._taken: Callable[[], None] = lambda: None
        self._asked = threading.Condition()
        self._stopping = threading.Event()
        # the number of the question that waits for its answer, 0 where none does, and what it was at the last look
        self._question = self._seen = self._questions = 0
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._watch = threading.Thread(target=self._look_on, name="leadership-watch", daemon=True)

    @classmethod
    def of(cls, settings: LeaderSettings, role: str, address: str) -> Leadership:
        """By the settings of a daemon that serves HTTP at `address`."""
        me = Leader(host=socket.gethostname(), pid=os.getpid(), role=role, address=address, since=time.time())
        return cls(settings, me, backend=open_lock_backend(settings))

    @classmethod
    def alone(cls) -> Leadership:
        """That of a daemon that is for itself."""
        return cls(LeaderSettings(), Leader(host="", pid=0, role="", address="", since=0.0))

    @property
    def shared(self) -> bool:
        """Whether there is a lock."""
        return self._backend is not None

    def start(self, taken: Callable[[], None] = lambda: None) -> None:
        """Begin to ask for the lock; the first answer is waited for no longer than a session's timeout.

        `taken` is called from the thread that asks, each time the lock has come to this daemon.
        """
        if self._backend is None:
            return
        self._taken = taken
        self._thread.start()
        self._watch.start()
        with self._asked:
            self._asked.wait_for(lambda: self._told is not None, self._settings.session_timeout)

    def stop(self) -> None:
        """Give the lock up, for another daemon to take it at once."""
        if self._backend is None:
            return
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.session_timeout)
        self._backend.close()

    # ---- what follows from it ------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether the lock is known to be this daemon's; never where there is none."""
        return self._state.status(self._clock()) is LeadershipStatus.LEADING

    def held_back(
        self, image_age: float | None, period: float, check_period: float, others: Callable[[], bool] = lambda: False
    ) -> str:
        """Why no checkpoint is to begin, "" where one may.

        Args:
            image_age: of the newest image, seconds; so are the periods.
            others: whether a NameNode has got an image of another daemon since the lock was last known to be ours;
                asked only where its backend is away.
        """
        if self._backend is None:
            return ""
        state, now, settings = self._state, self._clock(), self._settings
        patience = (1 + _PATIENCE_PERIODS) * period + settings.session_timeout + check_period
        # Whoever has just begun to lead has not been late yet, however old the image is.
        late = image_age is not None and min(image_age, now - state.theirs_since) > patience
        cut_off = state.mine and state.status(now) is LeadershipStatus.AWAY and others()
        return held_back(state, now, required=settings.required, late=late, others=cut_off)

    def lease_basis(self) -> LeaseBasis | None:
        """By what right a checkpoint begins now; None where there is no lock."""
        state = self._state
        return None if self._backend is None else LeaseBasis(state.status(self._clock()), state.terms)

    def must_abort(self, basis: LeaseBasis | None, *, sending: bool = False) -> bool:
        """Whether a checkpoint that began by `basis` has to end, or its image is not to be sent on."""
        if basis is None:
            return False
        required = self._settings.required
        return must_abort(self._state, self._clock(), basis, required=required, sending=sending)

    def await_certainty(self, basis: LeaseBasis | None, cancelled: Callable[[], bool]) -> None:
        """Before an image is sent: wait until it is known whether the lock is still ours, or that this cannot be known.

        `must_abort` tells then; so does `cancelled`, which ends the wait.
        """
        if basis is None or basis.claim is LeadershipStatus.FOLLOWING:
            return
        with self._asked:
            while not cancelled() and self._state.status(self._clock()) is LeadershipStatus.UNCERTAIN:
                self._asked.wait(self._pause())

    def state(self) -> LeaderState | None:
        """For status and metrics; None where there is no lock."""
        if self._backend is None:
            return None
        state = self._state
        claim = state.status(self._clock())
        return LeaderState(
            lock=self._settings.lock,
            claim=claim.value,
            leader=str(self._me if claim is LeadershipStatus.LEADING else state.leader or ""),
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

    def _look_on(self) -> None:
        while not self._stopping.wait(self._pause()):
            self.check_backend()

    def ask(self) -> None:
        """Ask for the lock once, and tell in the log what has changed."""
        assert self._backend is not None
        asked_at = self._clock()
        with self._asked:
            self._questions += 1
            self._question = self._questions
        try:
            held, leader = self._backend.ask(self._me)
        except Exception as fault:
            known = explained(fault)
            if known is None:
                _LOG.exception("the lock of the leader cannot be asked for")
                known = HdfsError(f"{type(fault).__name__}: {fault}")
            # Since now, as this process may have slept; one that hung is known to be silent since `look`.
            state = self._state.silent(self._clock(), known.message)
        else:
            ours = held is not LockOutcome.HELD_BY_OTHER
            before = replace(self._state, timeout=min(self._settings.session_timeout, self._backend.holds))
            state = (
                before.ours(asked_at, taken=held is LockOutcome.ACQUIRED) if ours else before.theirs(asked_at, leader)
            )
        with self._asked:
            self._question = 0
            taken = state.terms != self._state.terms
            self._hear(state)
        if taken:
            self._taken()

    def check_backend(self) -> None:
        """Look whether a question still waits that waited at the last look: its backend hangs, and is silent from now.

        From now, as this process may have slept between the two looks.
        """
        with self._asked:
            if self._question and self._question == self._seen:
                self._hear(self._state.silent(self._clock(), "it does not answer"))
            self._seen = self._question

    def _hear(self, state: LeadershipState) -> None:
        """For whoever has `_asked`."""
        self._state = state
        self._tell(state)
        self._asked.notify_all()

    def _tell(self, state: LeadershipState) -> None:
        now = state.status(self._clock()), state.leader
        if now == self._told:
            return
        self._told = now
        match now[0]:
            case LeadershipStatus.LEADING:
                _LOG.info("this checkpointer leads (%s)", self._settings.lock)
            case LeadershipStatus.FOLLOWING:
                leader = state.leader or "another one"
                _LOG.info("this checkpointer stands by, %s leads (%s)", leader, self._settings.lock)
            case LeadershipStatus.UNCERTAIN:
                _LOG.warning("who leads is not known now: %s", state.problem or "nobody has answered yet")
            case LeadershipStatus.AWAY:
                goes_on = "no checkpoint is made" if self._settings.required else "checkpoints are made all the same"
                _LOG.warning("the lock cannot be had, %s: %s", goes_on, state.problem)
