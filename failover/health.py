"""How the NameNode is (HealthMonitor): a decision over what it answered, and a thread that asks.

A NameNode is not known at first, then healthy, unhealthy or not responding; any may follow any. It is unhealthy only
where it says so itself. Every other fault is silence: what cannot be asked cannot be relied on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from failover.settings import HealthSettings
from failover.target import Target
from hadoop_common.file_faults import explained, network_reason
from hadoop_rpc.errors import HealthCheckFailedError
from hadoop_rpc.ha_protocol import HAServiceClient, ServiceStatus
from hadoop_rpc.retry import RetryPolicy
from hadoop_rpc.spnego import Spnego
from servlets.bounded_answer import ask

_LOG = logging.getLogger(__name__)

_CONNECT_SECONDS = 20.0


class Health(Enum):
    """State of a NameNode as its controller sees it."""

    INITIALIZING = "not known yet"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    NOT_RESPONDING = "not responding"


@dataclass(frozen=True, slots=True)
class Report:
    """What one round of questions gave; `reason` says why it is not healthy, `status` is what it says of its state."""

    health: Health = Health.INITIALIZING
    reason: str = ""
    status: ServiceStatus | None = None


def judge(status: ServiceStatus | None, fault: Exception | None) -> Report:
    """What follows from the answers: those of getServiceStatus, and the fault of it or of monitorHealth."""
    if fault is None:
        return Report(Health.HEALTHY, "", status)
    known = explained(fault)
    if isinstance(fault, HealthCheckFailedError):
        return Report(Health.UNHEALTHY, fault.text, status)
    return Report(Health.NOT_RESPONDING, known.message if known is not None else f"{type(fault).__name__}: {fault}")


def pause_after(health: Health, before: Health, settings: HealthSettings) -> float:
    """Seconds to the next question."""
    if health is not Health.NOT_RESPONDING:
        return settings.check_interval
    never_reached = before in (Health.INITIALIZING, Health.NOT_RESPONDING)
    return settings.connect_retry_interval if never_reached else settings.sleep_after_disconnect


class HealthMonitor:
    """Asks in a thread of its own.

    Args:
        heard: told of every round, in that thread; what it raises ends nothing.
    """

    def __init__(self, target: Target, settings: HealthSettings, user: str, heard: Callable[[Report], None]) -> None:
        self._target = target
        self._settings = settings
        self._user = user
        self._heard = heard
        self._client: HAServiceClient | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; a question that waits for its answer is given up."""
        self._stopping.set()
        self._close()
        if self._thread.is_alive():
            self._thread.join(self._settings.check_interval)

    def _run(self) -> None:
        before = Health.INITIALIZING
        while not self._stopping.is_set():
            report = self._ask()
            if self._stopping.is_set():
                return
            try:
                self._heard(report)
            except Exception:
                # Without this thread nobody would look after the NameNode, and nobody would say so.
                _LOG.exception("a fault of the controller itself; the NameNode's health is asked for again")
            if report.health not in (Health.HEALTHY, before):
                self._fetch_stacks()
            self._stopping.wait(pause_after(report.health, before, self._settings))
            before = report.health

    def _ask(self) -> Report:
        status: ServiceStatus | None = None
        try:
            client = self._connected()
            status = client.service_status()
            client.monitor_health()
        except Exception as fault:
            report = judge(status, fault)
            if explained(fault) is None:
                _LOG.exception("the health of %s cannot be asked for", self._target)
            if report.health is Health.NOT_RESPONDING:
                self._close()
            return report
        return judge(status, None)

    def _connected(self) -> HAServiceClient:
        if self._client is None:
            timeout = self._settings.rpc_timeout
            self._client = HAServiceClient(
                *self._target.health,
                user=self._user,
                timeout=timeout,
                connect_timeout=min(_CONNECT_SECONDS, timeout),
                retry=RetryPolicy(attempts=1 + self._settings.connect_retries),
            )
        return self._client

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _fetch_stacks(self) -> None:
        """In a thread of its own: a NameNode that hangs lets it wait, and may be well again before."""
        try:
            threading.Thread(target=self._log_stacks, name="stacks", daemon=True).start()
        except RuntimeError as fault:
            _LOG.warning("the stacks of %s cannot be had: %s", self._target, fault)

    def _log_stacks(self) -> None:
        """What the NameNode's threads do, for whoever looks for the cause (DFSZKFailoverController)."""
        if not self._settings.stacks_timeout or not self._target.web:
            return
        url = f"{self._target.web}/stacks"
        try:
            spnego = Spnego(urlsplit(url).hostname or "")
            answer = ask("GET", spnego.named(url), headers=spnego.headers, timeout=self._settings.stacks_timeout)
        except Exception as fault:
            _LOG.warning("the stacks of %s cannot be had: %s", self._target, network_reason(fault))
            return
        _LOG.warning("the stacks of %s:\n%s", self._target, answer.text)
