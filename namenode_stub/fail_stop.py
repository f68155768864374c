"""Fail-stop: the first fault after which namespace and edit log may differ ends all service, with its reason."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE, HdfsError

__all__ = ["FailStop", "NotServingError"]

_LOG = logging.getLogger(__name__)
_HINT = "Repair what failed, then start the NameNode again: every acknowledged operation is in the edit log."


class NotServingError(HdfsError):
    """The NameNode has failed and serves neither changes nor reads; nothing is acknowledged any more."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class FailStop:
    """A switch that trips once and stays tripped; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""

    @property
    def reason(self) -> str:
        """Why it tripped, "" while all is well."""
        with self._lock:
            return self._reason

    def trip(self, reason: str) -> NotServingError:
        """Stop all service; returns the error to raise, which tells the first reason."""
        with self._lock:
            if not self._reason:
                self._reason = reason
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
        return NotServingError(f"this NameNode has stopped: {self._reason}", hint=_HINT)
