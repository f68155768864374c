"""Leadership of a daemon according to its lock, and the actions that it allows: values and decisions, without I/O.

A response of the lock's backend is valid for one session timeout after the request. During that time, the backend does
not grant the lock to another daemon. Afterwards, the status is UNCERTAIN until the next response. If the backend is
silent for a whole session timeout while this process is awake, the status becomes AWAY. The lock then no longer
determines the daemon that makes checkpoints.

A merge continues while the status is UNCERTAIN, because a merge does no harm. An upload stops when the response
expires, so that only the next holder of the lock sends images.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A daemon that holds or requests the lock.

    Attributes:
        address: host and port of its HTTP server.
        since: time when its process began to request the lock, in seconds since the epoch.
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
        """Parse the content of a lock; return None if a program other than a daemon wrote it."""
        try:
            values = json.loads(data or b"")
            return cls(
                host=str(values["host"]),
                pid=int(values["pid"]),
                role=str(values["role"]),
                address=str(values["address"]),
                since=float(values["since"]),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        return f"{self.role} on {self.host} (process {self.pid}, HTTP {self.address})"


class LeadershipStatus(Enum):
    """A daemon's relation to the lock."""

    LEADING = "leading"
    FOLLOWING = "following"
    UNCERTAIN = "uncertain"
    """The last response has expired."""
    AWAY = "away"
    """The backend has been silent for so long that the lock has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipState:
    """Last response of the lock's backend. Times are seconds on the same monotonic clock.

    Attributes:
        timeout: length of a session.
        asked_at: time when the last request with a response was sent.
        mine: whether this daemon held the lock at that time.
        leader: the holder if it is another daemon and its entry could be read.
        theirs_since: time when `leader` was first seen to hold the lock.
        silent_since: start of the time without a response; None if the last request received a response.
        problem: reason why the request received no response.
        terms: number of times that this daemon acquired the lock.
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
        """Return the state after a response that grants us the lock.

        Args:
            asked_at: time when the request was sent.
            taken: whether the request acquired the lock.
        """
        terms = self.terms + 1 if taken or not self.mine else self.terms
        return replace(self, asked_at=asked_at, mine=True, leader=None, silent_since=None, problem="", terms=terms)

    def theirs(self, asked_at: float, leader: Leader | None) -> Self:
        """Return the state after a response according to which another daemon holds the lock."""
        known = not self.mine and self.leader == leader and self.asked_at != float("-inf")
        since = self.theirs_since if known else asked_at
        found = replace(self, asked_at=asked_at, mine=False, leader=leader, theirs_since=since)
        return replace(found, silent_since=None, problem="")

    def silent(self, since: float, problem: str) -> Self:
        """Return the state after a request without a response."""
        since = since if self.silent_since is None else self.silent_since
        return replace(self, silent_since=since, problem=problem)

    def status(self, now: float) -> LeadershipStatus:
        if now - self.asked_at < self.timeout:
            return LeadershipStatus.LEADING if self.mine else LeadershipStatus.FOLLOWING
        if self.silent_since is not None and now - self.silent_since >= self.timeout:
            return LeadershipStatus.AWAY
        return LeadershipStatus.UNCERTAIN


@dataclass(frozen=True, slots=True)
class LeaseBasis:
    """The leadership status and term at the start of a checkpoint."""

    status: LeadershipStatus
    terms: int


def held_back(state: LeadershipState, now: float, *, required: bool, late: bool, others: bool = False) -> str:
    """Return the reason why no checkpoint may begin, or "" if a checkpoint may begin.

    Args:
        required: whether a checkpoint needs the lock even while its backend is unavailable.
        late: whether the newest image is so old that the leader cannot be working. In that case, a checkpoint is more
            important than a single leader.
        others: whether a NameNode has received another daemon's image since this daemon was last known to be the
            leader.
    """
    match state.status(now):
        case LeadershipStatus.LEADING:
            return ""
        case LeadershipStatus.FOLLOWING:
            return "" if late and not required else f"another checkpointer is the leader: {state.leader or 'unknown'}"
        case LeadershipStatus.UNCERTAIN:
            return f"the leader is currently unknown{_because(state)}"
        case LeadershipStatus.AWAY:
            if required:
                return f"checkpointer.leader.required is set, and the lock cannot be acquired{_because(state)}"
            # The last leader continues while the backend is unavailable, unless an image of another daemon shows a new
            # leader.
            led = (state.mine and not others) or state.asked_at == float("-inf")
            return (
                ""
                if led or late
                else f"another checkpointer was the leader at the last response of the lock's backend{_because(state)}"
            )


def must_abort(state: LeadershipState, now: float, basis: LeaseBasis, *, required: bool, sending: bool) -> bool:
    """Return whether a checkpoint must stop, because another daemon has or may have acquired the lock after it began.

    Args:
        sending: whether the image is being uploaded.
    """
    if basis.status is LeadershipStatus.FOLLOWING:
        # the checkpoint began because the leader does not make checkpoints
        return False
    match state.status(now):
        case LeadershipStatus.LEADING:
            return basis.status is LeadershipStatus.LEADING and state.terms != basis.terms
        case LeadershipStatus.FOLLOWING:
            return True
        case LeadershipStatus.UNCERTAIN:
            return sending
        case LeadershipStatus.AWAY:
            return required


def _because(state: LeadershipState) -> str:
    return f": {state.problem}" if state.problem else ""
