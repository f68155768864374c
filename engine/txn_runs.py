"""Runs of transactions applied to a namespace; the runs identify the history to which the transactions belong.

`TxnRun` describes transactions of one segment. `RunOpening` computes its digest. `TxnRecorder` records the runs of a
namespace while transactions are applied. `Provenance` is the record stored next to an image.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hadoop_common.names import parse_segment
from journal.journal import ReadableSegment
from journal.op_times import CLOCKS
from journal.operation import EditOp
from journal.ops import CreateSnapshotOp, DeleteSnapshotOp, RenameSnapshotOp, by_name
from journal.segment_file import EditLogSegment, read_ops
from journal.system_ops import EndLogSegmentOp, RenewDelegationTokenOp, StartLogSegmentOp, UpdateMasterKeyOp

# These operations contain times from the NameNode's clock, or random numbers. Operations on snapshots contain a time
# only from layout -66 on.
_SNAPSHOT_OPS: Final = (CreateSnapshotOp, DeleteSnapshotOp, RenameSnapshotOp)
_TIME_STAMPED: Final = (
    *(kind for kind in map(by_name, CLOCKS) if kind not in _SNAPSHOT_OPS),
    RenewDelegationTokenOp,
    UpdateMasterKeyOp,
)

# After this number of transactions without an identifying transaction, another run begins.
_MAX_OPENING: Final = 4096
MAX_HISTORY: Final = 1024
"""Maximum number of runs stored for an image; with hourly checkpoints, an idle cluster reaches it in six weeks."""
_JSON_NAMES: Final = {"opening_end": "upto", "identifying": "telling"}
"""Names of fields in `provenance.json` that differ from the attributes' names."""


def is_identifying(op: EditOp) -> bool:
    """Return whether only one history can contain this transaction at this txid.

    An identifying transaction contains a time from the NameNode's clock or the id of an RPC.
    """
    return isinstance(op, _TIME_STAMPED) or bool(getattr(op, "rpc_client_id", b""))


