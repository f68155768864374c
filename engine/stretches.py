"""What was applied, told by the transactions themselves: stretches of the edit log, each known by its opening."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hadoop_common.names import parse_segment
from journal.file_ops import (
    AddOp,
    CloseOp,
    ConcatDeleteOp,
    DeleteOp,
    MkdirOp,
    RenameOldOp,
    RenameOp,
    SymlinkOp,
    TruncateOp,
)
from journal.journal import ReadableSegment
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, read_ops
from journal.system_ops import (
    EndLogSegmentOp,
    GetDelegationTokenOp,
    RenewDelegationTokenOp,
    RollingUpgradeFinalizeOp,
    RollingUpgradeStartOp,
    StartLogSegmentOp,
    UpdateMasterKeyOp,
)

# The NameNode stamps them with its clock, or with numbers drawn at random.
_STAMPED: Final = (
    AddOp,
    CloseOp,
    ConcatDeleteOp,
    DeleteOp,
    MkdirOp,
    RenameOldOp,
    RenameOp,
    SymlinkOp,
    TruncateOp,
    GetDelegationTokenOp,
    RenewDelegationTokenOp,
    UpdateMasterKeyOp,
    RollingUpgradeStartOp,
    RollingUpgradeFinalizeOp,
)


# An opening that tells nothing for so long goes on in another stretch.
_LONGEST_OPENING: Final = 4096
MAX_HISTORY: Final = 1024
"""How many stretches are kept below an image: those of six weeks of hourly checkpoints of an idle cluster."""


def is_telling(op: EditOp) -> bool:
    """Whether no other history has this transaction at this txid: it holds a time of the NameNode, or an RPC's id."""
    return isinstance(op, _STAMPED) or bool(getattr(op, "rpc_client_id", b""))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Transactions `first` to `last` of one segment, as they were applied.

    Attributes:
        upto: where the opening ends: at the first telling transaction, or where reading ended before there was one.
        digest: BLAKE2b of the opening, `first` to `upto`, in hex.
        telling: whether the opening ends with a telling transaction.
        starts: whether the segment begins with `first`.
        ends: whether it ends with `last`.
    """

    first: int
    last: int
    upto: int
    digest: str
    telling: bool
    starts: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class HeldImage:
    """An image of ours: its txid and MD5 in hex."""

    txid: int
    md5: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What an image was made of.

    Attributes:
        stretches: those that the image ends with, from the last telling one on.
        base: the image below them, where none of them is telling.
        before: the stretches below `base`, from the last telling one on; none where they are not known.
        life: the process of the NameNode whose past this image was found to be, as its address and its start in ms
            since the epoch; None where it is not known.
    """

    stretches: tuple[Stretch, ...]
    base: HeldImage | None
    before: tuple[Stretch, ...] = ()
    life: tuple[str, int] | None = None

    @classmethod
    def over(
        cls, stretches: Sequence[Stretch], base: HeldImage, below: Claim | None, *, life: tuple[str, int] | None
    ) -> Claim:
        """Describe an image that all of `stretches` made of `base`, which was made of what `below` says, if known."""
        ending = tuple(stretches[_anchor(stretches, len(stretches)) :])
        if any(stretch.telling for stretch in ending):
            return cls(ending, None, life=life)
        return cls(ending, base, () if below is None else below.history(), life)

    def history(self) -> tuple[Stretch, ...]:
        """Return all stretches that are known, from a telling one on; none where none tells, or where they are many."""
        known = (*self.before, *self.stretches)
        return known if len(known) <= MAX_HISTORY and any(stretch.telling for stretch in known) else ()


