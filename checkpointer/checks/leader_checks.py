"""Who of several daemons for one cluster makes the checkpoints, by the lock that they agree by."""

from __future__ import annotations

from datetime import UTC, datetime

from checkpointer.checks.facts import Facts, LockFacts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import State, Verdict
from checkpointer.leadership.leader import Leader
from hadoop_common.quantities import duration

_NOBODY_HINT = "Start a daemon, and look at its log: one that runs takes the lock within seconds."


def check_leader(facts: Facts, thresholds: Thresholds) -> Verdict:
    """Somebody has the lock, or there is none; where that cannot be told it depends on whether the lock is required."""
    found = facts.lock
    if found is None:
        return Verdict(State.OK, "this daemon is for itself: checkpointer.leader.lock names no lock")
    rule = f"{'required' if found.required else 'best effort'}, lock: {found.lock}"
    if found.holding.error:
        state = State.CRITICAL if found.required else State.WARNING
        follows = "no checkpoint is made without it" if found.required else "checkpoints are made all the same"
        return Verdict(state, f"the lock cannot be looked at, {follows}: {found.holding.error}", (rule,))
    holding = found.holding.value
    if holding is None:
        return Verdict(State.WARNING, f"nobody leads ({rule})", (rule,), hint=_NOBODY_HINT)
    leader = holding.leader or "somebody whose entry cannot be read"
    since = datetime.fromtimestamp(holding.since, UTC).isoformat(timespec="seconds")
    told = f"{leader} leads, for {duration(facts.now - holding.since)}; {_own_part(found, holding.leader)} ({rule})"
    return Verdict(State.OK, told, (f"since {since}", rule))


def _own_part(found: LockFacts, leader: Leader | None) -> str:
    ours = leader is not None and (leader.host, leader.address) == (found.host, found.address)
    return "that is the daemon of this configuration" if ours else "the daemon of this configuration stands by"
