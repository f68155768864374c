"""Options of ledgers: the numbers of bookies, and timeouts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """Ensemble size, write quorum and ack quorum of a ledger."""

    ensemble_size: int = 3
    write_quorum: int = 2
    ack_quorum: int = 2


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Timeouts in seconds.

    Attributes:
        add: time after which a bookie that has not acknowledged an entry is replaced.
        read: maximum wait for a bookie's response to a read.
        speculative: time without a response after which the next replica is also requested.
    """

    add: float = 5.0
    read: float = 5.0
    speculative: float = 2.0

    @property
    def patience(self) -> float:
        """Maximum time that a writer waits for enough writable bookies; by default 20 s, as in the QJM."""
        return 4 * self.add
