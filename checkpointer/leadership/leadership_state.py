"""Leadership of a daemon as its lock shows it, and what the daemon may do: values and decisions, without I/O.

An answer of the lock's backend is valid for one session timeout from the request, since the backend gives the lock to
no other daemon during that time. Afterwards the status is UNCERTAIN until the next answer. If the backend stays silent
for a whole session timeout while this process was awake, the status is AWAY and the lock no longer decides anything.

A merge continues while the status is UNCERTAIN, because a merge harms nobody. An upload stops when the answer expires,
so that only the next holder of the lock sends images.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A daemon that holds the lock, or would like to.

    Attributes:
        address: host and port of its HTTP server.
        since: when its process began to ask for the lock, seconds since the epoch.
    """

    host: str
    pid: int
    role: str
    address: str
    since: float

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Self | None:
        """None where it is nothing that a daemon wrote: the lock is somebody's all the same."""
        try:
            told = json.loads(data or b"")
            return cls(
                host=str(told["host"]),
                pid=int(told["pid"]),
                role=str(told["role"]),
                address=str(told["address"]),
                since=float(told["since"]),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        return f"{self.role} on {self.host} (process {self.pid}, HTTP {self.address})"


class LeadershipStatus(Enum):
    """How a daemon stands to the lock."""

    LEADING = "leading"
    FOLLOWING = "following"
    UNCERTAIN = "uncertain"
    """There is no answer that still holds."""
    AWAY = "away"
    """There was none for so long that nothing follows from the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipState:
    """What the backend of the lock answered last; times are of one monotonic clock, in seconds.

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

    def status(self, now: float) -> LeadershipStatus:
        """What holds now."""
        if now - self.asked_at < self.timeout:
            return LeadershipStatus.LEADING if self.mine else LeadershipStatus.FOLLOWING
        if self.silent_since is not None and now - self.silent_since >= self.timeout:
            return LeadershipStatus.AWAY
        return LeadershipStatus.UNCERTAIN


@dataclass(frozen=True, slots=True)
class LeaseBasis:
    """By what right a checkpoint began: how the daemon stood to the lock then, and in which of its terms."""

    claim: LeadershipStatus
    terms: int


def held_back(state: LeadershipState, now: float, *, required: bool, late: bool, others: bool = False) -> str:
    """Why no checkpoint is to begin, "" where one may.

    Args:
        required: whether the lock is needed even where its backend is away.
        late: whether the newest image is so old that who leads cannot be at work: a checkpoint counts more than order.
        others: whether a NameNode has got an image of another daemon since the lock was last known to be ours.
    """
    match state.status(now):
        case LeadershipStatus.LEADING:
            return ""
        case LeadershipStatus.FOLLOWING:
            return "" if late and not required else f"another checkpointer leads: {state.leader or 'unknown'}"
        case LeadershipStatus.UNCERTAIN:
            return f"who leads is not known now{_because(state)}"
        case LeadershipStatus.AWAY:
            if required:
                return f"the lock that checkpointer.leader.required asks for cannot be had{_because(state)}"
            # Whoever led goes on, unless it is seen that another one does; that is cut off from the lock alone.
            led = (state.mine and not others) or state.asked_at == float("-inf")
            return "" if led or late else f"another checkpointer led when the lock was last seen{_because(state)}"


def must_abort(state: LeadershipState, now: float, basis: LeaseBasis, *, required: bool, sending: bool) -> bool:
    """Whether a checkpoint has to end: the lock has gone to another daemon since it began, or may have.

    Args:
        sending: whether its image is on its way.
    """
    if basis.claim is LeadershipStatus.FOLLOWING:
        # it began because who leads makes none
        return False
    match state.status(now):
        case LeadershipStatus.LEADING:
            return basis.claim is LeadershipStatus.LEADING and state.terms != basis.terms
        case LeadershipStatus.FOLLOWING:
            return True
        case LeadershipStatus.UNCERTAIN:
            return sending
        case LeadershipStatus.AWAY:
            return required


def _because(state: LeadershipState) -> str:
    return f": {state.problem}" if state.problem else ""