@dataclass(frozen=True, slots=True)
class TxnRun:
    """The applied transactions `first` to `last` of one segment.

    Attributes:
        opening_end: txid of the first identifying transaction, or the last txid that was read if no transaction is
            identifying.
        digest: BLAKE2b of the opening, `first` to `opening_end`, in hex.
        identifying: whether the opening ends with an identifying transaction.
        starts: whether the segment begins with `first`.
        ends: whether the segment ends with `last`.
    """

    first: int
    last: int
    opening_end: int
    digest: str
    identifying: bool
    starts: bool
    ends: bool

    def to_json(self) -> dict[str, Any]:
        return {_JSON_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TxnRun:
        """Convert a result of `to_json` to a run; raise TypeError or LookupError for any other value."""
        return cls(**{name: values[_JSON_NAMES.get(name, name)] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class ImageId:
    """Identity of an image that the checkpointer made: txid, and MD5 in hex."""

    txid: int
    md5: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The transactions and the base from which an image was made.

    Attributes:
        runs: the last runs in the image, from the newest identifying run on.
        base: the image below `runs`; None if one of the runs is identifying.
        before: the runs below `base`, from the newest identifying run on; empty if these runs are unknown.
        life: the NameNode process to whose past this image belongs, as its address and its start in ms since the epoch;
            None if unknown.
        made: whether this node made the image.
    """

    runs: tuple[TxnRun, ...]
    base: ImageId | None
    before: tuple[TxnRun, ...] = ()
    life: tuple[str, int] | None = None
    made: bool = False

    @classmethod
    def over(
        cls, runs: Sequence[TxnRun], base: ImageId, below: Provenance | None, *, life: tuple[str, int] | None
    ) -> Provenance:
        """Describe an image made of `base` and all `runs`; `below` is the provenance of `base`, if known."""
        ending = tuple(runs[_anchor(runs, len(runs)) :])
        if any(run.identifying for run in ending):
            return cls(ending, None, life=life)
        return cls(ending, base, () if below is None else below.history(), life)

    def history(self) -> tuple[TxnRun, ...]:
        """Return all known runs; empty if no run is identifying or more than `MAX_HISTORY` are known."""
        known = (*self.before, *self.runs)
        return known if len(known) <= MAX_HISTORY and any(run.identifying for run in known) else ()

    def to_json(self) -> dict[str, Any]:
        """Return the value that `provenance.json` contains for an image."""
        return {
            "stretches": [run.to_json() for run in self.runs],
            "base": None if self.base is None else asdict(self.base),
            "before": [run.to_json() for run in self.before],
            "life": self.life,
            "made": self.made,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Provenance:
        """Convert a result of `to_json` to a provenance; raise TypeError, ValueError or LookupError for other data."""
        base, life = values["base"], values.get("life")
        return cls(
            tuple(map(TxnRun.from_json, values["stretches"])),
            None if base is None else ImageId(**base),
            tuple(map(TxnRun.from_json, values.get("before", ()))),
            None if life is None else (str(life[0]), int(life[1])),
            values.get("made") is True,
        )


class RunOpening:
    """Digest of a run's transactions up to the first identifying transaction.

    Attributes:
        opening_end: txid of the last transaction in the digest; -1 before the first.
        identifying: whether that transaction is identifying; the digest is then complete.
    """

    def __init__(self) -> None:
        self._chain = b""
        self.opening_end = -1
        self.identifying = False

    def take(self, op: EditOp) -> bytes:
        """Add an operation; return the digest of all operations so far."""
        # The representation contains every field except the position in the file.
        content = repr(op).encode("utf-8", "surrogatepass")
        self._chain = hashlib.blake2b(self._chain + content, digest_size=16).digest()
        self.opening_end = op.txid
        self.identifying = is_identifying(op)
        return self._chain

    def go_back(self, txid: int, digest: bytes) -> None:
        """Restore the state after the operation at `txid`, which is not identifying."""
        self._chain, self.opening_end, self.identifying = digest, txid, False

    @property
    def digest(self) -> str:
        """The digest in hex; each operation is hashed together with the digest of all earlier operations."""
        return self._chain.hex()


@dataclass(slots=True)
class _GrowingRun:
    """Run that still grows.

    `end` is the last txid of its segment, if known; `digests` has the digest after each operation.
    """

    first: int
    starts: bool
    end: int | None = None
    opening: RunOpening = field(default_factory=RunOpening)
    digests: list[bytes] = field(default_factory=list)
    last: int = -1
    closed: bool = False

    @property
    def is_full(self) -> bool:
        return not self.opening.identifying and len(self.digests) >= _MAX_OPENING

    def take(self, op: EditOp) -> None:
        if not self.opening.identifying and op.txid > self.opening.opening_end:
            self.digests.append(self.opening.take(op))

    def cut(self, txid: int) -> None:
        """Discard operations after `txid`; they were not applied, and may differ when they are read again."""
        if self.opening.opening_end > txid:
            del self.digests[txid - self.first + 1 :]
            self.opening.go_back(txid, self.digests[-1])

    def frozen(self) -> TxnRun:
        opening, ends = self.opening, self.end == self.last
        return TxnRun(
            self.first, self.last, opening.opening_end, opening.digest, opening.identifying, self.starts, ends
        )


def runs_of_segments(segments: Sequence[EditLogSegment]) -> tuple[TxnRun, ...]:
    """Return complete finalized segments as runs.

    Raises:
        JournalError: a segment is damaged.
        OSError: a segment cannot be read.
    """
    return tuple(_whole(segment.first, segment.last, read_ops(segment)) for segment in segments)


def run_of_segment(segment: ReadableSegment) -> TxnRun:
    """Return a complete finalized segment of a journal as a run.

    Raises:
        HdfsError, OSError: the segment cannot be read.
    """
    return _whole(segment.first, segment.last, segment.read(segment.first))


def _whole(first: int, last: int | None, ops: Iterable[EditOp]) -> TxnRun:
    opening = RunOpening()
    for op in ops:
        opening.take(op)
        if opening.identifying:
            break
    end = opening.opening_end if last is None else last
    return TxnRun(first, end, opening.opening_end, opening.digest, opening.identifying, starts=True, ends=True)


class TxnRecorder:
    """Record of the transactions in a namespace; not thread-safe.

    Attributes:
        base: the image to which the transactions were applied.
        base_unproven: whether `base` has not yet been proven to belong to the NameNode's past.
    """

    def __init__(self) -> None:
        self._known: list[TxnRun] = []
        self._growing: list[_GrowingRun] = []
        self._proven = 0
        self._seen = -1
        self.base = ImageId(-1, "")
        self.base_unproven = True

    def begin(self, image: ImageId, provenance: Provenance | None = None) -> None:
        """Start with an image and, if known, its provenance."""
        self._known, self._growing = [] if provenance is None else list(provenance.runs), []
        self._proven = 0
        self._seen = image.txid
        self.base = image if provenance is None or provenance.base is None else provenance.base
        self.base_unproven = provenance is None or provenance.base is not None

    def record_all(self, ops: Iterable[EditOp]) -> Iterator[EditOp]:
        """Record each operation of `ops`, then yield it."""
        for op in ops:
            self._record(op, None)
            yield op

    def record_opening(self, segment: EditLogSegment, first: int, read: Callable[[int], Iterator[EditOp]]) -> None:
        """Record the opening of a segment whose transactions are about to be applied.

        Args:
            first: txid of the first of these transactions.
            read: returns transactions of the segment from a txid.
        """
        self.check_resumed(read)
        # The `last` of a segment in progress covers only its durable part.
        name = parse_segment(segment.path.name)
        end = None if name is None else name.last
        for op in read(first):
            if self._record(op, end).opening.identifying:
                return

    def check_resumed(self, read: Callable[[int], Iterator[EditOp]]) -> None:
        """Begin another run if a segment no longer matches the run that its next transactions would continue, or if it
        begins inside that run.

        Args:
            read: returns transactions of the segment from a txid. If the source has only later transactions of the
                segment, nothing is compared.
        """
        if not self._growing or self._growing[-1].last < 0:
            return
        run, found = self._growing[-1], RunOpening()
        opening = run.opening
        for op in read(run.first):
            if found.opening_end < 0 and op.txid != run.first:
                # transactions that were applied from one segment are in two segments now
                run.closed |= isinstance(op, StartLogSegmentOp) and op.txid <= run.last
                break
            if op.txid > opening.opening_end:
                break
            found.take(op)
        same = (found.opening_end, found.digest) == (opening.opening_end, opening.digest)
        if found.opening_end >= 0 and not same:
            run.closed = True

    def mark_applied(self, txid: int) -> None:
        """Record that all transactions up to `txid`, and no later transactions, are applied."""
        while self._growing and self._growing[-1].first > txid:
            self._growing.pop()
        if self._growing:
            self._growing[-1].cut(txid)
        following = txid + 1
        for run in reversed(self._growing):
            run.last = following - 1
            following = run.first
        self._seen = txid

    def _record(self, op: EditOp, end: int | None) -> _GrowingRun:
        run = self._growing[-1] if self._growing else None
        if isinstance(op, StartLogSegmentOp):
            if run is None or run.first != op.txid:
                run = self._append(_GrowingRun(op.txid, starts=True, end=end))
        elif (
            run is None
            or (run.end is not None and op.txid > run.end)
            or run.closed
            or run.is_full
            or op.txid > self._seen + 1
        ):
            run = self._append(_GrowingRun(op.txid, starts=False, end=end))
        run.take(op)
        if isinstance(op, EndLogSegmentOp):
            run.end = op.txid
        self._seen = max(self._seen, op.txid)
        return run

    def _append(self, run: _GrowingRun) -> _GrowingRun:
        self._growing.append(run)
        return run

    def runs(self) -> tuple[TxnRun, ...]:
        """Return all recorded runs, in order."""
        return (*self._known, *(run.frozen() for run in self._growing if run.last >= run.first))

    def provenance(self) -> Provenance:
        """Return the provenance of an image that is being saved."""
        return Provenance(self.runs(), self.base if self.base_unproven else None)

    def unproven(self) -> tuple[TxnRun, ...]:
        """Return the runs not yet proven to belong to the NameNode's past, and the last identifying run before them."""
        runs = self.runs()
        return runs[_anchor(runs, self._proven) :]

    def rebase(self, image: ImageId) -> None:
        """Discard the runs that are part of an image of the NameNode, because they need no further comparison."""
        self.base, self.base_unproven = image, True
        self._forget(sum(run.last <= image.txid for run in self.runs()))
        self._proven = 0

    def _forget(self, number: int) -> None:
        dropped = min(number, len(self._known))
        del self._known[:dropped]
        del self._growing[: number - dropped]

    def mark_proven(self, image: ImageId | None = None) -> None:
        """Record that all runs belong to the NameNode's past; discard the runs that need no further comparison.

        Args:
            image: an image that this node made, and that was found on the NameNode.
        """
        runs = self.runs()
        if image is not None and self.base_unproven and image.txid > self.base.txid:
            self.base = image
        if any(run.identifying for run in runs):
            self.base_unproven = False
        if self.base_unproven:
            forgotten = sum(run.last <= self.base.txid for run in runs)
        else:
            forgotten = _anchor(runs, len(runs))
        self._forget(forgotten)
        runs = self.runs()
        # A run that is still growing is compared again.
        self._proven = len(runs) if not runs or runs[-1].ends else len(runs) - 1


def _anchor(runs: Sequence[TxnRun], number: int) -> int:
    """Return the index of the last identifying run before `number`, or 0 if no such run exists."""
    return next((index for index in range(min(number, len(runs)) - 1, -1, -1) if runs[index].identifying), 0)
