"""Fail-stop: the first fault after which the namespace and the edit log may differ ends all service."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

_LOG = logging.getLogger(__name__)
_HINT = "Repair what failed, then start the NameNode again: every acknowledged operation is in the edit log."


class NotServingError(HdfsError):
    """Refusal by a NameNode that has failed: it serves neither changes nor reads, and acknowledges nothing."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class ShuttingDownError(NotServingError):
    """Refusal by a NameNode that is shutting down normally and accepts no more changes."""

    def __init__(self) -> None:
        super().__init__(
            "this NameNode is shutting down and accepts no more changes",
            hint="Use the other NameNode, or this NameNode after it has restarted.",
        )


class StandbyRefusalError(NotServingError):
    """Refusal by a NameNode that is a standby or is becoming a standby; such a refusal is not a fault."""

    def __init__(self) -> None:
        super().__init__(
            "this NameNode is a standby and serves neither changes nor reads",
            hint="Use the active NameNode; `namenode-stub transition active` makes this NameNode active.",
        )


class FailStop:
    """A thread-safe switch that trips once and remains tripped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._hint = _HINT

    @property
    def reason(self) -> str:
        """Reason why the switch tripped; "" if it has not tripped."""
        with self._lock:
            return self._reason

    def trip(self, reason: str, hint: str = _HINT) -> NotServingError:
        """Stop all service; return the error to raise, with the first reason and its hint."""
        with self._lock:
            if not self._reason:
                self._reason, self._hint = reason, hint
                _LOG.critical("the NameNode has stopped serving: %s", reason)
            return self._error()

    def check(self) -> None:
        """Check that the service has not stopped.

        Raises:
            NotServingError: the switch tripped.
        """
        with self._lock:
            if self._reason:
                raise self._error()

    def _error(self) -> NotServingError:
        return NotServingError(f"this NameNode has stopped: {self._reason}", hint=self._hint)
