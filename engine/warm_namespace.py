"""A namespace that is kept between checkpoints, with its image index and delta, so that only new edits are replayed.

Either nothing is loaded, or an image is loaded and all edits up to `last_txid` are completely applied.

    load     any state -> loaded; if the load fails, nothing is loaded.
    settings with other rules of replay: still loaded, but not `usable` until the next load.
    apply    loaded -> loaded with more edits. Faults of the source and cancellations occur between two operations,
             so the image stays loaded. Any other fault may leave an operation half applied, so nothing is loaded
             then.
    save     loaded -> saved, which is loaded and readable too. A cancellation, or a fault of the disks that receive the
             image or the spool, changes nothing; after any other fault nothing is loaded.
    rebase   saved -> loaded with the new image as its base, or nothing is loaded if that image cannot be opened.
             `apply` and `save` rebase first. The step can take as long as a transfer of the image, so the transfer
             can begin before this step.

No other state exists: a namespace that may be partly changed is released before the error propagates.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from engine.base_loader import BaseLoader
from engine.errors import CheckpointCancelledError, NotSavedError
from engine.healing import HealingMode
from engine.image_steps import cancellable, image_warnings, write_verified
from engine.image_verification import CheckKey, ImageVerification, check_key, verify_loadable
from engine.live_browser import LiveBrowser
from engine.loaded_image import LoadedImage, next_layout
from engine.namespace import Namespace
from engine.observer import Observer, SilentObserver
from engine.op_source import OpSource, is_between
from engine.read_gate import ReadGate
from engine.replay import replay
from engine.saved_image import SavedImage
from engine.saver import MergeResult, Sink, Timings, save_image
from engine.scan_verification import ScanVerification
from engine.settings import MergeSettings
from engine.txn_runs import TxnRecorder
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import image_name
from image_format.codec_choice import codec_to_write
from image_format.errors import ImageFormatError
from image_format.index_arrays import IndexArrays
from image_format.known_digests import identity_at, is_known_loadable, remember_loadable
from image_format.layout import check_supported
from image_format.reader import ImageFile
from image_tools.convert import write_at_layout
from journal.ops import EditOp
from journal.segment_file import SegmentTransactions

__all__ = ["MergeResult", "WarmNamespace"]

_LOG = logging.getLogger(__name__)

_REBASE_HINT = "A daemon needs no action: it loads the newest image at its next step."


@dataclass(frozen=True, slots=True)
class _OpenedImage:
    """A loaded image and the resources to close with it; new images have `layout_version`."""

    image: ImageFile
    digest: ImageVerification
    loaded: LoadedImage
    layout_version: int
    resources: ExitStack
    key: CheckKey


class WarmNamespace:
    """An image with the edits that follow it, from which the next image is made, and a context manager that closes it.

    Not thread-safe, except for `reading`. After a fault within a step, the namespace is unusable until the next `load`.

    Args:
        recorder: records the applied transactions; None if not needed.
        keeps_sums: whether to keep the sums of all subtrees for readers (`DirectorySums`).

    Attributes:
        settings: may be replaced at any time, even by another thread. `codec` and `sub_sections` apply from the next
            `save` on, all others from the next `load` on; `layout_version` is only read at the beginning.
        gate: separates the steps from the readers; occupied while an image is loaded or saved.
    """

    def __init__(
        self,
        settings: MergeSettings = MergeSettings(),
        *,
        recorder: TxnRecorder | None = None,
        keeps_sums: bool = False,
    ) -> None:
        self.settings = settings
        self._layout = settings.layout_version
        self._keeps_sums = keeps_sums
        self._recorder = recorder
        self._open: _OpenedImage | None = None
        self._stale = False
        self._refused: tuple[CheckKey, ImageFormatError] | None = None
        self._next_base: SavedImage | None = None
        self._base_txid = 0
        self._load_seconds = self._replay_seconds = 0.0
        self.gate = ReadGate()

    # ---- opening and closing -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._release(*error)

    def close(self) -> None:
        """Release the image and everything that was replayed onto it."""
        self._release(None, None, None)

    def _release(self, *error: Any) -> None:
        self._next_base = None
        if self._open is None:
            return
        with self.gate.changing():
            resources, self._open, self._stale = self._open.resources, None, True
            # If the digest is wrong, its error replaces the error that the wrong image caused.
            resources.__exit__(*error)

    # ---- state ---------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether an image is loaded and all later edits were completely applied under the rules of `settings`.

        With other rules, a NameNode that starts now would replay the same edits with a different result, so the image
        must be loaded again.
        """
        return self._open is not None and self._open.loaded.namespace.rules == self.settings.rules

    @property
    def base_txid(self) -> int:
        """Newest transaction of the loaded image."""
        self._opened()
        return self._base_txid

    @property
    def last_txid(self) -> int:
        """Newest applied transaction."""
        return self.namespace.last_txid

    @property
    def layout_version(self) -> int:
        """Layout version of the images that `save` writes."""
        return self._opened().layout_version

    @property
    def namespace(self) -> Namespace:
        """The namespace, for reading."""
        return self._opened().loaded.namespace

    @contextmanager
    def reading(self, min_txid: int, timeout: float, pause_timeout: float | None = None) -> Iterator[LiveBrowser]:
        """Yield read access to the namespace, in any thread, once `min_txid` is applied; no step runs during access.

        Args:
            timeout: longest wait in seconds; also in each pause, unless `pause_timeout` is given.

        Raises:
            NamespaceBusyError: access was not possible in time.
        """
        in_pause = timeout if pause_timeout is None else pause_timeout

        def is_ready() -> bool:
            applied = self.applied_txid
            return applied is not None and applied >= min_txid

        with self.gate.reading(is_ready, timeout):
            browser = LiveBrowser(lambda: self._opened().loaded, lambda: self.gate.pause(is_ready, in_pause))
            try:
                yield browser
            finally:
                browser.close()

    @property
    def applied_txid(self) -> int | None:
        """Newest applied transaction, for any thread; None if no image is loaded."""
        opened = self._open
        return None if opened is None else opened.loaded.namespace.last_txid

    def _opened(self) -> _OpenedImage:
        if self._open is None:
            raise ValueError("no image is loaded")
        return self._open

    # ---- steps ---------------------------------------------------------------------------------------------

    def load(self, path: Path, observer: Observer | None = None, *, cluster: int | None = None) -> None:
        """Open an image in place of the loaded image; a thread verifies its digest, and a save waits for the result.

        With `cluster`, the layout in VERSION, edits and new images have that layout if it is newer than the image's
        layout.

        Raises:
            ImageFormatError: the image is damaged; raised immediately if its verification failed before and its files
                are unchanged.
            ImageStorageError: the image cannot be read, or its index does not fit on the disk.
        """
        if cluster is not None:
            self._layout = next_layout(path, cluster)
        if self._refused is not None and self._refused[0] == check_key(path, self.settings.rules):
            self.close()
            raise self._refused[1]
        with self.gate.occupying():
            self._load(path, None, observer or SilentObserver())

    def _load(self, path: Path, arrays: IndexArrays | None, watcher: Observer) -> None:
        self.close()
        if self._stale:
            # Namespace and index refer to each other, so only the garbage collector releases the old mapping.
            gc.collect()
            self._stale = False
        started = time.monotonic()
        key = check_key(path, self.settings.rules)
        with self.gate.changing(), ExitStack() as resources:
            image = resources.enter_context(
                ImageFile.open(
                    path,
                    verify_md5=False,
                    allow_unknown_layout=self.settings.allow_unknown_layout,
                    spool_dir=self.settings.memory.folder,
                )
            )
            if not self._keeps_sums and self._layout in (None, image.layout_version):
                # Sums are computed from the whole mapped section, and a conversion also reads the whole section.
                image.read_around_cache()
            watcher.phase("load", image.size)
            digest = resources.enter_context(ImageVerification(image))
            check_supported(image.layout_version, str(image.path), allow_unknown=self.settings.allow_unknown_layout)
            scan = ScanVerification(image) if arrays is None and image.reads_around_cache else None
            loaded = BaseLoader(self.settings, self._layout, resources, watcher.advance).load(image, arrays, scan)
            inodes = None if scan is None or loaded.image is not image else scan.inodes
            whole = self.settings.rules.healing is not HealingMode.AS_HADOOP
            if not is_known_loadable(image.identity, whole=whole):
                digest.then = partial(verify_loadable, image, loaded.image, loaded.index if whole else None, inodes)
            digest.begun = None if scan is None else scan.digest
            # The verification starts after the scan, which uses all cores.
            digest.start()
            if self._keeps_sums:
                loaded = loaded.with_sums()
            layout = self._layout or image.layout_version
            self._open = _OpenedImage(image, digest, loaded, layout, resources.pop_all(), key)
        self._base_txid = loaded.namespace.last_txid
        self._load_seconds = time.monotonic() - started
        self._replay_seconds = 0.0

    def check_image(self) -> None:
        """If the verification of the image has already found a fault, release the namespace and raise the fault.

        Raises:
            ImageFormatError, ImageStorageError: the image is damaged, or cannot be read.
        """
        if self._open is not None and (fault := self._open.digest.fault) is not None:
            with self._step():
                raise fault

    def apply(
        self,
        ops: Iterable[EditOp],
        *,
        expected: int | None = None,
        observer: Observer | None = None,
        watch: Callable[[EditOp], bool] | None = None,
        read: Callable[[int], Iterator[EditOp]] | None = None,
    ) -> int:
        """Replay `ops`, which follow `last_txid`; return their number.

        After a cancellation, or if reading `ops` fails, the operations that were applied before remain usable.

        Args:
            watch: see `replay`.
            read: returns the operations of the segment of `ops`, starting at a given txid; see
                `TxnRecorder.check_resumed`.

        Raises:
            JournalError, ReplayError, ImageFormatError: see `replay`.
            StorageError: the image of the last `save` cannot be opened; nothing is loaded.
            CheckpointCancelledError: the observer cancelled.
        """
        self._rebase()
        watcher = observer or SilentObserver()
        if self._recorder is not None and read is not None:
            self._recorder.check_resumed(read)
        source = self._noted(ops)
        started = time.monotonic()
        watcher.phase("replay", expected)
        with self._step(source) as opened:
            try:
                return replay(
                    opened.loaded.namespace, source, progress=watcher.advance, cancelled=watcher.cancelled, watch=watch
                )
            finally:
                opened.loaded.update_sums()
                self._replay_seconds += time.monotonic() - started
                if self._recorder is not None:
                    self._recorder.mark_applied(opened.loaded.namespace.last_txid)

    def _noted(self, ops: Iterable[EditOp]) -> OpSource | SegmentTransactions:
        recorder = self._recorder
        if isinstance(ops, SegmentTransactions):
            limited = ops.limited(self.settings.max_op_size)
            return limited if recorder is None else limited.observed(recorder.record_opening)
        return OpSource(ops if recorder is None else recorder.record_all(ops))

    def save(
        self,
        folders: Sequence[Path],
        *,
        rollback: bool = False,
        becomes_base: bool = True,
        observer: Observer | None = None,
    ) -> MergeResult:
        """Save the present namespace in all folders (`save_image`).

        Args:
            rollback: whether to name the image `fsimage_rollback_TXID`.
            becomes_base: whether `rebase` makes the new image the base; otherwise, this method does not rebase either.

        Raises:
            DigestMismatchError: the base image does not match its digest file; no part of the new image remains.
            NotSavedError: the image could not be saved in any folder, or all folders contain it.
            StorageError: the base image cannot be read, or the image of the last `save` cannot be opened; nothing is
                loaded.
            CheckpointCancelledError: the observer cancelled the operation; no part of the new image remains.
        """
        if becomes_base:
            self._rebase()
        with self.gate.occupying():
            result, update = self._save(folders, rollback, observer or SilentObserver())
        if becomes_base:
            self._next_base = SavedImage(result.saved.paths[0], update)
        return result

    def rebase(self) -> None:
        """Make the image of the last `save` the base, unless it already is the base or no image was saved.

        If the image cannot be opened, or its file was replaced, the namespace is not usable afterwards.
        """
        try:
            self._rebase()
        except StorageError as error:
            _LOG.warning("%s; the newest image will be loaded", error.message)

    def _rebase(self) -> None:
        """Perform `rebase`; raise StorageError if nothing is loaded afterwards."""
        base, self._next_base = self._next_base, None
        if base is None:
            return
        path = base.path
        with self.gate.occupying():
            if not base.in_place():
                self.close()
                raise StorageError(f"{path} was replaced or removed", hint=_REBASE_HINT)
            arrays = base.index(self._opened().loaded.index.arrays.nbytes, self.settings.memory.size)
            # `base` refers to the old index, which must be released before the new index is loaded.
            del base
            try:
                self._load(path, arrays, SilentObserver())
            except (HdfsError, OSError, MemoryError) as error:
                problem = f"{path} was saved, but cannot be opened again now: {error_text(error) or 'no memory'}"
                raise StorageError(problem, hint=_REBASE_HINT) from error

    def measure(self, observer: Observer | None = None) -> int:
        """Return the size in bytes of the image that `save` would write; no file is written.

        Raises:
            DigestMismatchError: the base image does not match its digest file.
            CheckpointCancelledError: the observer cancelled the operation.
        """
        watcher, size = observer or SilentObserver(), 0

        def count(data: bytes | bytearray | memoryview) -> None:
            nonlocal size
            size += len(data)

        with self.gate.occupying(), self._step() as opened:
            watcher.phase("measure", opened.loaded.expected_size)
            namespace, spool = opened.loaded.namespace, self.settings.memory.folder
            write_verified(
                namespace, lambda sink: self._write(opened, sink, watcher), count, opened.image.path, spool_dir=spool
            )
            opened.digest.confirm()
        return size

    def _write(self, opened: _OpenedImage, sink: Sink, watcher: Observer) -> Callable[[], IndexArrays | None]:
        """Write the image (`LoadedImage.write`), and convert it if its layout differs from the base image's layout."""

        def write(out: Sink) -> Callable[[], IndexArrays | None]:
            return opened.loaded.write(
                cancellable(out, watcher),
                codec=codec_to_write(
                    self.settings.codec, opened.image.codec, opened.layout_version, opened.image.layout_version
                ),
                sub_sections=self.settings.sub_sections,
                progress=watcher.advance,
            )

        if opened.layout_version == opened.loaded.image.layout_version:
            return write(sink)
        write_at_layout(
            write,
            cancellable(sink, watcher),
            opened.layout_version,
            opened.image.path.with_name(image_name(opened.loaded.namespace.last_txid)),
            spool_dir=self.settings.memory.folder,
        )
        # only a scan can build the index of another layout
        return lambda: None

    def hand_over(self) -> LoadedImage:
        """Pass the loaded image to the caller, who must close it; nothing is loaded afterwards.

        Raises:
            DigestMismatchError: the image does not match its digest file.
            ValueError: the image was converted to another layout; nothing is loaded.
        """
        opened = self._opened()
        with self._step():
            opened.digest.confirm()
        if opened.loaded.image is not opened.image:
            raise ValueError("an image that was converted to another layout cannot be handed over")
        self._open = self._next_base = None
        opened.resources.pop_all()
        return opened.loaded

    def _save(
        self, folders: Sequence[Path], rollback: bool, watcher: Observer
    ) -> tuple[MergeResult, Callable[[], IndexArrays | None]]:
        started = time.monotonic()
        with self._step() as opened:
            watcher.phase("save", opened.loaded.expected_size)
            namespace = opened.loaded.namespace
            updates: list[Callable[[], IndexArrays | None]] = []

            def write_image(sink: Sink) -> Callable[[], IndexArrays | None]:
                return self._write(opened, sink, watcher)

            def write(sink: Sink) -> None:
                update = write_verified(namespace, write_image, sink, folders[0], spool_dir=self.settings.memory.folder)
                updates.append(update or (lambda: None))

            saved = save_image(folders, namespace.last_txid, write, rollback=rollback, confirm=opened.digest.confirm)
            watcher.saved()
        for path in saved.paths:
            remember_loadable(identity_at(path), whole=namespace.rules.healing is not HealingMode.AS_HADOOP)
        result = MergeResult(
            base_txid=self._base_txid,
            txid=namespace.last_txid,
            transactions=namespace.last_txid - self._base_txid,
            inodes=namespace.tree.inode_count,
            saved=saved,
            layout_version=opened.layout_version,
            warnings=tuple(image_warnings(namespace)),
            healed=tuple(namespace.healing_log),
            ignored=namespace.ignored,
            timings=Timings(self._load_seconds, self._replay_seconds, time.monotonic() - started),
            rollback=rollback,
        )
        return result, updates[-1]

    @contextmanager
    def _step(self, source: OpSource | SegmentTransactions | None = None) -> Iterator[_OpenedImage]:
        """Release the namespace after a fault within a step, because the step may have changed only a part of it."""
        opened = self._opened()
        with self.gate.changing():
            try:
                yield opened
            except (CheckpointCancelledError, NotSavedError):
                raise
            except BaseException as error:
                if not is_between(source, error):
                    try:
                        self._release(*sys.exc_info())
                    finally:
                        if isinstance(fault := opened.digest.fault, ImageFormatError):
                            self._refused = opened.key, fault
                raise
