"""The merge: load an image, replay edits onto it, save the result; the engine under every role and the CLI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checkpointer.compaction import write_image
from checkpointer.digest_check import DigestCheck
from checkpointer.namespace import Namespace
from checkpointer.replay import replay
from checkpointer.storage.saver import SaveResult, Sink, save_image
from image_format.index import ImageIndex
from image_format.reader import ImageFile
from image_format.writer import ImageWriter
from journal.ops import EditOp

__all__ = ["LoadedImage", "MergeResult", "Observer", "Timings", "load_image", "merge"]


class Observer(Protocol):
    """Whoever watches a merge: a progress bar, a daemon's status, or nobody."""

    def phase(self, name: str, total: int | None) -> None:
        """A phase begins: load, replay (total: transactions) or save (total: bytes, about)."""

    def advance(self, done: int) -> None:
        """How much of the phase is done."""

    def cancelled(self) -> bool:
        """Asked now and then; True stops the merge without a trace."""


class SilentObserver:
    """An observer that shows nothing and never cancels."""

    def phase(self, name: str, total: int | None) -> None:
        """Nobody watches."""

    def advance(self, done: int) -> None:
        """Nobody watches."""

    def cancelled(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds each phase took."""

    load: float
    replay: float
    save: float


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A saved checkpoint.

    Attributes:
        base_txid, txid: newest transaction of the old and of the new image.
        transactions: how many were replayed.
        saved: where the new image lies, its digest and size.
    """

    base_txid: int
    txid: int
    transactions: int
    inodes: int
    saved: SaveResult
    timings: Timings


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An open image with its index and the namespace above it."""

    image: ImageFile
    index: ImageIndex
    namespace: Namespace

    def write(
        self,
        sink: Sink,
        *,
        codec: str | None = None,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Write the namespace as it is now; `codec` None keeps the base image's."""
        chosen = self.image.codec if codec is None else codec
        writer = ImageWriter(sink, self.image.layout_version, chosen, template=self.image.summary)
        write_image(self.namespace, self.image, self.index, writer, progress=progress, cancelled=cancelled)


def load_image(image: ImageFile) -> LoadedImage:
    """Index an open image and put an empty delta on it.

    Raises:
        ImageFormatError: a section is missing or damaged.
    """
    index = ImageIndex(image)
    return LoadedImage(image, index, Namespace(index, image.string_table()))


def merge(
    image_path: Path,
    ops: Iterable[EditOp],
    directories: list[Path],
    *,
    expected: int | None = None,
    codec: str | None = None,
    observer: Observer | None = None,
) -> MergeResult:
    """Replay `ops` onto the image and save the new one in every directory.

    Args:
        image_path: newest valid image; its digest is verified before anything is written.
        ops: the transactions after it, in order.
        directories: `current` folders that get `fsimage_M` and its digest file.
        expected: number of transactions, for progress.
        codec: Hadoop's class name, "" for none, None for the base image's.

    Raises:
        ImageFormatError, JournalError, ReplayError: bad input; nothing was written.
        StorageError: no directory took the image.
        CheckpointCancelledError: the observer said so; nothing is left behind.
    """
    watcher = observer or SilentObserver()
    started = time.monotonic()
    watcher.phase("load", None)
    with ImageFile.open(image_path, verify_md5=False) as image, DigestCheck(image) as digest:
        loaded = load_image(image)
        namespace = loaded.namespace
        base_txid = namespace.last_txid
        loaded_at = time.monotonic()
        watcher.phase("replay", expected)
        count = replay(namespace, ops, progress=watcher.advance, cancelled=watcher.cancelled)
        replayed_at = time.monotonic()
        digest.confirm()
        watcher.phase("save", image.size)

        def write(sink: Sink) -> None:
            loaded.write(sink, codec=codec, progress=watcher.advance, cancelled=watcher.cancelled)

        saved = save_image(directories, namespace.last_txid, write)
    return MergeResult(
        base_txid=base_txid,
        txid=namespace.last_txid,
        transactions=count,
        inodes=namespace.tree.inode_count,
        saved=saved,
        timings=Timings(loaded_at - started, replayed_at - loaded_at, time.monotonic() - replayed_at),
    )
