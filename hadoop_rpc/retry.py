"""Retries of calls: a pure decision based on the attempt's error."""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_common.back_off import BackOff
from hadoop_rpc.errors import RetriableError, RpcConnectionError, RpcError, RpcTimeoutError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` in total, separated by waits of `back_off`.

    A call that may have reached the server is repeated only if it is idempotent, and never after a timeout, which would
    multiply the wait.
    """

    attempts: int = 3
    back_off: BackOff = BackOff(0.2, 5.0)

    def wait_before(self, attempt: int, error: RpcError, *, idempotent: bool) -> float | None:
        """Return the seconds before `attempt` (the second is 1) after `error`; None if no further attempt is made."""
        if attempt >= self.attempts:
            return None
        if isinstance(error, RpcTimeoutError):
            return None
        safe = isinstance(error, RpcConnectionError) and (idempotent or not error.sent)
        if not safe and not isinstance(error, RetriableError):
            return None
        return self.back_off.wait(attempt)


NO_RETRY = RetryPolicy(attempts=1)
