"""Changes of a NameNode's state that a controller asks for, and what becomes of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from failover.settings import TransitionSettings
from failover.target import Target
from hadoop_common.errors import HdfsError
from hadoop_rpc.errors import AccessControlError, RpcConnectionError, RpcError, ServiceFailedError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState, RequestSource
from hadoop_rpc.retry import NO_RETRY, RetryPolicy

_LOG = logging.getLogger(__name__)


class TransitionError(HdfsError):
    """A NameNode did not take a state."""


class Transitions:
    """Asks as `user`; `clock` gives monotonic seconds."""

    def __init__(self, settings: TransitionSettings, user: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._user = user
        self._clock = clock

    def to_active(self, target: Target, given_up: Callable[[], str]) -> None:
        """Make it active; one that is slow is asked how far it is, and told again, until the limit.

        Args:
            given_up: why the attempt is not to go on, "" where it is; asked after each wait.

        Raises:
            TransitionError: it did not become active, as far as is known.
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
                    _LOG.warning("%s has not said whether it is active (%s); it is asked", target, fault.message)
                    reason = fault.message
                except RpcError as fault:
                    raise _refused(target, HAState.ACTIVE, fault) from fault
                state = self._state(client, target)
                if state is HAState.ACTIVE:
                    return
                stop = given_up()
                if stop or self._clock() >= until:
                    raise TransitionError(f"{target} is not active yet, and gives way: {stop or reason}")
                _LOG.warning("%s is %s still, and is asked again to become active", target, _word(state))

    def to_standby(self, target: Target) -> None:
        """Make it a standby.

        Raises:
            TransitionError: it did not say that it is one.
        """
        timeout = self._settings.graceful_timeout
        try:
            with HAServiceClient(
                target.host,
                target.port,
                user=self._user,
                timeout=timeout,
                connect_timeout=timeout,
                retry=RetryPolicy(attempts=1 + self._settings.graceful_retries),
            ) as client:
                client.transition_to_standby(RequestSource.ZKFC)
        except RpcError as fault:
            raise _refused(target, HAState.STANDBY, fault) from fault

    def _state(self, client: HAServiceClient, target: Target) -> HAState | None:
        """None where it does not answer; where it is gone, that is the end."""
        try:
            return client.service_status().state
        except RpcConnectionError as fault:
            if not fault.sent:
                raise TransitionError(f"{target} cannot be reached any more: {fault.message}") from fault
            return None
        except RpcError as fault:
            raise _refused(target, HAState.ACTIVE, fault) from fault


def _word(state: HAState | None) -> str:
    return "silent" if state is None else state.name.lower()


def _refused(target: Target, wanted: HAState, fault: RpcError) -> TransitionError:
    state = wanted.name.lower()
    if isinstance(fault, AccessControlError) and "automatic" in fault.text.lower():
        return TransitionError(
            f"{target} takes no orders of failover controllers, and does not become {state}: {fault.text}",
            hint="Set dfs.ha.automatic-failover.enabled in the configuration of that NameNode too; it applies when it "
            "is started the next time.",
        )
    if isinstance(fault, AccessControlError):
        hint = "Run the controller as the user of the NameNode, its superuser."
    elif isinstance(fault, ServiceFailedError):
        hint = "The log of the NameNode tells the cause."
    else:
        hint = fault.hint
    return TransitionError(f"{target} does not become {state}: {fault.message}", hint=hint)
