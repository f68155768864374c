"""A graceful failover: the other NameNodes' controllers are asked to cede, and then this NameNode becomes active."""

from __future__ import annotations

import logging
from collections.abc import Callable

from failover.breadcrumb import last_active
from failover.controller_state import ControllerState, SharedState
from failover.election import Election
from failover.health import NameNodeHealth
from failover.settings import FailoverSettings
from failover.target import Target
from hadoop_common.errors import HdfsError
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import RpcError, ServiceFailedError
from hadoop_rpc.zkfc_protocol import ZKFCClient

_LOG = logging.getLogger(__name__)


class GracefulFailover:
    """A graceful failover to the controller's NameNode.

    Args:
        data: content of the lock while this NameNode is active.
        rejoin: ends this NameNode's pause outside the election.
    """

    def __init__(self, settings: FailoverSettings, data: bytes, state: SharedState, rejoin: Callable[[], None]) -> None:
        self._settings = settings
        self._own = settings.own
        self._data = data
        self._state = state
        self._rejoin = rejoin

    def run(self, election: Election) -> None:
        """Make the NameNode active instead of the current active NameNode, which cedes.

        Raises:
            ServiceFailedError: the NameNode did not become active.
        """
        _LOG.info("%s is asked to become active", self._own)
        try:
            self._fail_over(election)
        except HdfsError as fault:
            _LOG.error("%s did not take over: %s", self._own, fault.message)
            raise fault if isinstance(fault, ServiceFailedError) else ServiceFailedError(fault.message) from fault

    def _fail_over(self, election: Election) -> None:
        report = self._state.now.report
        if report.health is not NameNodeHealth.HEALTHY:
            why = f": {report.reason}" if report.reason else ""
            raise ServiceFailedError(f"{self._own} is not currently healthy: it is {report.health.value}{why}")
        if self._state.now.observer:
            raise ServiceFailedError(f"{self._own} is an observer, which does not become active")
        data = election.active_data()
        if data is None:
            raise ServiceFailedError("No other node is currently active.")
        if data == self._data:
            _LOG.info("%s is already active", self._own)
            return
        found = last_active(data, self._settings)
        if found.ours:
            _LOG.info("%s is already active", self._own)
            return
        self._take_over(found.target)

    def _take_over(self, active: Target) -> None:
        """Ask all other NameNodes to cede, the active NameNode last (Hadoop 3). In Hadoop 2.7, there is only one other
        NameNode.
        """
        self._rejoin()
        before = self._state.now.attempt.number
        others = [each for each in self._settings.others if each.namenode != active.namenode]
        seconds = 2 * self._settings.transitions.graceful_timeout
        asked: list[Target] = []
        try:
            for target in (*others, active):
                asked.append(target)
                try:
                    self._ask_to_cede(target, int(seconds * 1000))
                except RpcError as fault:
                    if target is active:
                        raise ServiceFailedError(
                            f"the controller of {target} does not cede: {fault.message}"
                        ) from fault
                    # A node that does not answer may acquire the lock; the wait for the lock reports this.
                    _LOG.warning("the controller of %s, a standby, does not answer: %s", target, fault.message)
            self._wait_for_attempt(before, seconds + self._settings.transitions.new_active_timeout)
        finally:
            for target in asked:
                try:
                    self._ask_to_cede(target, -1)
                except RpcError as fault:
                    _LOG.warning("the controller of %s rejoins only after its pause: %s", target, fault.message)

    def _ask_to_cede(self, target: Target, milliseconds: int) -> None:
        timeout = 2 * self._settings.transitions.graceful_timeout
        with ZKFCClient(
            target.host,
            target.zkfc_port,
            user=self._settings.user,
            timeout=timeout,
            connect_timeout=timeout,
            retry=NO_RETRY,
        ) as client:
            client.cede_active(milliseconds)

    def _wait_for_attempt(self, before: int, seconds: float) -> None:
        """Wait for the attempt after attempt `before`; raise ServiceFailedError if it fails or never begins."""

        def over(state: ControllerState) -> bool:
            return state.attempt.number > before or state.report.health is not NameNodeHealth.HEALTHY

        in_time, state = self._state.wait_for(over, seconds)
        attempt, report = state.attempt, state.report
        if attempt.number > before:
            if attempt.problem:
                raise ServiceFailedError(attempt.problem)
            return
        if in_time:
            raise ServiceFailedError(f"{self._own} became {report.health.value}: {report.reason}")
        raise ServiceFailedError(f"{self._own} did not acquire the lock within {seconds:g} s")
