"""What follows from answers of bookies: where an entry lies, what is covered, present or absent; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from journal.bookkeeper.errors import NotEnoughBookiesError
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.messages import Code

T = TypeVar("T")

NEGATIVE = frozenset({Code.NO_ENTRY, Code.NO_LEDGER})
"""Answers that say that a bookie does not have an entry; any other but OK says nothing."""

OVER = frozenset({Code.FENCED, Code.UNAUTHORIZED})
"""Answers to an ADD that end its writer."""

Choose = Callable[[Sequence[str], int], list[str]]
"""Picks so many of the bookies, none twice."""


def write_set(entry_id: int, metadata: LedgerMetadata) -> tuple[int, ...]:
    """The indexes in the ensemble of the bookies that entry `entry_id` lies on."""
    return tuple((entry_id + each) % metadata.ensemble_size for each in range(metadata.write_quorum))


def is_covered(known: Collection[int], metadata: LedgerMetadata) -> bool:
    """Whether no entry can be acknowledged, or have been, without one of the bookies at the indexes `known`.

    An entry lies on a window of successive indexes; enough of each have to be known that the others are too few to
    acknowledge it.
    """
    return all(
        sum(index not in known for index in write_set(start, metadata)) < metadata.ack_quorum
        for start in range(metadata.ensemble_size)
    )


def is_absent(negative: int, metadata: LedgerMetadata) -> bool:
    """Whether so many fenced bookies without an entry mean that nobody ever got it acknowledged."""
    return negative > metadata.write_quorum - metadata.ack_quorum


def new_ensemble(size: int, available: Collection[str], choose: Choose) -> tuple[str, ...]:
    """Bookies for a ledger.

    Raises:
        NotEnoughBookiesError: there are fewer.
    """
    if len(available) < size:
        raise NotEnoughBookiesError(f"a ledger needs {size} bookies, {_listed(available)} take writes")
    return tuple(choose(sorted(available), size))


def replaceable(ensemble: Sequence[str], broken: Collection[int], available: Collection[str]) -> frozenset[int]:
    """The indexes of `broken` that there are other bookies for, the lowest first."""
    return frozenset(sorted(broken)[: len(set(available) - set(ensemble))])


def replaced(
    ensemble: Sequence[str],
    broken: Collection[int],
    available: Collection[str],
    failed: Collection[str],
    choose: Choose,
) -> tuple[str, ...]:
    """The ensemble with other bookies at the indexes `broken`; those that failed before are taken last.

    Raises:
        NotEnoughBookiesError: there are none.
    """
    free = set(available) - set(ensemble)
    fresh = sorted(free - set(failed))
    again = sorted(free & set(failed))
    need = len(broken)
    if len(fresh) + len(again) < need:
        out = ", ".join(ensemble[index] for index in sorted(broken))
        raise NotEnoughBookiesError(f"{out} failed, and of the bookies that take writes {_listed(free)} are not in use")
    chosen = choose(fresh, min(need, len(fresh)))
    chosen += choose(again, need - len(chosen))
    spare = iter(chosen)
    return tuple(next(spare) if index in broken else bookie for index, bookie in enumerate(ensemble))


def _listed(bookies: Collection[str]) -> str:
    return f"{len(bookies)} ({', '.join(sorted(bookies))})" if bookies else "none"
