"""Rolls the edit log automatically when a segment is large or old, as a NameNode does (NameNodeEditLogRoller)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from journal.errors import JournalError
from journal.journal_set import JournalSet
from namenode_stub.fail_stop import NotServingError
from namenode_stub.names.transactions import Transactions

_LOG = logging.getLogger(__name__)
_MAX_INTERVAL, _MIN_INTERVAL = 1.0, 0.05
_CHECKS_PER_PERIOD = 4


class AutomaticRoller:
    """A thread that rolls the open segment when needed, and then copies missing segments to restored journals.

    Args:
        roll: rolls the edit log.
        transactions_limit: number of transactions at which a segment is rolled.
        period: seconds after which a segment with transactions is rolled; 0 or less means never.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        transactions: Transactions,
        journals: JournalSet,
        roll: Callable[[], int],
        *,
        transactions_limit: int,
        period: float,
        clock: Callable[[], float],
    ) -> None:
        self._transactions = transactions
        self._journals = journals
        self._roll = roll
        self._limit = transactions_limit
        self._period = period
        self._clock = clock
        self._rolled_at = clock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edit-log-roller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def rolled(self) -> None:
        """Record the beginning of a segment, whichever caller rolled the log."""
        self._rolled_at = self._clock()

    def _run(self) -> None:
        interval = _MAX_INTERVAL
        if self._period > 0:
            interval = min(interval, max(_MIN_INTERVAL, self._period / _CHECKS_PER_PERIOD))
        while not self._stopping.wait(interval):
            if self._journals.lagging:
                self._copy_missing()
            if self._is_due():
                try:
                    self._roll()
                except NotServingError:
                    # the fault was reported when it occurred, and there is no log to roll any more
                    return

    def _is_due(self) -> bool:
        if self._transactions.safe_mode.on:
            return False
        log = self._transactions.log
        waiting = log.last_txid - log.segment_first_txid
        old_enough = 0 < self._period <= self._clock() - self._rolled_at and waiting > 0
        return waiting >= self._limit or old_enough

    def _copy_missing(self) -> None:
        try:
            self._journals.copy_missing(self._stopping.is_set)
        except JournalError as error:
            _LOG.error("restored edits directories still lack segments: %s", error)
