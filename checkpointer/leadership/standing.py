"""What a daemon knows of the lock at one moment, and what it may do then: values and functions, without I/O.

An answer of the lock's keeper holds for one session timeout from when it was asked for, as the keeper gives the lock to
nobody else before. After that nothing is known until the next answer. A keeper that was silent for a whole session
timeout, while this process was awake to ask it, is away: then the lock decides nothing any more.

A merge goes on while nothing is known, as it harms nobody. An image does not: what is sent ends when the answer does,
so that whoever has the lock next is the only one that sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from checkpointer.leadership.leader import Leader


class Claim(Enum):
    """How a daemon stands to the lock."""

    LEADING = "leading"
    FOLLOWING = "following"
    UNCERTAIN = "uncertain"
    """There is no answer that still holds."""
    AWAY = "away"
    """There was none for so long that nothing follows from the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the keeper of the lock answered last; times are of one monotonic clock, in seconds.

    Attributes:
        timeout: of a session.
        asked_at: when what it answered last was asked for.
        mine: whether the lock was ours then; `leader`: whose it was, as far as it could be read.
        theirs_since: when `leader` was first seen to have it.
        silent_since: since when a question is known to have no answer, None where the last one had one.
        problem: why it had none.
        terms: how often the lock came to us.
    """

    timeout: float
    asked_at: float = float("-inf")
    mine: bool = False
    leader: Leader | None = None
    theirs_since: float = float("-inf")
    silent_since: float | None = None
    problem: str = ""
    terms: int = 0

    def ours(self, asked_at: float, *, taken: bool) -> Self:
        """The lock is ours, just `taken` or still; `asked_at` is when that was asked."""
        terms = self.terms + 1 if taken or not self.mine else self.terms
        return replace(self, asked_at=asked_at, mine=True, leader=None, silent_since=None, problem="", terms=terms)

    def theirs(self, asked_at: float, leader: Leader | None) -> Self:
        """It is somebody else's."""
        known = not self.mine and self.leader == leader and self.asked_at != float("-inf")
        since = self.theirs_since if known else asked_at
        found = replace(self, asked_at=asked_at, mine=False, leader=leader, theirs_since=since)
        return replace(found, silent_since=None, problem="")

    def silent(self, since: float, problem: str) -> Self:
        """A question had no answer."""
        since = since if self.silent_since is None else self.silent_since
        return replace(self, silent_since=since, problem=problem)

    def claim(self, now: float) -> Claim:
        """What holds now."""
        if now - self.asked_at < self.timeout:
            return Claim.LEADING if self.mine else Claim.FOLLOWING
        if self.silent_since is not None and now - self.silent_since >= self.timeout:
            return Claim.AWAY
        return Claim.UNCERTAIN


@dataclass(frozen=True, slots=True)
class Ground:
    """By what right a checkpoint began: how the daemon stood to the lock then, and in which of its terms."""

    claim: Claim
    terms: int


def held_back(answers: Answers, now: float, *, required: bool, late: bool, others: bool = False) -> str:
    """Why no checkpoint is to begin, "" where one may.

    Args:
        required: whether the lock is needed even where its keeper is away.
        late: whether the newest image is so old that who leads cannot be at work: a checkpoint counts more than order.
        others: whether a NameNode has got an image of another daemon since the lock was last known to be ours.
    """
    match answers.claim(now):
        case Claim.LEADING:
            return ""
        case Claim.FOLLOWING:
            return "" if late and not required else f"another checkpointer leads: {answers.leader or 'unknown'}"
        case Claim.UNCERTAIN:
            return f"who leads is not known now{_because(answers)}"
        case Claim.AWAY:
            if required:
                return f"the lock that checkpointer.leader.required asks for cannot be had{_because(answers)}"
            # Whoever led goes on, unless it is seen that another one does; that is cut off from the lock alone.
            led = (answers.mine and not others) or answers.asked_at == float("-inf")
            return "" if led or late else f"another checkpointer led when the lock was last seen{_because(answers)}"


def broken_off(answers: Answers, now: float, ground: Ground, *, required: bool, sending: bool) -> bool:
    """Whether a checkpoint has to end: the lock has gone to another daemon since it began, or may have.

    Args:
        sending: whether its image is on its way.
    """
    if ground.claim is Claim.FOLLOWING:
        # it began because who leads makes none
        return False
    match answers.claim(now):
        case Claim.LEADING:
            return ground.claim is Claim.LEADING and answers.terms != ground.terms
        case Claim.FOLLOWING:
            return True
        case Claim.UNCERTAIN:
            return sending
        case Claim.AWAY:
            return required


def _because(answers: Answers) -> str:
    return f": {answers.problem}" if answers.problem else ""
