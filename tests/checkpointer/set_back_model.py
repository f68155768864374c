"""A NameNode that is set back at random, and one of our nodes, both in memory. Every offered image is checked.

The node uses the product's `TxnRecorder`, `PastWatch` and `prove`; the model has no files, sockets or images. An image
is the digest of the history from which it was made, so that an image of a lost past is recognised immediately.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from checkpointer.set_back.watch import PastWatch
from engine.txn_runs import ImageId, Provenance, TxnRecorder
from hadoop_common.names import segment_name
from journal.attribute_ops import SetPermissionsOp
from journal.file_ops import DeleteOp
from journal.operation import EditOp
from journal.segment_file import EditLogSegment
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp


class LostPastOfferedError(AssertionError):
    """An accepted image that does not belong to the NameNode's past."""


@dataclass
class ModelSegment:
    """A segment (`ReadableSegment`); a file of another history is another object."""

    first: int
    ops: list[EditOp]
    in_progress: bool = True
    name: str = "segment"

    @property
    def last(self) -> int:
        return self.first + len(self.ops) - 1

    def read(self, from_txid: int) -> Iterator[EditOp]:
        yield from [op for op in self.ops if op.txid >= from_txid]


def extend(state: str, op: EditOp) -> str:
    return hashlib.md5((state + repr(op)).encode()).hexdigest()


@dataclass
class ModelNamenode:
    """A NameNode's segments, its images by txid, and copies of both that an operator may restore.

    Attributes:
        telling: fraction of the transactions that contain a time.
        silent: fraction of the queries that the NameNode does not answer.
        extra: numbers of transactions to keep before the oldest image; each purge draws a number.
        set_backs: number of set-backs that lost transactions.
        active: which of the two NameNodes of the cluster is active.
        starts: number of starts of each NameNode.
    """

    random: random.Random
    telling: float
    silent: float = 0.05
    extra: Sequence[int] = (0, 0, 10, 1000)
    segments: list[ModelSegment] = field(default_factory=list)
    images: dict[int, str] = field(default_factory=lambda: {0: ""})
    states: dict[int, str] = field(default_factory=lambda: {0: ""})
    copies: list[tuple[list[ModelSegment], dict[int, str], dict[int, str]]] = field(default_factory=list)
    clock: int = 0
    newest: int = 0
    set_backs: int = 0
    active: str = "nn1"
    starts: dict[str, int] = field(default_factory=lambda: {"nn1": 0, "nn2": 0})

    # ---- ordinary life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start both NameNodes."""
        self.starts = {name: number + 1 for name, number in self.starts.items()}
        self._take_over()

    def fail_over(self) -> None:
        """Make the other NameNode active; that NameNode may have been restarted and may lack the newest images."""
        self.active = "nn2" if self.active == "nn1" else "nn1"
        self.starts[self.active] += self.random.choice((0, 1))
        self.images = dict(sorted(self.images.items())[: self.random.randint(1, len(self.images))])
        self._take_over()

    def _take_over(self) -> None:
        """Finalize the open segment, as a NameNode does when it becomes active, and begin another."""
        if self.segments and self.segments[-1].in_progress:
            self.segments[-1].in_progress = False
        self._begin()

    def _begin(self) -> None:
        self.segments.append(ModelSegment(self.newest + 1, []))
        self._append(StartLogSegmentOp(txid=self.newest + 1))

    def _append(self, op: EditOp) -> None:
        self.segments[-1].ops.append(op)
        self.states[op.txid] = extend(self.states[op.txid - 1], op)
        self.newest = op.txid

    def write(self, count: int) -> None:
        for _ in range(count):
            self.clock += 1
            if self.random.random() < self.telling:
                self._append(DeleteOp(txid=self.newest + 1, path="/x", timestamp=self.clock))
            else:
                mode = self.random.choice((0o700, 0o750))
                self._append(SetPermissionsOp(txid=self.newest + 1, src="/x", mode=mode))

    def roll(self) -> None:
        self._append(EndLogSegmentOp(txid=self.newest + 1))
        self.segments[-1].in_progress = False
        self._begin()

    def save(self) -> None:
        """Save the namespace, and begin the next segment."""
        self._append(EndLogSegmentOp(txid=self.newest + 1))
        self.segments[-1].in_progress = False
        self.images[self.newest] = self.states[self.newest]
        self._begin()
        self.purge()

    def purge(self) -> None:
        """Keep one or two images, and few or no segments before these images."""
        kept = sorted(self.images)[-self.random.choice((1, 2, 2)) :]
        self.images = {txid: self.images[txid] for txid in kept}
        extra = self.random.choice(self.extra)
        self.segments = [each for each in self.segments if each.in_progress or each.last > kept[0] - extra]

    def take(self, image: ImageId) -> bool:
        """Accept or refuse an upload as the image servlet does."""
        if image.txid in self.images:
            return False
        if self.states.get(image.txid) != image.md5:
            raise LostPastOfferedError(f"image {image.txid} of a lost past")
        self.images[image.txid] = image.md5
        self.purge()
        return True

    # ---- set back ------------------------------------------------------------------------------------------

    def copy(self) -> None:
        self.copies.append(deepcopy((self.segments, self.images, self.states)))

    def set_back(self) -> None:
        """Change the history by one of the events in docs/lost-past.md."""
        event = self.random.choice((self._restore, self._restore, self._roll_back, self._import, self._drop_tail))
        before = self.states.get(self.newest)
        event()
        self.set_backs += before != self.states.get(self.newest)
        self.start()

    def _restore(self) -> None:
        """Restore a copy of all files, possibly a copy that was made later, in another past."""
        if not self.copies:
            return
        self.segments, self.images, self.states = deepcopy(self.random.choice(self.copies))
        self.newest = max([each.last for each in self.segments] + list(self.images))

    def _roll_back(self) -> None:
        """Discard everything after an image."""
        self._cut(self.random.choice(sorted(self.images)))

    def _import(self) -> None:
        """Keep only an image, without the edits that precede it."""
        txid = self.random.choice(sorted(self.images))
        self._cut(txid)
        self.segments, self.images = [], {txid: self.images[txid]}

    def _drop_tail(self) -> None:
        """Lose the end of the open segment, which did not reach the disk."""
        opened = self.segments[-1]
        # The transactions of an image are on disk, even if edits are lost.
        least = max(opened.first, *self.images)
        if least < opened.last:
            self._cut(self.random.randint(least, opened.last - 1))

    def _cut(self, txid: int) -> None:
        segments = []
        for each in self.segments:
            if each.first <= txid:
                # The new object represents another file, so readers of the old file still see its content.
                segments.append(ModelSegment(each.first, each.ops[: txid - each.first + 1], each.in_progress))
        self.segments = segments
        self.images = {each: state for each, state in self.images.items() if each <= txid}
        self.states = {each: state for each, state in self.states.items() if each <= txid}
        self.newest = txid


