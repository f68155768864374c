"""What is set for ledgers: where they lie, and how long bookies have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """On how many bookies a ledger lies, each entry lies, and how many have to acknowledge it."""

    ensemble_size: int = 3
    write_quorum: int = 2
    ack_quorum: int = 2


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Seconds.

    Attributes:
        add: a bookie that does not acknowledge an entry within it is replaced.
        read: within it a bookie answers a read.
        speculative: after it the next replica is asked too.
    """

    add: float = 5.0
    read: float = 5.0
    speculative: float = 2.0

    @property
    def patience(self) -> float:
        """How long a writer waits for bookies where too few take writes; with the default as long as one on QJM."""
        return 4 * self.add
