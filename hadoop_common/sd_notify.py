"""Tells systemd how a service is (sd_notify(3)): one datagram of KEY=VALUE lines to the socket it names."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping

_LOG = logging.getLogger(__name__)
_ABSTRACT = "@"


class Notifier:
    """Sends a service's state; may be used by several threads.

    A service that cannot tell its state works on: a failed datagram is logged, the first of a row as a warning.

    Args:
        address: what NOTIFY_SOCKET holds, a path or `@name` of the abstract namespace; "" makes every call do nothing.
        monotonic_usec: CLOCK_MONOTONIC in microseconds, which systemd wants with RELOADING=1.
    """

    def __init__(
        self, address: str, *, monotonic_usec: Callable[[], int] = lambda: time.monotonic_ns() // 1000
    ) -> None:
        self._address = address
        self._monotonic_usec = monotonic_usec
        self._failing = False

    @property
    def enabled(self) -> bool:
        """Whether anybody listens."""
        return bool(self._address)

    def ready(self, status: str = "") -> bool:
        """The service is up, or up again after a reload. Returns whether it was told, as all of these do."""
        return self._send({"READY": "1"} | _status(status))

    def reloading(self, status: str = "") -> bool:
        """Settings are read again; `ready` has to follow."""
        return self._send({"RELOADING": "1", "MONOTONIC_USEC": str(self._monotonic_usec())} | _status(status))

    def stopping(self, status: str = "") -> bool:
        """The service is on its way down."""
        return self._send({"STOPPING": "1"} | _status(status))

    def status(self, text: str) -> bool:
        """One line for `systemctl status`."""
        return self._send({"STATUS": _line(text)})

    def watchdog(self) -> bool:
        """The service is alive; to be sent within each WatchdogSec."""
        return self._send({"WATCHDOG": "1"})

    def _send(self, values: Mapping[str, str]) -> bool:
        if not self._address:
            return False
        message = "".join(f"{key}={value}\n" for key, value in values.items()).encode("utf-8", "backslashreplace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.sendto(message, _socket_name(self._address))
        except (OSError, ValueError) as fault:
            _LOG.log(
                logging.DEBUG if self._failing else logging.WARNING,
                "systemd could not be notified of %s: %s: %s",
                ", ".join(values),
                self._address,
                fault,
            )
            self._failing = True
            return False
        self._failing = False
        return True


def watchdog_interval(environment: Mapping[str, str], pid: int) -> float | None:
    """Seconds between two `watchdog` calls of process `pid`: half of WATCHDOG_USEC (sd_watchdog_enabled(3)).

    None where no watchdog is asked for, or where it is for another process.
    """
    microseconds = environment.get("WATCHDOG_USEC", "")
    owner = environment.get("WATCHDOG_PID", "")
    if not (microseconds.isascii() and microseconds.isdigit()) or int(microseconds) == 0:
        return None
    if owner and owner != str(pid):
        return None
    return int(microseconds) / 2_000_000


def _socket_name(address: str) -> str:
    if address.startswith(_ABSTRACT):
        return "\0" + address.removeprefix(_ABSTRACT)
    if not address.startswith("/"):
        raise ValueError("NOTIFY_SOCKET is neither a path nor an abstract name; other sockets are not supported")
    return address


def _status(text: str) -> dict[str, str]:
    return {"STATUS": _line(text)} if text else {}


def _line(text: str) -> str:
    """A line break would begin another variable."""
    return " ".join(text.split())
