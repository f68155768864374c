"""Fences the last active NameNode, before the controller makes this host's NameNode active."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from failover.breadcrumb import last_active
from failover.fencing.fencer import FencingOutcome
from failover.settings import FailoverSettings
from failover.target import Target
from failover.transitions import Transitions
from hadoop_common.errors import HdfsError
from hadoop_rpc.ha_protocol import HAState

_LOG = logging.getLogger(__name__)

RESULTS = ("done", "failed")


class NotFencedError(HdfsError):
    """Failure to fence the last active NameNode, which may still be active."""


@dataclass(frozen=True, slots=True)
class FencingRecord:
    """The last fencing of a NameNode, with the `outcomes` of the methods in order; the last outcome decides."""

    namenode: str
    outcomes: tuple[FencingOutcome, ...]

    @property
    def done(self) -> bool:
        return any(each.worked for each in self.outcomes)


class LastActiveFencing:
    """The fencing of the last active NameNode: first with a request over RPC, then with the configured methods.

    Attributes:
        last: the last fencing; None before the first fencing.
        counts: attempts by method and result.
    """

    def __init__(self, settings: FailoverSettings, transitions: Transitions) -> None:
        self._settings = settings
        self._transitions = transitions
        self.last: FencingRecord | None = None
        self.counts: Counter[tuple[str, str]] = Counter()

    def fence_last_active(self, breadcrumb: bytes) -> None:
        """Ensure that the NameNode in the breadcrumb is not active.

        Raises:
            HdfsError: the NameNode may still be active.
        """
        own = self._settings.own
        found = last_active(breadcrumb, self._settings)
        if found.ours:
            _LOG.info("the breadcrumb names %s in another notation; fencing is not needed", own)
            return
        if found.moved:
            _LOG.warning("%s", found.moved)
        self._fence(found.target, found.moved)

    def _fence(self, target: Target, moved: str) -> None:
        _LOG.info("fencing %s, which was active last", target)
        outcomes: list[FencingOutcome] = []
        for outcome in self._outcomes(target):
            outcomes.append(outcome)
            name, result = outcome.method.partition("(")[0], RESULTS[not outcome.worked]
            self.counts[name, result] += 1
            level = logging.INFO if outcome.worked else logging.WARNING
            _LOG.log(level, "%s: %s %s: %s", target, outcome.method, result, outcome.reason)
        self.last = fencing = FencingRecord(target.namenode, tuple(outcomes))
        if not fencing.done:
            why = "; ".join(f"{each.method}: {each.reason}" for each in outcomes)
            raise NotFencedError(
                f"{target} cannot be fenced, so {self._settings.own.namenode} does not become active: {why}",
                hint=moved
                or "Two active NameNodes lose edits. Check on the host of this NameNode that it has ended, or use "
                "`checkpointer zkfc check` to find a working fencing method.",
            )

    def _outcomes(self, target: Target) -> Iterator[FencingOutcome]:
        """Ask the NameNode first, then try the configured methods."""
        try:
            state = self._transitions.to_standby(target)
        except HdfsError as fault:
            yield FencingOutcome("rpc", False, f"{fault.message.rstrip('.')}. {fault.hint}".rstrip(". "))
            yield from self._settings.fencer(target).fence()
        else:
            found = "an observer" if state is HAState.OBSERVER else "a standby"
            yield FencingOutcome("rpc", True, f"it reports that it is {found}")
