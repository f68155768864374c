"""Fail-stop: the first fault after which namespace and edit log may differ ends all service, with its reason."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE, HdfsError

_LOG = logging.getLogger(__name__)
_HINT = "Repair what failed, then start the NameNode again: every acknowledged operation is in the edit log."


class NotServingError(HdfsError):
    """The NameNode has failed and serves neither changes nor reads; nothing is acknowledged any more."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class ShuttingDownError(NotServingError):
    """The NameNode ends, and takes no more changes; nothing is wrong."""

    def __init__(self) -> None:
        super().__init__(
            "this NameNode is shutting down and takes no more changes",
            hint="Ask the other NameNode, or this one again when it has been restarted.",
        )


class NotActiveError(NotServingError):
    """The NameNode is a standby, or becomes one; nothing is wrong."""

    def __init__(self) -> None:
        super().__init__(
            "this NameNode is a standby and serves neither changes nor reads",
            hint="Ask the active NameNode; `namenode-stub transition active` lets this one take over.",
        )


class FailStop:
    """A switch that trips once and stays tripped; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._hint = _HINT

    @property
    def reason(self) -> str:
        """Why it tripped, "" while all is well."""
        with self._lock:
            return self._reason

    def trip(self, reason: str, hint: str = _HINT) -> NotServingError:
        """Stop all service; returns the error to raise, which tells the first reason and what to do about it."""
        with self._lock:
            if not self._reason:
                self._reason, self._hint = reason, hint
                _LOG.critical("the NameNode serves no more: %s", reason)
            return self._error()

    def check(self) -> None:
        """Go on only while all is well.

        Raises:
            NotServingError: it tripped.
        """
        with self._lock:
            if self._reason:
                raise self._error()

    def _error(self) -> NotServingError:
        return NotServingError(f"this NameNode has stopped: {self._reason}", hint=self._hint)
