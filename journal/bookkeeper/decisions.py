"""Decisions from bookies' responses: the bookies of an entry, coverage, presence or absence; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hadoop_common.quantities import counted
from journal.bookkeeper.errors import NotEnoughBookiesError
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.messages import ResultCode

NEGATIVE = frozenset({ResultCode.NO_ENTRY, ResultCode.NO_LEDGER})
"""Responses that prove that a bookie lacks an entry; all other responses except OK prove nothing."""

OVER = frozenset({ResultCode.FENCED, ResultCode.UNAUTHORIZED})
"""Responses to an ADD that require the writer to stop permanently."""

Choose = Callable[[Sequence[str], int], list[str]]
"""Function that chooses the given number of different bookies from candidates."""


def write_set(entry_id: int, metadata: LedgerMetadata) -> tuple[int, ...]:
    """Return the indexes in the ensemble of the bookies that store entry `entry_id`."""
    return tuple((entry_id + each) % metadata.ensemble_size for each in range(metadata.write_quorum))


def is_covered(known: Collection[int], metadata: LedgerMetadata) -> bool:
    """Return whether every ack quorum includes a bookie at one of the indexes `known`.

    The bookies of an entry have consecutive indexes. Among these bookies, the unknown bookies must be too few to
    acknowledge the entry.
    """
    return all(
        sum(index not in known for index in write_set(start, metadata)) < metadata.ack_quorum
        for start in range(metadata.ensemble_size)
    )


def is_absent(negative: int, metadata: LedgerMetadata) -> bool:
    """Return whether this number of fenced bookies without an entry proves that the entry was never acknowledged."""
    return negative > metadata.write_quorum - metadata.ack_quorum


def new_ensemble(size: int, available: Collection[str], choose: Choose) -> tuple[str, ...]:
    """Choose bookies for a ledger.

    Raises:
        NotEnoughBookiesError: too few bookies are writable.
    """
    if len(available) < size:
        raise NotEnoughBookiesError(f"a ledger needs {counted(size, 'bookie')}, but {_listed(available)} are writable")
    return tuple(choose(sorted(available), size))


def replaceable(ensemble: Sequence[str], broken: Collection[int], available: Collection[str]) -> frozenset[int]:
    """Return the lowest indexes of `broken`, as many as other bookies can replace."""
    return frozenset(sorted(broken)[: len(set(available) - set(ensemble))])


def replaced(
    ensemble: Sequence[str],
    broken: Collection[int],
    available: Collection[str],
    failed: Collection[str],
    choose: Choose,
) -> tuple[str, ...]:
    """Return the ensemble with other bookies at the indexes `broken`; bookies that failed before are chosen last.

    Raises:
        NotEnoughBookiesError: too few other bookies are writable.
    """
    free = set(available) - set(ensemble)
    fresh = sorted(free - set(failed))
    again = sorted(free & set(failed))
    need = len(broken)
    if len(fresh) + len(again) < need:
        out = ", ".join(ensemble[index] for index in sorted(broken))
        raise NotEnoughBookiesError(f"{out} failed, and only {_listed(free)} of the writable bookies are unused")
    chosen = choose(fresh, min(need, len(fresh)))
    chosen += choose(again, need - len(chosen))
    spare = iter(chosen)
    return tuple(next(spare) if index in broken else bookie for index, bookie in enumerate(ensemble))


def _listed(bookies: Collection[str]) -> str:
    return f"{len(bookies)} ({', '.join(sorted(bookies))})" if bookies else "none"
