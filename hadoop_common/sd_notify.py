"""Notifications to systemd (sd_notify(3)): one datagram of KEY=VALUE lines to systemd's socket."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping

_LOG = logging.getLogger(__name__)
_ABSTRACT = "@"


class Notifier:
    """Thread-safe sender of a service's state.

    A failed notification does not stop the service. The sender logs each failure, but only the first failure of a
    series as a warning. All methods return whether the notification was sent.

    Args:
        address: value of NOTIFY_SOCKET, a path or `@name` in the abstract namespace; "" disables notifications.
        monotonic_usec: CLOCK_MONOTONIC in microseconds, which systemd requires with RELOADING=1.
    """

    def __init__(
        self, address: str, *, monotonic_usec: Callable[[], int] = lambda: time.monotonic_ns() // 1000
    ) -> None:
        self._address = address
        self._monotonic_usec = monotonic_usec
        self._failing = False

    @property
    def enabled(self) -> bool:
        return bool(self._address)

    def ready(self, status: str = "") -> bool:
        """Report that the service is up, also after a reload."""
        return self._send({"READY": "1"} | _status(status))

    def reloading(self, status: str = "") -> bool:
        """Report that settings are being reloaded; `ready` must follow."""
        return self._send({"RELOADING": "1", "MONOTONIC_USEC": str(self._monotonic_usec())} | _status(status))

    def stopping(self, status: str = "") -> bool:
        """Report that the service is shutting down."""
        return self._send({"STOPPING": "1"} | _status(status))

    def status(self, text: str) -> bool:
        """Set the line that `systemctl status` shows."""
        return self._send({"STATUS": _line(text)})

    def watchdog(self) -> bool:
        """Report that the service is alive; required at least once per WatchdogSec."""
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
    """Return the seconds between two `watchdog` calls of process `pid`: half of WATCHDOG_USEC (sd_watchdog_enabled(3)).

    Return None if no watchdog is configured, or if the watchdog is for another process.
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
    """Join lines, since a line break would begin another variable."""
    return " ".join(text.split())
