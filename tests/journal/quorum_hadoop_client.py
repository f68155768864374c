"""A writer that recovers segments as Hadoop's writer does: all nodes accept and finalize, without a comparison of
copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.quorum.calls import Procedure, QuorumRound, WriterCall, reached
from journal.quorum.decisions import choose_recovery
from journal.quorum.phases import Event
from journal.quorum.recovery import SegmentRecovery, finalizing


class HadoopRecovery(SegmentRecovery):
    """QuorumJournalManager.recoverUnclosedSegment."""

    def run(self, step: Callable[[Event], None]) -> Procedure[None]:
        held = yield from self._majority(WriterCall("prepareRecovery", self._prepare), self._settings.prepare_recovery)
        # Later responses cannot change a choice that was already made.
        reported = dict(held.answers)
        chosen = choose_recovery(self._first, {node: each.prepared for node, each in reported.items()})
        if chosen is None:
            step(Event.PREPARED_EMPTY)
            return
        step(Event.PREPARED)
        url = self._url(chosen.node, reported[chosen.node])
        calls: list[tuple[WriterCall[Any], Event]] = [
            (
                WriterCall("acceptRecovery", lambda peer: peer.node.accept_recovery(peer.request, chosen.segment, url)),
                Event.ACCEPTED,
            ),
            (finalizing(self._first, chosen.segment.last), Event.SEALED),
        ]
        for call, event in calls:
            yield from reached(
                QuorumRound(call, self._ensemble.majority, self._settings.accept_recovery), txid=self._first
            )
            step(event)