class ModelProvenances:
    """A `ProvenanceStore` in memory, which a restart of the node does not lose."""

    def __init__(self) -> None:
        self.known: dict[str, Provenance] = {}

    def of(self, md5: str) -> Provenance | None:
        return self.known.get(md5)

    def add(self, md5: str, claim: Provenance) -> None:
        self.known[md5] = claim

    def forget(self) -> None:
        self.known = {}


class ModelWitness:
    """The NameNode as a witness, which is sometimes set back during a query, or does not answer."""

    def __init__(self, node: ModelNamenode, *, hasty: float) -> None:
        self._node = node
        self._hasty = hasty

    def segments(self, from_txid: int) -> Sequence[ModelSegment]:
        found = [each for each in self._node.segments if each.last >= from_txid]
        if self._node.random.random() < self._hasty:
            self._node.set_back()
            self._node.write(self._node.random.randint(0, 30))
        return found

    def newest(self) -> int | None:
        return None if self._node.random.random() < self._node.silent else self._node.newest

    def lives(self) -> Mapping[str, int]:
        return {} if self._node.random.random() < self._node.silent else dict(self._node.starts)

    def active_life(self) -> tuple[str, int] | None:
        if self._node.random.random() < self._node.silent:
            return None
        return self._node.active, self._node.starts[self._node.active]

    def image_md5(self, txid: int) -> str | None:
        if self._node.random.random() < self._node.silent:
            return None
        return self._node.images.get(txid, "")


