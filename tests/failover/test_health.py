"""Health of the NameNode: conclusions from its responses, and the thread that queries it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from failover import health as monitoring
from failover.electability import ElectionStep, ExpectedState, electability
from failover.health import HealthMonitor, HealthReport, NameNodeHealth, judge, pause_after
from failover.settings import HealthSettings
from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import (
    AccessControlError,
    HealthCheckFailedError,
    RpcConnectionError,
    RpcTimeoutError,
    StandbyError,
    remote_error,
)
from hadoop_rpc.ha_protocol import HAState, ServiceStatus
from tests.failover.failover_support import HERE, FakeNameNode, namenode, settings
from tests.namenode_stub.stub_support import wait_until
from tests.web_server import QuietHandler, web_server

STATUS = ServiceStatus(HAState.STANDBY, True)
WRAPPED = remote_error("org.apache.hadoop.ha.HealthCheckFailedException", "no room")


@pytest.mark.parametrize(
    ("fault", "health"),
    [
        (None, NameNodeHealth.HEALTHY),
        (HealthCheckFailedError("no room"), NameNodeHealth.UNHEALTHY),
        (WRAPPED, NameNodeHealth.UNHEALTHY),
        (RpcConnectionError("refused"), NameNodeHealth.NOT_RESPONDING),
        (RpcTimeoutError("45 s"), NameNodeHealth.NOT_RESPONDING),
        (StandbyError("no"), NameNodeHealth.NOT_RESPONDING),
        (AccessControlError("no superuser"), NameNodeHealth.NOT_RESPONDING),
        (ZeroDivisionError("a fault of this program"), NameNodeHealth.NOT_RESPONDING),
    ],
)
def test_health_for_each_response(fault: Exception | None, health: NameNodeHealth) -> None:
    found = judge(STATUS, fault)
    assert found.health is health
    assert bool(found.reason) is (health is not NameNodeHealth.HEALTHY)
    assert (found.status is STATUS) is (health is not NameNodeHealth.NOT_RESPONDING)


def test_pause_between_health_checks() -> None:
    times = HealthSettings(check_interval=1, connect_retry_interval=2, sleep_after_disconnect=3)
    assert pause_after(NameNodeHealth.HEALTHY, NameNodeHealth.INITIALIZING, times) == 1
    assert pause_after(NameNodeHealth.UNHEALTHY, NameNodeHealth.HEALTHY, times) == 1
    assert pause_after(NameNodeHealth.NOT_RESPONDING, NameNodeHealth.INITIALIZING, times) == 2
    assert pause_after(NameNodeHealth.NOT_RESPONDING, NameNodeHealth.NOT_RESPONDING, times) == 2
    assert pause_after(NameNodeHealth.NOT_RESPONDING, NameNodeHealth.HEALTHY, times) == 3


@pytest.mark.parametrize(
    ("health", "more", "step"),
    [
        (NameNodeHealth.INITIALIZING, {}, ElectionStep.QUIT),
        (NameNodeHealth.HEALTHY, {}, ElectionStep.JOIN),
        (NameNodeHealth.HEALTHY, {"observer": True}, ElectionStep.QUIT_TO_BE_FENCED),
        (NameNodeHealth.HEALTHY, {"out": "it was asked to"}, ElectionStep.WAIT),
        (NameNodeHealth.HEALTHY, {"changing": True}, ElectionStep.JOIN),
        (NameNodeHealth.UNHEALTHY, {}, ElectionStep.QUIT_TO_BE_FENCED),
        (NameNodeHealth.UNHEALTHY, {"changing": True}, ElectionStep.QUIT_TO_BE_FENCED),
        (NameNodeHealth.UNHEALTHY, {"out": "it was asked to"}, ElectionStep.WAIT),
        (NameNodeHealth.NOT_RESPONDING, {}, ElectionStep.QUIT_TO_BE_FENCED),
        (NameNodeHealth.NOT_RESPONDING, {"changing": True}, ElectionStep.WAIT),
    ],
)
def test_election_step_for_each_health(health: NameNodeHealth, more: dict[str, object], step: ElectionStep) -> None:
    given: dict[str, object] = {"out": "", "observer": False, "changing": False} | more
    found = electability(HealthReport(health, "its disk is full"), **given)  # type: ignore[arg-type]
    assert found.step is step
    assert found.reason


def test_unexpected_state_counts_at_the_second_report() -> None:
    def after(*reported: HAState) -> ExpectedState:
        found = ExpectedState(HAState.ACTIVE)
        for each in reported:
            found = found.compared(each)
        return found

    assert not after(HAState.ACTIVE, HAState.ACTIVE).disappointed
    assert not after(HAState.STANDBY).disappointed
    assert not after(HAState.STANDBY, HAState.ACTIVE, HAState.STANDBY).disappointed
    assert after(HAState.STANDBY, HAState.STANDBY).disappointed
    assert after(HAState.STANDBY, HAState.INITIALIZING).disappointed
    assert after(HAState.OBSERVER, HAState.STANDBY, HAState.STANDBY) == ExpectedState()
    assert ExpectedState().compared(HAState.ACTIVE) == ExpectedState()


class Heard:
    """A collector of a monitor's reports; `until` waits for a report that meets a condition."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._reports: list[HealthReport] = []

    def __call__(self, report: HealthReport) -> None:
        with self._news:
            self._reports.append(report)
            self._news.notify_all()
        if report.reason == "raise":
            raise AssertionError("a fault of the listener")

    def until(self, wanted: Callable[[HealthReport], bool]) -> HealthReport:
        with self._news:
            assert self._news.wait_for(lambda: any(map(wanted, self._reports)), 600), self._reports
            found = next(filter(wanted, self._reports))
            self._reports.clear()
            return found


