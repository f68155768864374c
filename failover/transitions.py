"""The transitions of a NameNode's HA state that a controller requests, and their results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from failover.settings import TransitionSettings
from failover.target import Target
from hadoop_common.errors import HdfsError
from hadoop_rpc.client import NO_RETRY, RetryPolicy
from hadoop_rpc.errors import AccessControlError, RpcConnectionError, RpcError, ServiceFailedError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState, RequestSource

_LOG = logging.getLogger(__name__)


class TransitionError(HdfsError):
    """Failure of a transition of a NameNode's HA state."""


@dataclass(frozen=True, slots=True)
class ActivationAttempt:
    """An attempt to make the NameNode active, with its `number`; `problem` is "" after a success.

    `at` is in monotonic seconds; number 0 means that no attempt has begun.
    """

    number: int = 0
    at: float = 0.0
    problem: str = ""


class Transitions:
    """Client that requests transitions from NameNodes as `user`; `clock` returns monotonic seconds."""

    def __init__(self, settings: TransitionSettings, user: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._user = user
        self._clock = clock

    def to_active(self, target: Target, given_up: Callable[[], str]) -> None:
        """Make `target` active. If the NameNode is slow, query its state, and repeat the request until the time limit.

        Args:
            given_up: returns the reason why the attempt must stop, or "" to continue; called after each wait.

        Raises:
            TransitionError: `target` is not known to have become active.
        """
        timeout = self._settings.new_active_timeout
        until = self._clock() + self._settings.limit
        with HAServiceClient(
            target.host, target.port, user=self._user, timeout=timeout, connect_timeout=timeout, retry=NO_RETRY
        ) as client:
            while True:
                try:
                    client.transition_to_active(RequestSource.ZKFC)
                    return
                except RpcConnectionError as fault:
                    if not fault.sent:
                        raise TransitionError(f"{target} cannot be made active: {fault.message}") from fault
                    _LOG.warning(
                        "%s has not reported whether it is active (%s); asking for its state", target, fault.message
                    )
                    reason = fault.message
                except RpcError as fault:
                    raise _refused(target, HAState.ACTIVE, fault) from fault
                state = self._state(client, target)
                if state is HAState.ACTIVE:
                    return
                stop = given_up()
                if stop or self._clock() >= until:
                    raise TransitionError(f"{target} is not active yet, and cedes: {stop or reason}")
                word = "silent" if state is None else state.name.lower()
                _LOG.warning("%s is still %s; asking it again to become active", target, word)

    def to_standby(self, target: Target) -> HAState:
        """Make `target` a standby; return its state. An observer remains an observer, because it is not active.

        Raises:
            TransitionError: `target` did not confirm the transition.
        """
        timeout = self._settings.graceful_timeout
        with HAServiceClient(
            target.host,
            target.port,
            user=self._user,
            timeout=timeout,
            connect_timeout=timeout,
            retry=RetryPolicy(attempts=1 + self._settings.graceful_retries),
        ) as client:
            try:
                client.transition_to_standby(RequestSource.ZKFC)
            except AccessControlError as fault:
                # observers refuse requests of controllers (HDFS-14961)
                if not _is_observer(client):
                    raise _refused(target, HAState.STANDBY, fault) from fault
                return HAState.OBSERVER
            except RpcError as fault:
                raise _refused(target, HAState.STANDBY, fault) from fault
        return HAState.STANDBY

    def _state(self, client: HAServiceClient, target: Target) -> HAState | None:
        """Return the NameNode's state, or None if no response arrives; raise TransitionError if it is unreachable."""
        try:
            return client.service_status().state
        except RpcConnectionError as fault:
            if not fault.sent:
                raise TransitionError(f"{target} has become unreachable: {fault.message}") from fault
            return None
        except RpcError as fault:
            raise _refused(target, HAState.ACTIVE, fault) from fault


def _is_observer(client: HAServiceClient) -> bool:
    try:
        return client.service_status().state is HAState.OBSERVER
    except RpcError:
        return False


def _refused(target: Target, wanted: HAState, fault: RpcError) -> TransitionError:
    state = wanted.name.lower()
    if isinstance(fault, AccessControlError) and "automatic" in fault.text.lower():
        return TransitionError(
            f"{target} does not accept failover controllers, and did not become {state}: {fault.text}",
            hint="Also set dfs.ha.automatic-failover.enabled in the configuration of that NameNode; it takes effect "
            "when the NameNode is restarted.",
        )
    if isinstance(fault, AccessControlError):
        hint = "Run the controller as the NameNode's user, who is the superuser."
    elif isinstance(fault, ServiceFailedError):
        hint = "Check the NameNode's log for the cause."
    else:
        hint = fault.hint
    return TransitionError(f"{target} did not become {state}: {fault.message}", hint=hint)
