"""Monitor of the flow of edits that requests rolls of the active NameNode's log (dfs.ha.log-roll.period)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from checkpointer.roles.standby.lag_watch import START_OF_SEGMENT
from checkpointer.roles.standby.namenodes import NameNodes
from hadoop_common.quantities import counted
from hadoop_common.recurring_fault import RecurringFault
from hadoop_rpc.errors import RpcError

_LOG = logging.getLogger(__name__)


class LogRoller:
    """Monitor that requests a roll if edits wait at the active NameNode, but none have arrived for `period` seconds
    (EditLogTailer.doWork).

    Only one thread at a time may use it.

    Args:
        location: location of the edits, for messages.

    Attributes:
        period: dfs.ha.log-roll.period; 0 or less disables rolls.
        active_txid: newest transaction of any NameNode at the last query, -1 before the first query.
    """

    def __init__(
        self,
        nodes: NameNodes,
        period: float,
        *,
        location: str = "the shared edits",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._location = location
        self._clock = clock
        self._progress_at = clock()
        self._applied = -1
        self._rolled_at_txid = -1
        self._fault = RecurringFault(_LOG, "edits arrive again", unit="checks", clock=clock)
        self._silence = RecurringFault(
            _LOG, "a NameNode reports its last transaction again", unit="checks", clock=clock
        )
        # address of the NameNode that was ahead of our edits
        self._ahead_address = ""
        self.period = period
        self.active_txid = -1

    @property
    def alarm(self) -> str:
        """Reason why no new edits arrive although the active NameNode writes edits; "" if they arrive."""
        return self._fault.alarm

    def forget(self) -> None:
        """Forget the applied transactions and the rolls, because the node has started over with another log."""
        self._applied = self._rolled_at_txid = self.active_txid = -1
        self._progress_at = self._clock()
        self._fault.forget()
        self._silence.forget()

    def check(self, applied: int, cancelled: Callable[[], bool]) -> bool:
        """Record the newest applied transaction; return whether the log was rolled, so that more edits can be read.

        While transactions arrive, do not query NameNodes. Do not repeat a roll without effect.
        """
        address = self._ahead(applied)
        if not address:
            return False
        if self._rolled_at_txid == applied:
            self._raise(
                f"{address} is at txid {self.active_txid}, but the last applied transaction is {applied}: since the "
                f"last roll, no newer finalized segment has arrived in {self._location}"
            )
            return False
        return self._roll(applied, cancelled)

    def update_active(self, applied: int) -> None:
        """Query the NameNodes' newest transactions, while edits cannot be read and a roll would be useless."""
        self._ahead(applied)

    def _ahead(self, applied: int) -> str:
        """Return the address of a NameNode with transactions that should have arrived, or "" if there is none."""
        now = self._clock()
        if applied > self._applied:
            self._applied, self._progress_at = applied, now
            self._fault.ended()
            self._silence.forget()
            return ""
        if self.period <= 0 or now - self._progress_at <= self.period:
            return ""
        found = self._nodes.last_txids()
        if not found:
            text = f"no NameNode reports its last transaction; the last applied transaction is {applied}"
            hint = "Check that the NameNodes are up."
            self._silence.occurred(text, hint=hint, level=logging.WARNING, txid=applied, phase="roll")
            return ""
        self._silence.ended()
        address, self.active_txid = max(found.items(), key=lambda item: item[1])
        if self.active_txid <= applied + START_OF_SEGMENT:
            # None of the answering NameNodes is ahead. If the NameNode that was ahead is silent now, its transactions
            # are still missing.
            if self._ahead_address in found:
                self._fault.forget()
            return ""
        self._ahead_address = address
        return address

    def _roll(self, applied: int, cancelled: Callable[[], bool]) -> bool:
        try:
            self._nodes.roll(cancelled)
        except RpcError as error:
            if not cancelled():
                ahead = self.active_txid - applied
                text = (
                    f"{counted(ahead, 'transaction')} wait in the open segment of the active NameNode, but "
                    f"{error.message}"
                )
                self._raise(text, error.hint)
            return False
        self._rolled_at_txid = applied
        # The effect of the roll is still unknown.
        self._fault.forget()
        return True

    def _raise(
        self, text: str, hint: str = "Check that the active NameNode writes its edits to that location."
    ) -> None:
        self._fault.occurred(text, hint=hint, txid=self._applied, phase="roll")
