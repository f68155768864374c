"""The events and actions of the elector: events report changes, and actions are the steps to take (`elector`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# ---- events ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """A request to enter the election with `data` as the lock's data; a second Join only replaces the data."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Quit:
    """A request to leave the election; `need_fence` keeps the breadcrumb, so that our NameNode is fenced."""

    need_fence: bool


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection to a server.

    Attributes:
        owner: ZooKeeper's id of the session.
        timeout: session timeout, possibly shorter than the requested timeout.
    """

    session: int
    owner: int
    timeout: float = float("inf")


@dataclass(frozen=True, slots=True)
class Disconnected:
    session: int


@dataclass(frozen=True, slots=True)
class Expired:
    session: int


@dataclass(frozen=True, slots=True)
class SessionRefused:
    """A failed attempt to open a session: the login was refused, or a key store cannot be read."""

    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class LockChanged:
    """A fired watch of the lock."""

    session: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to `request`.

    Attributes:
        owner: result of CheckLock: session that owns the lock; None if there is no lock.
        data, version: result of ReadBreadcrumb: None and 0 if there is no breadcrumb.
    """

    request: ZnodeRequest
    failure: Failure | None = None
    reason: str = ""
    owner: int | None = None
    data: bytes | None = None
    version: int = 0


class Failure(Enum):
    """Reason why a request failed."""

    EXISTS = "exists"
    NO_NODE = "no node"
    BAD_VERSION = "bad version"
    LOST = "lost"
    """The request may or may not have been executed."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FencingEnded:
    """The end of FenceOldActive; `problem` is "" after a success."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class ActivationEnded:
    """The end of BecomeActive; `problem` is "" after a success."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class ElectionFault:
    """An internal fault during an action; the session is then no longer reliable."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """The passing of time."""


SessionEvent = Connected | Disconnected | Expired | SessionRefused | LockChanged
Event = Join | Quit | SessionEvent | Reply | FencingEnded | ActivationEnded | ElectionFault | Tick


# ---- actions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSession:
    session: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    session: int


@dataclass(frozen=True, slots=True)
class ZnodeRequest:
    """A request to ZooKeeper, which a Reply answers; its number is unique."""

    session: int
    number: int


@dataclass(frozen=True, slots=True)
class CreateLock(ZnodeRequest):
    data: bytes


@dataclass(frozen=True, slots=True)
class CheckLock(ZnodeRequest):
    """A read of the lock, with a watch."""


@dataclass(frozen=True, slots=True)
class ReadBreadcrumb(ZnodeRequest):
    pass


@dataclass(frozen=True, slots=True)
class CreateBreadcrumb(ZnodeRequest):
    data: bytes


@dataclass(frozen=True, slots=True)
class SetBreadcrumb(ZnodeRequest):
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class DeleteBreadcrumb(ZnodeRequest):
    version: int


@dataclass(frozen=True, slots=True)
class FenceOldActive:
    """A request to fence the node in the breadcrumb; FencingEnded follows before any other event."""

    breadcrumb: bytes


@dataclass(frozen=True, slots=True)
class BecomeActive:
    """A request to make the NameNode active; ActivationEnded follows before any other event."""


@dataclass(frozen=True, slots=True)
class BecomeStandby:
    pass


@dataclass(frozen=True, slots=True)
class EnterNeutral:
    pass


@dataclass(frozen=True, slots=True)
class Fatal:
    """A failure of the election, which the elector retries after a pause."""

    reason: str


Action = (
    OpenSession | CloseSession | ZnodeRequest | FenceOldActive | BecomeActive | BecomeStandby | EnterNeutral | Fatal
)
