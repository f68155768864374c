"""What the checks look at: immutable values, gathered at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hadoop_common.storage_info import StorageInfo
from site_config.checkpoint_config import Role

if TYPE_CHECKING:
    from checkpointer.leadership.look import Holding
    from checkpointer.storage.inspector import StorageDirectory
    from journal.quorum.node_answers import NodeAnswer
    from servlets.node_state import NodeState

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """What was learned, or why it was not; neither where it was not asked for.

    Attributes:
        late: it may yet be well.
        hint: what to do about `error`, "" where nobody said.
    """

    value: T_co | None = None
    error: str = ""
    late: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TxidRange:
    """A segment of edits; `last` is None while it is open."""

    first: int
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNodeFacts:
    """A NameNode, as its RPC and HTTP servers tell.

    Attributes:
        state: name of its HAState.
        beans: of its FSNamesystem in /jmx; empty where it answers but has none.
        segments: its finalized segments after its newest image.
    """

    http: str
    rpc: str
    last_txid: Answer[int] = Answer()
    checkpoint_txid: Answer[int] = Answer()
    state: Answer[str] = Answer()
    storage_info: Answer[StorageInfo] = Answer()
    software: str = ""
    segments: Answer[tuple[TxidRange, ...]] = Answer()
    beans: Answer[dict[str, Any]] = Answer()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFacts:
    """A storage directory.

    Attributes:
        free: in bytes.
        holder: of its lock, "" for nobody.
        lost_pasts: that were set aside.
        unusable: a line for each file that is named like an image and cannot be used.
    """

    root: Path
    listing: Answer[StorageDirectory]
    writable: bool = True
    free: Answer[int] = Answer()
    holder: str = ""
    lost_pasts: tuple[Path, ...] = ()
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """The newest image here; `size` in bytes, `modified` in seconds since the epoch.

    `copies` tells for each copy whether it is whole: its digest, or what is wrong. `deep` counts errors in its records.
    `way_out` tells how an older image can take its place, "" where it is whole or none can. `codec` (class name,
    "" for none) and `layout_version` are None where its summary cannot be read.
    """

    txid: int
    size: int
    modified: float
    copies: tuple[tuple[Path, Answer[str]], ...] = ()
    deep: Answer[int] = Answer()
    way_out: str = ""
    codec: str | None = None
    layout_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFacts:
    """The shared edits of a standby, in a directory or in another journal.

    Attributes:
        place: the folder, or the URI.
        storage_info: neither value nor error where the journal has no VERSION that can be read.
        nodes: the JournalNodes, where it is kept on some.
    """

    place: str
    storage_info: Answer[StorageInfo] = Answer()
    segments: Answer[tuple[TxidRange, ...]] = Answer()
    nodes: tuple[NodeAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """The daemon; `live` and `ready` are its health probes, with what they say."""

    url: str
    live: Answer[tuple[bool, str]] = Answer()
    ready: Answer[tuple[bool, str]] = Answer()
    status: Answer[NodeState] = Answer()


@dataclass(frozen=True, slots=True)
class TlsStep:
    """One thing that TLS needs.

    Attributes:
        what: was tried.
        error: why it does not work, "" where it does; `hint` says what to do then.
        ends: when our own certificate ends, seconds since the epoch; None for another step.
        minor: whether others work without it.
    """

    what: str
    error: str = ""
    hint: str = ""
    ends: float | None = None
    minor: bool = False


@dataclass(frozen=True, slots=True)
class LoginStep:
    """A step of a login by Kerberos; `error` and what to do are "" where it went well."""

    name: str
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFacts:
    """The lock by which daemons agree on the one that makes the checkpoints.

    Attributes:
        lock: what keeps it.
        required: whether no checkpoint is made without it.
        host: this one; `address`: of our own daemon's HTTP server. Both are in the lock where that one leads.
        holding: who has it, None where nobody has.
    """

    lock: str
    required: bool
    host: str
    address: str
    holding: Answer[Holding | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the checks may look at; what no chosen check needs is left out.

    `now` is in seconds since the epoch, `period` in seconds, `reserved` in bytes. `codec` is the class name configured
    for new images, "" for none. `edits_directories` are those that hold edits only; `tls` is None where HTTPS is not
    used, `lock` where every daemon is for itself.
    """

    role: Role
    now: float
    period: float
    transactions: int
    reserved: int
    codec: str = ""
    is_ha: bool = False
    namenodes: tuple[NameNodeFacts, ...] = ()
    directories: tuple[DirectoryFacts, ...] = ()
    edits_directories: tuple[DirectoryFacts, ...] = ()
    image: Answer[ImageFacts] = Answer()
    journal: JournalFacts | None = None
    daemon: DaemonFacts | None = None
    tls: tuple[TlsStep, ...] | None = None
    login: Answer[tuple[LoginStep, ...]] = Answer()
    lock: LockFacts | None = None


def active_of(facts: Facts) -> NameNodeFacts | None:
    """The NameNode to believe: the active one, else the one that is furthest; None where none answers."""
    answering = [node for node in facts.namenodes if node.last_txid.value is not None]
    return max(answering, key=lambda node: (node.state.value == "ACTIVE", node.last_txid.value or 0), default=None)
