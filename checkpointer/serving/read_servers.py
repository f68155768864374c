"""The RPC servers for reads. They are optional, so checkpoints continue if an address cannot be used."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from checkpointer.roles.role import Job
from hadoop_common.recurring_fault import Alarm, RecurringFault
from hadoop_rpc.errors import RpcError
from hadoop_rpc.server import RpcServer

_LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 60.0
_HINT: Final = (
    "Checkpoints continue, and the daemon retries the address every minute. If a NameNode listens at this address, "
    "leave it running: set checkpointer.namespace.rpc-address to a free address of this host, or unset it, and "
    "restart the checkpointer."
)


class ReadServers:
    """RPC servers, with retries until each server listens. Any thread may call any method.

    Args:
        creates: functions that return a new server; called for each attempt.
    """

    def __init__(self, creates: Sequence[Callable[[], RpcServer]]) -> None:
        self._waiting = [(create, RecurringFault(_LOG, "reads are answered at this RPC address")) for create in creates]
        self._lock = threading.Lock()
        self._started: list[RpcServer] = []

    def jobs(self) -> list[Job]:
        """Return the job that starts servers that do not listen yet."""
        return [Job("namespace-rpc", RETRY_SECONDS, self._start)] if self._waiting or self._started else []

    def alarms(self) -> list[Alarm]:
        """Return the reason why the servers do not answer reads."""
        return [fault.alarm for _, fault in self._waiting if fault.count]

    def close(self) -> None:
        """Stop the servers permanently."""
        with self._lock:
            self._waiting = []
            for server in self._started:
                server.stop()

    def _start(self) -> bool:
        with self._lock:
            self._waiting = [each for each in self._waiting if not self._try(*each)]
        return False

    def _try(self, create: Callable[[], RpcServer], fault: RecurringFault) -> bool:
        server = create()
        try:
            server.start()
        except RpcError as error:
            fault.occurred(f"reads are not answered over RPC: {error.message}", hint=_HINT)
            return False
        self._started.append(server)
        fault.ended()
        return True