class Opening:
    """Takes transactions one after the other until one is telling.

    Attributes:
        upto: the last one it took, -1 before the first.
        telling: whether that one is; nothing more is taken then.
    """

    def __init__(self) -> None:
        self._chain = b""
        self.upto = -1
        self.telling = False

    def take(self, op: EditOp) -> bytes:
        """Add an operation; returns the digest of all so far."""
        # A representation has every field but the place in the file.
        said = repr(op).encode("utf-8", "surrogatepass")
        self._chain = hashlib.blake2b(self._chain + said, digest_size=16).digest()
        self.upto = op.txid
        self.telling = is_telling(op)
        return self._chain

    def go_back(self, txid: int, digest: bytes) -> None:
        """Be as after the operation at `txid`, which was not telling."""
        self._chain, self.upto, self.telling = digest, txid, False

    @property
    def digest(self) -> str:
        """In hex, each operation's over the digest of those before it."""
        return self._chain.hex()


@dataclass(slots=True)
class _Draft:
    """A stretch that still grows; `end` is that of its segment where it is known, `digests` those of each step."""

    first: int
    starts: bool
    end: int | None = None
    opening: Opening = field(default_factory=Opening)
    digests: list[bytes] = field(default_factory=list)
    last: int = -1
    closed: bool = False

    @property
    def is_full(self) -> bool:
        return not self.opening.telling and len(self.digests) >= _LONGEST_OPENING

    def take(self, op: EditOp) -> None:
        if not self.opening.telling and op.txid > self.opening.upto:
            self.digests.append(self.opening.take(op))

    def cut(self, txid: int) -> None:
        """Forget what was noted behind `txid` and not applied: it may be another operation next time."""
        if self.opening.upto > txid:
            del self.digests[txid - self.first + 1 :]
            self.opening.go_back(txid, self.digests[-1])

    def frozen(self) -> Stretch:
        opening = self.opening
        ends = self.end == self.last
        return Stretch(self.first, self.last, opening.upto, opening.digest, opening.telling, self.starts, ends)


def stretches_of(segments: Sequence[EditLogSegment]) -> tuple[Stretch, ...]:
    """Whole finalized segments as stretches.

    Raises:
        JournalError: one is damaged.
        OSError: one cannot be read.
    """
    return tuple(_whole(segment.first, segment.last, read_ops(segment)) for segment in segments)


def stretch_of(segment: ReadableSegment) -> Stretch:
    """Return a whole finalized segment of a journal as a stretch.

    Raises:
        HdfsError, OSError: it cannot be read.
    """
    return _whole(segment.first, segment.last, segment.read(segment.first))


def _whole(first: int, last: int | None, ops: Iterable[EditOp]) -> Stretch:
    opening = Opening()
    for op in ops:
        opening.take(op)
        if opening.telling:
            break
    end = opening.upto if last is None else last
    return Stretch(first, end, opening.upto, opening.digest, opening.telling, starts=True, ends=True)


