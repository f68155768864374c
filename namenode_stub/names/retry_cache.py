"""Cache of responses, so that a repeated call receives the lost response and is not performed again (RetryCache)."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from journal.file_ops import RetryCacheOp
from journal.operation import EditOp
from journal.ops import NO_CALL_ID
from namenode_stub.names.caller import ClientCall

T = TypeVar("T")
_EXPIRY = 600.0  # seconds: dfs.namenode.retrycache.expirytime.millis
_CAPACITY = 65536
_Key = tuple[bytes, int]


class RetryCache:
    """Thread-safe cache of the responses of calls by client id and call id.

    Args:
        clock: monotonic seconds.
        capacity: maximum number of responses; the cache drops the oldest response first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = _CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._condition = threading.Condition()
        self._running: set[_Key] = set()
        # time and value of each response
        self._answers: OrderedDict[_Key, tuple[float, Any]] = OrderedDict()

    def once(self, caller: ClientCall, perform: Callable[[], T], known: Callable[[], T]) -> T:
        """Return the response of `perform`, or the earlier response if the call is a repetition.

        If a client repeats a failed call, the cache performs the call again.

        Args:
            known: returns the response to a call that is in the edit log, but whose response was lost in a restart.
        """
        if not caller.client_id or caller.call_id == NO_CALL_ID:
            return perform()
        key = caller.client_id, caller.call_id
        with self._condition:
            self._condition.wait_for(lambda: key not in self._running)
            self._expire()
            found = self._answers.get(key)
            if found is not None:
                answer = found[1]
                return known() if answer is _FORGOTTEN else answer
            self._running.add(key)
        try:
            result = perform()
            with self._condition:
                self._keep(key, result)
            return result
        finally:
            with self._condition:
                self._running.discard(key)
                self._condition.notify_all()

    def watch(self, ops: Iterable[EditOp]) -> Iterator[EditOp]:
        """Yield the replayed operations, and record their calls."""
        for op in ops:
            if isinstance(op, RetryCacheOp) and op.rpc_client_id and op.rpc_call_id != NO_CALL_ID:
                with self._condition:
                    self._keep((op.rpc_client_id, op.rpc_call_id), _FORGOTTEN)
            yield op

    def _keep(self, key: _Key, answer: object) -> None:
        self._answers[key] = self._clock(), answer
        while len(self._answers) > self._capacity:
            self._answers.popitem(last=False)

    def _expire(self) -> None:
        oldest = self._clock() - _EXPIRY
        while self._answers and next(iter(self._answers.values()))[0] < oldest:
            self._answers.popitem(last=False)


_FORGOTTEN = object()