class ModelNode:
    """One of our nodes: the state on which it relies, and the steps of its role.

    Args:
        in_progress: whether the node reads open segments.
        keeps_edits: whether the node is a backup node, which first applies the segments on this node's disk, and
            compares nothing before it makes an image. The node starts over if the NameNode has fewer transactions than
            this disk.

    Attributes:
        hasty: fraction of comparisons during which the NameNode is set back.
        begun, taken: numbers of fresh starts and of accepted images.
    """

    def __init__(self, namenode: ModelNamenode, *, in_progress: bool, keeps_edits: bool) -> None:
        self._namenode = namenode
        self._in_progress = in_progress
        self._keeps_edits = keeps_edits
        self.hasty = 0.01
        # segments on the disk of a backup node
        self._local: list[ModelSegment] = []
        self.claims = ModelProvenances()
        self.images: dict[int, str] = {}
        self.begun = self.taken = 0
        self.restart()

    def restart(self) -> None:
        """Begin as a new process, which has only the images, provenances and local segments."""
        self._recorder = TxnRecorder()
        self._watch = PastWatch(
            self._recorder,
            self.claims,
            lambda: [ImageId(txid, self.images[txid]) for txid in sorted(self.images, reverse=True)],
            lambda last: ModelWitness(self._namenode, hasty=self.hasty),
            # a hasty verdict reads the clock, and the next one confirms it
            clock=count(step=10.0).__next__,
        )
        if not self.images:
            self._fetch()
        self._load()

    def _load(self) -> None:
        self._applied = max(self.images)
        self._state = self.images[self._applied]
        self._watch.loaded(ImageId(self._applied, self._state))

    def _fetch(self) -> None:
        txid = max(self._namenode.images)
        self.images = {txid: self._namenode.images[txid]}

    def _start_over(self) -> None:
        self.begun += 1
        self._local = []
        self._fetch()
        self._watch.forget()
        self._load()

    def _assure(self, *, deep: bool) -> bool:
        verdict = self._watch.check(deep=deep)
        if verdict.lost:
            self._start_over()
            return self._watch.check(deep=deep).holds
        return verdict.holds or not deep

    def tail(self) -> None:
        """Apply the current edits, or a part of them."""
        if not self._keeps_edits:
            self._assure(deep=False)
        elif any(each.last > self._namenode.newest for each in self._local):
            self._start_over()
        self._fetch_segments()
        present = [*self._local, *self._namenode.segments]
        if min(each.first for each in present) > self._applied + 1 and self._namenode.random.random() < 0.5:
            # The edits have been purged, so the node continues from the NameNode's image, automatically or on command.
            self._fetch()
            self._watch.forget()
            self._load()
        most = self._namenode.random.choice((3, 50, 10_000))
        for segment in sorted(present, key=lambda each: each.first):
            if segment.in_progress and not self._in_progress:
                continue
            if segment.first <= self._applied + 1 <= segment.last:
                if segment in self._local:
                    self._watch.doubt(kept=True)
                most = self._apply(segment, most)

    def _fetch_segments(self) -> None:
        """Add the NameNode's segments that follow the segments on the disk of a backup node."""
        if not self._keeps_edits:
            return
        for segment in self._namenode.segments:
            last = max([self._applied, *(each.last for each in self._local)])
            if not segment.in_progress and segment.first <= last + 1 <= segment.last:
                self._local.append(segment)

    def _apply(self, segment: ModelSegment, most: int) -> int:
        first = self._applied + 1
        if segment.in_progress or self._namenode.random.random() < 0.5:
            self._recorder.check_resumed(segment.read)
            source: Iterator[EditOp] = self._recorder.record_all(segment.read(first))
        else:
            source = segment.read(first)
            path = Path(segment_name(segment.first, segment.last))
            self._recorder.record_opening(EditLogSegment(segment.first, segment.last, path), first, segment.read)
        for op in source:
            if most <= 0:
                break
            self._state = extend(self._state, op)
            self._applied, most = op.txid, most - 1
        self._recorder.mark_applied(self._applied)
        return most

    def checkpoint(self) -> None:
        self.tail()
        if self._assure(deep=True) and self._applied > max(self.images):
            self.images[self._applied] = self._state
            self._watch.saved(ImageId(self._applied, self._state))
            kept = self._namenode.random.choice((1, 2))
            self.images = {txid: self.images[txid] for txid in sorted(self.images)[-kept:]}

    def upload(self) -> None:
        txid = max(self.images)
        image = ImageId(txid, self.images[txid])
        if txid in self._namenode.images and self._namenode.images[txid] == image.md5:
            return
        # A set-back during the transfer first stops the NameNode, so that the transfer ends.
        hasty, self.hasty = self.hasty, 0.0
        verdict = self._watch.confirm(image)
        self.hasty = hasty
        if verdict.holds:
            self.taken += self._namenode.take(image)
        else:
            self._watch.doubt()


def run_history(seed: int, steps: int = 60) -> tuple[ModelNamenode, ModelNode]:
    """Run a random history; raise LostPastOfferedError if the NameNode receives an image of another past."""
    chance = random.Random(seed)
    namenode = ModelNamenode(chance, telling=chance.choice((0.0, 0.05, 0.5, 1.0)))
    namenode.start()
    node = ModelNode(namenode, in_progress=chance.random() < 0.5, keeps_edits=chance.random() < 0.5)
    weights = chance.choice(((20, 10, 2, 3, 5, 3, 15, 15, 15, 3), (20, 10, 8, 3, 5, 2, 10, 5, 10, 20)))
    for _ in range(steps):
        step = chance.choices(
            ("write", "roll", "save", "copy", "set_back", "fail_over", "tail", "checkpoint", "upload", "restart"),
            weights,
        )[0]
        if step == "write":
            namenode.write(chance.randint(1, 12))
        else:
            getattr(namenode if hasattr(namenode, step) else node, step)()
    return namenode, node