class Recorder:
    """Notes what goes into a namespace; one thread at a time.

    Attributes:
        base: the image that the transactions were applied to.
        based: whether that image, too, is yet to be shown to be of the NameNode's past.
    """

    def __init__(self) -> None:
        self._known: list[Stretch] = []
        self._drafts: list[_Draft] = []
        self._proven = 0
        self._seen = -1
        self.base = HeldImage(-1, "")
        self.based = True

    # ---- what is applied -----------------------------------------------------------------------------------

    def begin(self, image: HeldImage, claim: Claim | None = None) -> None:
        """Start with an image; `claim` is what it was made of, where that is known."""
        self._known, self._drafts = [] if claim is None else list(claim.stretches), []
        self._proven = 0
        self._seen = image.txid
        self.base = image if claim is None or claim.base is None else claim.base
        self.based = claim is None or claim.base is not None

    def noting(self, ops: Iterable[EditOp]) -> Iterator[EditOp]:
        """`ops`, each noted as it passes."""
        for op in ops:
            self._note(op, None)
            yield op

    def opened(self, segment: EditLogSegment, first: int, read: Callable[[int], Iterator[EditOp]]) -> None:
        """Note the opening of a segment whose transactions are about to be applied.

        Args:
            first: of these transactions.
            read: gives transactions of the segment from a txid on.
        """
        self.resumes(read)
        # Of one that is being written, `last` is no more than what is durable.
        name = parse_segment(segment.path.name)
        end = None if name is None else name.last
        for op in read(first):
            if self._note(op, end).opening.telling:
                return

    def resumes(self, read: Callable[[int], Iterator[EditOp]]) -> None:
        """A segment is read on: where it does not begin as the stretch that it is to go on with, another one begins.

        Args:
            read: gives transactions of the segment from a txid on, or later ones, which tell nothing.
        """
        if not self._drafts or self._drafts[-1].last < 0:
            return
        draft, found = self._drafts[-1], Opening()
        for op in read(draft.first):
            if op.txid > draft.opening.upto or (found.upto < 0 and op.txid != draft.first):
                break
            found.take(op)
        if found.upto >= 0 and (found.upto, found.digest) != (draft.opening.upto, draft.opening.digest):
            draft.closed = True

    def reached(self, txid: int) -> None:
        """Everything up to `txid` was applied, and nothing behind it."""
        while self._drafts and self._drafts[-1].first > txid:
            self._drafts.pop()
        if self._drafts:
            self._drafts[-1].cut(txid)
        following = txid + 1
        for draft in reversed(self._drafts):
            draft.last = following - 1
            following = draft.first
        self._seen = txid

    def _note(self, op: EditOp, end: int | None) -> _Draft:
        draft = self._drafts[-1] if self._drafts else None
        if isinstance(op, StartLogSegmentOp):
            if draft is None or draft.first != op.txid:
                draft = self._append(_Draft(op.txid, starts=True, end=end))
        elif (
            draft is None
            or (draft.end is not None and op.txid > draft.end)
            or draft.closed
            or draft.is_full
            or op.txid > self._seen + 1
        ):
            draft = self._append(_Draft(op.txid, starts=False, end=end))
        draft.take(op)
        if isinstance(op, EndLogSegmentOp):
            draft.end = op.txid
        self._seen = max(self._seen, op.txid)
        return draft

    def _append(self, draft: _Draft) -> _Draft:
        self._drafts.append(draft)
        return draft

    # ---- what has to be shown ------------------------------------------------------------------------------

    def stretches(self) -> tuple[Stretch, ...]:
        """All that are kept, in order."""
        return (*self._known, *(draft.frozen() for draft in self._drafts if draft.last >= draft.first))

    def claim(self) -> Claim:
        """What an image is made of that is saved now."""
        return Claim(self.stretches(), self.base if self.based else None)

    def unproven(self) -> tuple[Stretch, ...]:
        """Those that were not shown to be of the NameNode's past yet, and the last telling one before them."""
        held = self.stretches()
        return held[_anchor(held, self._proven) :]

    def rebase(self, image: HeldImage) -> None:
        """The NameNode has an image of ours: what it was made of needs not be compared any more."""
        self.base, self.based = image, True
        self._forget(sum(stretch.last <= image.txid for stretch in self.stretches()))
        self._proven = 0

    def _forget(self, number: int) -> None:
        dropped = min(number, len(self._known))
        del self._known[:dropped]
        del self._drafts[: number - dropped]

    def proven(self, image: HeldImage | None = None) -> None:
        """What is held is of the NameNode's past; what needs not be compared any more is forgotten.

        Args:
            image: one of ours that the NameNode has, where one was asked for.
        """
        held = self.stretches()
        if image is not None and self.based and image.txid > self.base.txid:
            self.base = image
        if any(stretch.telling for stretch in held):
            self.based = False
        if self.based:
            forgotten = sum(stretch.last <= self.base.txid for stretch in held)
        else:
            forgotten = _anchor(held, len(held))
        self._forget(forgotten)
        held = self.stretches()
        # One that still grows is looked at again.
        self._proven = len(held) if not held or held[-1].ends else len(held) - 1


def _anchor(held: Sequence[Stretch], number: int) -> int:
    """Index of the last telling stretch before `number`, 0 without one."""
    return next((index for index in range(min(number, len(held)) - 1, -1, -1) if held[index].telling), 0)
