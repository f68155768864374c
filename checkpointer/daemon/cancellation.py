"""Cancellation of checkpoints by an operator, and shutdown of the daemon."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from node_state.state import CheckpointBlock
from servlets.status import cancelled_sentence

_LOG = logging.getLogger(__name__)


class Cancellation:
    """State of a cancellation: whether the running checkpoint must stop, and why no checkpoint may begin. Any thread
    may call any method.

    Args:
        clock: monotonic seconds.

    Attributes:
        reason: reason for the last cancellation.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stopped = threading.Event()
        self._stopping_checkpoint = False
        self._prevented_until = clock()
        self._end_unlogged = False
        self.reason = ""

    @property
    def stopped(self) -> bool:
        """Whether the daemon is stopping."""
        return self._stopped.is_set()

    @property
    def requested(self) -> bool:
        """Whether a running checkpoint or upload must stop."""
        return self._stopping_checkpoint or self.stopped

    @property
    def state(self) -> CheckpointBlock | None:
        """The cancellation in effect, or None if there is none."""
        left = self._prevented_until - self._clock()
        return CheckpointBlock(reason=self.reason, seconds_left=round(left, 3)) if left > 0 else None

    def stop(self) -> None:
        """Block checkpoints permanently."""
        self._stopped.set()

    def begin(self, reason: str, prevent_for: float) -> None:
        """Request that the running checkpoint stop, and block new checkpoints for `prevent_for` seconds."""
        self._prevented_until, self._end_unlogged = self._clock() + prevent_for, prevent_for > 0
        self.reason = reason
        self._stopping_checkpoint = True

    def complete(self, phase: str, prevent_for: float) -> None:
        """Record that the checkpoint, previously in `phase`, has stopped."""
        self._stopping_checkpoint = False
        if not self.stopped:
            fields = {"phase": phase, "seconds": prevent_for, "reason": self.reason}
            _LOG.info("%s", cancelled_sentence(self.reason, prevent_for), extra=fields)

    def log_end(self) -> None:
        """Log once that a cancellation no longer blocks checkpoints."""
        if self._end_unlogged:
            _LOG.info("checkpoints may begin again after a cancellation: %s", self.reason)
        self._end_unlogged = False
