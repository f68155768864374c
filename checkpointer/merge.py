"""The merge: load an image, replay edits onto it, save the result; the engine under every role and the CLI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checkpointer.compaction import write_image
from checkpointer.digest_check import DigestCheck
from checkpointer.namespace import Namespace
from checkpointer.namespace.rules import ReplayRules
from checkpointer.replay import replay
from checkpointer.storage.saver import SaveResult, Sink, save_image
from image_format.convert import at_layout
from image_format.index import ImageIndex
from image_format.layout import check_supported
from image_format.reader import ImageFile
from image_format.sub_sections import SubSectionRule
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
        layout_version: of the new image.
        warnings: what an operator has to know of the new image.
    """

    base_txid: int
    txid: int
    transactions: int
    inodes: int
    saved: SaveResult
    timings: Timings
    layout_version: int
    warnings: tuple[str, ...] = ()


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
        sub_sections: SubSectionRule | None = None,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Write the namespace as it is now; `codec` None keeps the base image's, `sub_sections` about its number."""
        chosen = self.image.codec if codec is None else codec
        writer = ImageWriter(sink, self.image.layout_version, chosen, template=self.image.summary)
        write_image(
            self.namespace,
            self.image,
            self.index,
            writer,
            sub_sections=sub_sections,
            progress=progress,
            cancelled=cancelled,
        )


def load_image(image: ImageFile, rules: ReplayRules | None = None) -> LoadedImage:
    """Index an open image and put an empty delta on it.

    Raises:
        ImageFormatError: a section is missing or damaged.
    """
    index = ImageIndex(image)
    return LoadedImage(image, index, Namespace(index, image.string_table(), rules))


@contextmanager
def _supported(image: ImageFile, layout_version: int | None, *, allow_unknown: bool) -> Iterator[ImageFile]:
    """The image at the layout that its merge goes by; raises UnsupportedLayoutError where it can have no merge."""
    check_supported(image.layout_version, str(image.path), allow_unknown=allow_unknown)
    with at_layout(image, layout_version) as base:
        yield base


def merge(
    image_path: Path,
    ops: Iterable[EditOp],
    directories: list[Path],
    *,
    expected: int | None = None,
    codec: str | None = None,
    layout_version: int | None = None,
    allow_unknown_layout: bool = False,
    sub_sections: SubSectionRule | None = None,
    rules: ReplayRules | None = None,
    observer: Observer | None = None,
) -> MergeResult:
    """Replay `ops` onto the image and save the new one in every directory.

    Args:
        image_path: newest valid image; its digest is verified before anything is written.
        ops: the transactions after it, in order.
        directories: `current` folders that get `fsimage_M` and its digest file.
        expected: number of transactions, for progress.
        codec: Hadoop's class name, "" for none, None for the base image's.
        layout_version: of the new image, whose rules the replay follows; None for the base image's.
        allow_unknown_layout: merge an image newer than every known layout, copying what is not understood.
        sub_sections: see `write_image`.
        rules: the cluster's own settings, as far as replay goes by them; None for Hadoop's defaults.

    Raises:
        ImageFormatError, JournalError, ReplayError: bad input; nothing was written.
        StorageError: no directory took the image.
        CheckpointCancelledError: the observer said so; nothing is left behind.
    """
    watcher = observer or SilentObserver()
    started = time.monotonic()
    watcher.phase("load", None)
    with (
        ImageFile.open(image_path, verify_md5=False, allow_unknown_layout=allow_unknown_layout) as image,
        DigestCheck(image) as digest,
        _supported(image, layout_version, allow_unknown=allow_unknown_layout) as base,
    ):
        loaded = load_image(base, rules)
        namespace = loaded.namespace
        base_txid = namespace.last_txid
        loaded_at = time.monotonic()
        watcher.phase("replay", expected)
        count = replay(namespace, ops, progress=watcher.advance, cancelled=watcher.cancelled)
        replayed_at = time.monotonic()
        digest.confirm()
        watcher.phase("save", image.size)

        def write(sink: Sink) -> None:
            loaded.write(
                sink,
                codec=image.codec if codec is None else codec,
                sub_sections=sub_sections,
                progress=watcher.advance,
                cancelled=watcher.cancelled,
            )

        saved = save_image(directories, namespace.last_txid, write)
    return MergeResult(
        base_txid=base_txid,
        txid=namespace.last_txid,
        transactions=count,
        inodes=namespace.tree.inode_count,
        saved=saved,
        layout_version=namespace.base.layout_version,
        warnings=tuple(_warnings(namespace)),
        timings=Timings(loaded_at - started, replayed_at - loaded_at, time.monotonic() - replayed_at),
    )


def _warnings(namespace: Namespace) -> Iterator[str]:
    lost = sorted(namespace.history.diffs.lost)
    if lost:
        yield (
            f"snapshots lead to {len(lost)} deleted symlink(s) whose records are gone, as Hadoop itself leaves them "
            f"(inode {lost[0]} first); no NameNode loads such an image: see `checkpointer image verify --repair`"
        )
