"""The check of the lock with which the daemons of one cluster elect their leader."""

from __future__ import annotations

from datetime import UTC, datetime

from checkpointer.checks.facts import Facts, LockFacts
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import CheckVerdict, State
from checkpointer.leadership.leadership_state import Leader
from hadoop_common.quantities import duration

_NOBODY_HINT = "Start a daemon and check its log: a running daemon acquires the lock within seconds."


def check_leader(facts: Facts, thresholds: Thresholds) -> CheckVerdict:
    """Check that a daemon holds the configured lock; an unreadable lock is CRITICAL only if the lock is required."""
    found = facts.lock
    if found is None:
        return CheckVerdict(State.OK, "this daemon needs no lock: checkpointer.leader.lock is not set")
    rule = f"{'required' if found.required else 'best effort'}, lock: {found.lock}"
    if found.holding.error:
        state = State.CRITICAL if found.required else State.WARNING
        follows = "checkpoints stop without it" if found.required else "checkpoints continue without it"
        return CheckVerdict(state, f"the lock cannot be read, {follows}: {found.holding.error}", (rule,))
    holding = found.holding.value
    if holding is None:
        return CheckVerdict(State.WARNING, f"no daemon is the leader ({rule})", (rule,), hint=_NOBODY_HINT)
    leader = holding.leader or "a daemon whose entry cannot be read"
    since = datetime.fromtimestamp(holding.since, UTC).isoformat(timespec="seconds")
    led = duration(facts.now - holding.since)
    summary = f"{leader} has been the leader for {led}; {_own_part(found, holding.leader)} ({rule})"
    return CheckVerdict(State.OK, summary, (f"since {since}", rule))


def _own_part(found: LockFacts, leader: Leader | None) -> str:
    ours = leader is not None and (leader.host, leader.address) == (found.host, found.address)
    return "this is the daemon of this configuration" if ours else "the daemon of this configuration is not the leader"