def test_monitor_reports_each_change_of_health(caplog: pytest.LogCaptureFixture) -> None:
    received, node = Heard(), FakeNameNode()
    given = settings({"nn1": node.port, "nn2": 2})
    monitor = HealthMonitor(given.own, given.health, "hdfs", received)
    monitor.start()
    try:
        assert "refused" in received.until(lambda each: each.health is NameNodeHealth.NOT_RESPONDING).reason
        with namenode(node):
            assert received.until(lambda each: each.health is NameNodeHealth.HEALTHY).status == STATUS
            node.unwell = "raise"
            assert received.until(lambda each: each.health is NameNodeHealth.UNHEALTHY).reason == "raise"
            node.unwell, node.state = "", HAState.ACTIVE
            active = ServiceStatus(HAState.ACTIVE, True)
            received.until(lambda each: each.health is NameNodeHealth.HEALTHY and each.status == active)
        received.until(lambda each: each.health is NameNodeHealth.NOT_RESPONDING)
        with namenode(node):
            received.until(lambda each: each.health is NameNodeHealth.HEALTHY)
    finally:
        monitor.stop()
    assert "a fault of the controller itself" in caplog.text


def test_monitor_continues_if_stacks_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(*_: object, **__: object) -> None:
        raise HdfsError("the store of certificates cannot be read")

    monkeypatch.setattr(monitoring, "send_request", ask)
    with namenode() as node:
        own, received = settings({"nn1": node.port, "nn2": 2}).own, Heard()
        times = HealthSettings(check_interval=0.05)
        monitor = HealthMonitor(replace(own, web=f"http://{HERE}:1"), times, "hdfs", received)
        monitor.start()
        try:
            for unwell in ("no room", "", "no room"):
                node.unwell = unwell
                received.until(lambda each: each.reason == node.unwell)
            wait_until("the line of the thread for the stacks", lambda: "store of certificates" in caplog.text)
            received.until(lambda each: each.reason == node.unwell)
        finally:
            monitor.stop()


@pytest.mark.parametrize("trouble", [NameNodeHealth.UNHEALTHY, NameNodeHealth.NOT_RESPONDING])
def test_stacks_of_an_unhealthy_namenode_are_logged(trouble: NameNodeHealth, caplog: pytest.LogCaptureFixture) -> None:
    """The stacks of a NameNode that does not respond are also logged."""

    class Web(QuietHandler):
        def get(self) -> None:
            self.answer(200 if self.path == "/stacks" else 404, b"Thread 1 waits for its disk")

    with namenode() as node, web_server(Web) as port:
        own = settings({"nn1": node.port, "nn2": 2}).own
        received = Heard()
        times = HealthSettings(check_interval=0.05)
        monitor = HealthMonitor(replace(own, web=f"http://{HERE}:{port}"), times, "hdfs", received)
        monitor.start()
        try:
            received.until(lambda each: each.health is NameNodeHealth.HEALTHY)
            if trouble is NameNodeHealth.UNHEALTHY:
                node.unwell = "no room"
            else:
                node.stop()
            received.until(lambda each: each.health is trouble)
            wait_until("the stacks", lambda: "Thread 1 waits for its disk" in caplog.text)
            received.until(lambda each: each.health is trouble)
        finally:
            monitor.stop()
    assert caplog.text.count("Thread 1 waits for its disk") == 1
