"""Random operations that a NameNode could have logged, with few names, so that paths often occur again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from engine.merge import merge
from hadoop_common.names import image_name
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from journal.ops import AddBlockOp, AllowSnapshotOp, Block, CreateSnapshotOp, EditOp, SetOwnerOp
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments
from tests.archive.storage import segment
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times

FIRST_INODE = 16386
START = 1_700_000_000_000
_MINUTE = 60_000
_NAMES = "abcd"
_DEPTH = 4


def random_ops(
    seed: int, count: int, *, start: int = START, step: int = _MINUTE, snapshots: bool = False
) -> list[EditOp]:
    """Return `count` operations for a namespace that contains only the root.

    Args:
        start, step: time of the first operation in ms since the epoch, and ms between operations.
        snapshots: whether some directories have snapshots.
    """
    return list(islice(_RandomHistory(seed, start, step, snapshots=snapshots).ops(), count))


def written(nn: Path, ops: list[EditOp], seed: int) -> int:
    """Write operations as several segments of random length; return the last transaction."""
    lengths, last = random.Random(seed), BASE_TXID
    while ops:
        size = lengths.randrange(5, 40)
        last, ops = segment(nn, last, *ops[:size], markers=lengths.random() < 0.8), ops[size:]
    return last


def cut_merge(nn: Path, txid: int, folder: Path) -> Path:
    """Return the image of a merge of the first image and the edits up to `txid`."""
    folder.mkdir()
    segments = [
        EditLogSegment(each.first, min(each.last or txid, txid), each.path)
        for each in list_segments(nn / "current")
        if each.first <= txid
    ]
    image = nn / "current" / image_name(BASE_TXID)
    merge(image, SegmentTransactions(segments, BASE_TXID + 1), [folder])
    return folder / image_name(txid)


def have_same_meaning(one: Path, other: Path) -> bool:
    """Return whether two images are equal, apart from string ids and the order of records."""
    if one.read_bytes() == other.read_bytes():
        return True
    with ImageFile.open(one) as ours, ImageFile.open(other) as theirs:
        return next(ImageComparison(ours, theirs).differences(), None) is None


class _RandomHistory:
    """A model of the namespace: whether each path is a directory."""

    def __init__(self, seed: int, start: int, step: int, *, snapshots: bool) -> None:
        self._random = random.Random(seed)
        self._now = start
        self._step = step
        self._snapshots = snapshots
        self._is_folder = {"": True}
        self._snapshotted: set[str] = set()
        self._inode = FIRST_INODE - 1

    def ops(self) -> Iterator[EditOp]:
        kinds = (self._make, self._write, self._write, self._delete, self._move, self._move, self._attributes)
        while True:
            self._now += self._step
            yield from self._random.choice((*kinds, self._snapshot) if self._snapshots else kinds)()

    def _new(self) -> int:
        self._inode += 1
        return self._inode

    def _existing(self) -> str | None:
        paths = [path for path in self._is_folder if path]
        return self._random.choice(paths) if paths else None

    def _free(self, below: str | None = None) -> str | None:
        """Return a path that does not exist, in a directory that exists and is not at or below `below`."""
        folders = [
            path
            for path, folder in self._is_folder.items()
            if folder and path.count("/") < _DEPTH and (below is None or not _covers(below, path))
        ]
        path = f"{self._random.choice(folders)}/{self._random.choice(_NAMES)}" if folders else ""
        return path if path and path not in self._is_folder else None

    def _make(self) -> Iterator[EditOp]:
        if (path := self._free()) is not None:
            self._is_folder[path] = True
            yield mkdir(path, self._new(), self._now)

    def _write(self) -> Iterator[EditOp]:
        if (path := self._free()) is not None:
            self._is_folder[path] = False
            inode = self._new()
            yield add(path, inode, self._now)
            blocks = (Block(inode, 0, 1001),)
            yield AddBlockOp(path=path, blocks=blocks)
            yield close(path, self._now, blocks=(Block(inode, 77, 1001),))

    def _delete(self) -> Iterator[EditOp]:
        if (path := self._existing()) is not None and not self._is_kept(path):
            for each in [each for each in self._is_folder if _covers(path, each)]:
                del self._is_folder[each]
            yield delete(path, self._now)

    def _move(self) -> Iterator[EditOp]:
        source = self._existing()
        if source is None or self._is_kept(source):
            return
        target = self._free(below=source)
        taken = [
            each
            for each, folder in self._is_folder.items()
            if each != source and not folder and not self._is_folder[source]
        ]
        if taken and self._random.random() < 0.3:
            target = self._random.choice(taken)
            yield rename(source, target, self._now, overwrite=True)
        elif target is not None:
            yield self._random.choice((rename, rename_old))(source, target, self._now)
        if target is not None:
            # a list keeps the order, so a seed produces the same history in every process
            moved = [each for each in self._is_folder if _covers(source, each)]
            kinds = {target + each[len(source) :]: self._is_folder[each] for each in moved}
            self._is_folder = {each: kind for each, kind in self._is_folder.items() if each not in moved} | kinds

    def _attributes(self) -> Iterator[EditOp]:
        if (path := self._existing()) is not None:
            yield self._random.choice(
                (
                    set_permissions(path, self._random.choice((0o700, 0o755))),
                    times(path, self._now, self._now),
                    SetOwnerOp(src=path, username=self._random.choice("uv"), groupname=None),
                )
            )

    def _snapshot(self) -> Iterator[EditOp]:
        path = self._random.choice([path for path, folder in self._is_folder.items() if folder and path] or [""])
        # snapshottable directories are never nested
        related = any(_covers(each, path) or _covers(path, each) for each in self._snapshotted if each != path)
        if not path or related:
            return
        if path not in self._snapshotted:
            self._snapshotted.add(path)
            yield AllowSnapshotOp(snapshot_root=path)
        yield CreateSnapshotOp(snapshot_root=path, snapshot_name=f"s{self._now}", mtime=self._now)

    def _is_kept(self, path: str) -> bool:
        """Return whether a snapshottable directory is at or below a path."""
        return any(_covers(path, each) for each in self._snapshotted)


def _covers(path: str, other: str) -> bool:
    return other == path or other.startswith(f"{path}/")
