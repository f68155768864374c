"""Monitors the health of the NameNode (HealthMonitor): a thread queries the NameNode and evaluates its responses.

The health is initially unknown, and then healthy, unhealthy or not responding, in any order. Only the NameNode itself
can report that it is unhealthy. Every other fault counts as not responding, because a NameNode that does not answer is
not reliable.
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
from hadoop_common.cluster_http import send_request
from hadoop_common.file_faults import as_hdfs_error, network_reason
from hadoop_rpc.client import RetryPolicy
from hadoop_rpc.errors import HealthCheckFailedError
from hadoop_rpc.ha_protocol import HAServiceClient, ServiceStatus
from hadoop_rpc.spnego import Spnego

_LOG = logging.getLogger(__name__)

_CONNECT_SECONDS = 20.0


class NameNodeHealth(Enum):
    """Health of a NameNode, as its controller judges it."""

    INITIALIZING = "not known yet"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    NOT_RESPONDING = "not responding"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The result of one health check; `reason` explains bad health, and `status` is the reported HA status."""

    health: NameNodeHealth = NameNodeHealth.INITIALIZING
    reason: str = ""
    status: ServiceStatus | None = None


def judge(status: ServiceStatus | None, fault: Exception | None) -> HealthReport:
    """Evaluate the response to getServiceStatus, and the fault of this call or of monitorHealth."""
    if fault is None:
        return HealthReport(NameNodeHealth.HEALTHY, "", status)
    known = as_hdfs_error(fault)
    if isinstance(fault, HealthCheckFailedError):
        return HealthReport(NameNodeHealth.UNHEALTHY, fault.text, status)
    return HealthReport(
        NameNodeHealth.NOT_RESPONDING, known.message if known is not None else f"{type(fault).__name__}: {fault}"
    )


def pause_after(health: NameNodeHealth, before: NameNodeHealth, settings: HealthSettings) -> float:
    """Return the seconds until the next check."""
    if health is not NameNodeHealth.NOT_RESPONDING:
        return settings.check_interval
    never_reached = before in (NameNodeHealth.INITIALIZING, NameNodeHealth.NOT_RESPONDING)
    return settings.connect_retry_interval if never_reached else settings.sleep_after_disconnect


class HealthMonitor:
    """A thread that checks the health of `target`.

    Args:
        listener: receives every report in this thread; its exceptions do not end the thread.
    """

    def __init__(
        self, target: Target, settings: HealthSettings, user: str, listener: Callable[[HealthReport], None]
    ) -> None:
        self._target = target
        self._settings = settings
        self._user = user
        self._listener = listener
        self._client: HAServiceClient | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and abandon a pending call."""
        self._stopping.set()
        self._close()
        if self._thread.is_alive():
            self._thread.join(self._settings.check_interval)

    def _run(self) -> None:
        before = NameNodeHealth.INITIALIZING
        while not self._stopping.is_set():
            report = self._ask()
            if self._stopping.is_set():
                return
            try:
                self._listener(report)
            except Exception:
                # The thread must survive, because it is the only thread that monitors the NameNode's health.
                _LOG.exception("a fault of the controller itself; the health checks continue")
            if report.health not in (NameNodeHealth.HEALTHY, before):
                self._fetch_stacks()
            self._stopping.wait(pause_after(report.health, before, self._settings))
            before = report.health

    def _ask(self) -> HealthReport:
        status: ServiceStatus | None = None
        try:
            client = self._connected()
            status = client.service_status()
            client.monitor_health()
        except Exception as fault:
            report = judge(status, fault)
            if as_hdfs_error(fault) is None:
                _LOG.exception("the health check of %s failed", self._target)
            if report.health is NameNodeHealth.NOT_RESPONDING:
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
        """Fetch the stacks in another thread, because a hanging NameNode may delay its response for a long time."""
        try:
            threading.Thread(target=self._log_stacks, name="stacks", daemon=True).start()
        except RuntimeError as fault:
            _LOG.warning("the thread stacks of %s cannot be fetched: %s", self._target, fault)

    def _log_stacks(self) -> None:
        """Log the stacks of the NameNode's threads, as evidence of the cause (DFSZKFailoverController)."""
        if not self._settings.stacks_timeout or not self._target.web:
            return
        url = f"{self._target.web}/stacks"
        try:
            spnego = Spnego(urlsplit(url).hostname or "")
            answer = send_request(
                "GET", spnego.named(url), headers=spnego.headers, timeout=self._settings.stacks_timeout
            )
        except Exception as fault:
            _LOG.warning("the thread stacks of %s cannot be fetched: %s", self._target, network_reason(fault))
            return
        _LOG.warning("the thread stacks of %s:\n%s", self._target, answer.text)
