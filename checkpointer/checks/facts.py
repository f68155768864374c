"""The facts that the checks evaluate: immutable values, gathered at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hadoop_common.names import SegmentName
from hadoop_common.storage_info import StorageInfo

if TYPE_CHECKING:
    from checkpointer.leadership.lock_backend import LockHolder
    from checkpointer.storage.inspector import StorageDirectory
    from checkpointer.storage.lost_pasts import UnfinishedStartOver
    from journal.quorum.node_answers import NodeAnswer
    from node_state.state import NodeState

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Observation(Generic[T_co]):
    """A value or the error of its query; neither is set if there was no query.

    Attributes:
        late: whether the error is a timeout, so that the server or disk may be healthy.
        hint: the next step for `error`, "" if unknown.
        refused: whether the server answered, but refused the query to this user.
    """

    value: T_co | None = None
    error: str = ""
    late: bool = False
    hint: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NameDirectories:
    """The storage directories of a NameNode.

    Attributes:
        used: number of directories that the NameNode uses.
        failed: directories that the NameNode no longer uses, because an access failed.
        images: whether the NameNode uses a directory for images.
    """

    used: int
    failed: tuple[str, ...]
    images: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NameNodeFacts:
    """The state of a NameNode, as its RPC and HTTP servers report it.

    Attributes:
        state: name of its HAState.
        beans: attributes of the FSNamesystem bean in /jmx; empty if the response lacks the bean.
        segments: finalized segments after the NameNode's newest image.
        directories: without a value if the NameNode does not report them.
        clock_ahead: seconds by which the clock of the times in `beans` is ahead of this host's clock; negative if that
            clock is behind, and 0 if the difference is within the tolerance.
    """

    http: str
    rpc: str
    last_txid: Observation[int] = Observation()
    checkpoint_txid: Observation[int] = Observation()
    state: Observation[str] = Observation()
    storage_info: Observation[StorageInfo] = Observation()
    software: str = ""
    segments: Observation[tuple[SegmentName, ...]] = Observation()
    beans: Observation[dict[str, Any]] = Observation()
    directories: Observation[NameDirectories] = Observation()
    clock_ahead: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFacts:
    """A storage directory.

    Attributes:
        free: free space in bytes, including the space of unfinished images.
        inodes: number of free inodes; without a value if the file system has no limit.
        holder: process that holds the directory's lock, "" if the lock is free.
        lost_pasts: folders with files of a lost past.
        not_compared: folders with files that the daemon set aside because it could not compare them with the NameNode.
        unusable: a line for each unusable file with the name of an image.
        start_over: unfinished start-over, during which the daemon does not use the images.
    """

    root: Path
    listing: Observation[StorageDirectory]
    writable: bool = True
    free: Observation[int] = Observation()
    inodes: Observation[int | None] = Observation()
    holder: str = ""
    lost_pasts: tuple[Path, ...] = ()
    not_compared: tuple[Path, ...] = ()
    unusable: tuple[str, ...] = ()
    start_over: UnfinishedStartOver | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """The newest image in our storage directories.

    Attributes:
        size: size in bytes.
        modified: time of the last change, in seconds since the epoch.
        copies: digest or fault of each copy.
        deep: number of errors in the image's records.
        way_out: steps by which an older image can replace this image; "" if this image is intact or has no replacement.
        codec: class name, "" for uncompressed, None if the summary cannot be read.
        layout_version: None if the summary cannot be read.
    """

    txid: int
    size: int
    modified: float
    copies: tuple[tuple[Path, Observation[str]], ...] = ()
    deep: Observation[int] = Observation()
    way_out: str = ""
    codec: str | None = None
    layout_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFacts:
    """The shared edits of a standby, in a directory or in another journal.

    Attributes:
        place: the folder, or the URI.
        storage_info: empty if this kind of journal has no readable VERSION.
        nodes: the JournalNodes; empty if the journal is not on JournalNodes.
    """

    place: str
    storage_info: Observation[StorageInfo] = Observation()
    segments: Observation[tuple[SegmentName, ...]] = Observation()
    nodes: tuple[NodeAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """The state of the daemon; `live` and `ready` are the results of the two health probes, with their messages."""

    url: str
    live: Observation[tuple[bool, str]] = Observation()
    ready: Observation[tuple[bool, str]] = Observation()
    status: Observation[NodeState] = Observation()


@dataclass(frozen=True, slots=True)
class TlsStep:
    """One tested requirement of TLS.

    Attributes:
        what: the test.
        error: reason why the step fails, "" if it succeeds; `hint` is the next action.
        ends: expiry of our certificate, in seconds since the epoch; None for other steps.
        minor: whether HTTPS works even if the step fails.
    """

    what: str
    error: str = ""
    hint: str = ""
    ends: float | None = None
    minor: bool = False


@dataclass(frozen=True, slots=True)
class LoginStep:
    """A step of a Kerberos login; `error` is "" if it succeeded, and `warning` is "" if it succeeded as configured."""

    name: str
    error: str = ""
    hint: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFacts:
    """The lock with which several daemons elect the leader that makes the checkpoints.

    Attributes:
        lock: file or ensemble that stores the lock.
        required: whether checkpoints need the lock.
        host, address: this host and the HTTP address of its daemon; the lock contains both while that daemon is the
            leader.
        holding: the holder, None if the lock is free.
    """

    lock: str
    required: bool
    host: str
    address: str
    holding: Observation[LockHolder | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of all chosen checks; facts that no chosen check needs keep their defaults.

    Attributes:
        now: current time in seconds since the epoch.
        period: checkpoint period in seconds.
        reserved: reserved space in bytes.
        rebootstrap: whether a standby fetches the active NameNode's image if edits are missing.
        codec: class name configured for new images, "" for uncompressed.
        edits_directories: directories that contain only edits.
        tls: None if HTTPS is not used.
        lock: None if no lock is configured.
    """

    now: float
    period: float
    transactions: int
    reserved: int
    rebootstrap: bool = False
    codec: str = ""
    is_ha: bool = False
    namenodes: tuple[NameNodeFacts, ...] = ()
    directories: tuple[DirectoryFacts, ...] = ()
    edits_directories: tuple[DirectoryFacts, ...] = ()
    image: Observation[ImageFacts] = Observation()
    journal: JournalFacts | None = None
    daemon: DaemonFacts | None = None
    tls: tuple[TlsStep, ...] | None = None
    login: Observation[tuple[LoginStep, ...]] = Observation()
    lock: LockFacts | None = None


def active_of(facts: Facts) -> NameNodeFacts | None:
    """Return the active NameNode or, if none is active, the NameNode with the highest transaction id.

    If several NameNodes qualify, return the NameNode with the newest image; if no NameNode answers, return None.
    """

    def rank(node: NameNodeFacts) -> tuple[bool, int, int]:
        return node.state.value == "ACTIVE", node.last_txid.value or 0, node.checkpoint_txid.value or 0

    return max((node for node in facts.namenodes if node.last_txid.value is not None), key=rank, default=None)
