"""Replay of a backup node's segments into its namespace, and fetches of missing edits (Checkpointer)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path

from checkpointer.roles.backup.namenode_link import NamenodeLink
from checkpointer.roles.backup.own_segments import finish_in_progress, local_segments, set_aside_damaged
from checkpointer.roles.backup.receiver import JournalReceiver
from checkpointer.roles.backup.states import BackupState
from checkpointer.set_back.proof import contradiction
from checkpointer.set_back.provenance import image_md5
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.usable_images import ImageCopy
from checkpointer.transfer import TransferCancelledError, download_image, download_segment
from engine.errors import CheckpointCancelledError
from engine.observer import Observer
from engine.txn_runs import ImageId
from engine.warm_namespace import WarmNamespace
from hadoop_common.durable import remove_durably
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import image_name, parse_segment, segment_name
from hadoop_common.throttle import Throttle
from hadoop_rpc.namenode_protocol import RemoteEditLog
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from image_format.reader import ImageFile
from journal.errors import JournalError, TransactionGapError
from journal.segment_file import EditLogSegment, SegmentTransactions, select_segments
from journal.segment_frames import check_segment_file, whole_segments

_LOG = logging.getLogger(__name__)


def missing_segments(
    local: Iterable[EditLogSegment], remote: Iterable[RemoteEditLog], first: int, last: int
) -> list[tuple[int, int]]:
    """Return the segments with transactions `first` to `last` that the storage lacks, as pairs of first and last txid.

    Raises:
        TransactionGapError: some transactions are missing both on this node and at the NameNode.
    """
    held = {(each.first, each.last): each for each in local}
    fetchable = [
        EditLogSegment(each.first, each.last, Path(segment_name(each.first, each.last)))
        for each in remote
        if not each.in_progress and (each.first, each.last) not in held
    ]
    chosen = select_segments([*held.values(), *fetchable], first, last)
    return [(each.first, each.last) for each in chosen if each.last is not None and (each.first, each.last) not in held]


@dataclass(eq=False)
class BackupFollower:
    """Follower that keeps a namespace up to date. Only one thread at a time may use it.

    Args:
        http_address: `http://host:port` of the NameNode.
        cancelled: returns True to end a transfer or a replay.
    """

    storage: StorageDirectories
    namespace: WarmNamespace
    source: NamenodeLink
    past: PastWatch
    http_address: str
    _: KW_ONLY
    timeout: float
    throttle: Throttle
    cancelled: Callable[[], bool]
    _image_is_stale: bool = field(init=False, default=False)

    def forget_image(self) -> None:
        """Require the NameNode's image for the next load, because our image predates an upgrade."""
        self.namespace.close()
        self._image_is_stale = True

    def replace_namespace(self, observer: Observer) -> None:
        """Load the NameNode's newest image in place of the namespace; if the fetch fails, the namespace remains.

        Raises:
            RpcError, TransferError, ImageFormatError, StorageError: see their classes.
            CheckpointCancelledError: the observer cancelled the operation.
        """
        try:
            self._fetch_image(observer, self.source.newest_image_txid())
        except TransferCancelledError as error:
            raise CheckpointCancelledError("cancelled during a fetch from the NameNode") from error

    def start_over(self, streamed_from: int | None, folder: str, cause: str) -> list[Path]:
        """Replace our state with the NameNode's image; return the folders that contain the old state.

        Args:
            streamed_from: segments that begin at this transaction or later belong to a running stream, and remain.
            folder: name of the folder for the old state in each storage directory.
            cause: why the state is replaced.

        Raises:
            RpcError, TransferError, StorageError: the image could not be fetched; the caller must repeat this call.
        """
        self.forget_image()
        # check this first, because a failed link drops the directory
        self.storage.require_space()
        # Files that arrive during the fetch belong to the running stream. They remain, even if they are renamed.
        here = [path.name for folder in self.storage.current_folders() for path in folder.iterdir()]
        doomed = {name for name in here if not _is_streamed(name, streamed_from)}
        txid = self.source.newest_image_txid()
        self.storage.link_aside(folder, cause, only=doomed)
        fetched = self._fetch_image(None, txid)
        aside = self.storage.finish_start_over(keep=[image_name(fetched.txid)], only=doomed)
        self.past.forget()
        self.past.loaded(fetched)
        return aside

    def recover(self) -> None:
        """Finalize the segments that a crash or a failed directory left in progress, while no segment is open.

        Raises:
            UnsupportedEditsLayoutError: see `finish_in_progress`.
            StorageError: the last directory cannot be read or written.
        """
        for folder in self.storage.current_folders():
            try:
                finish_in_progress(folder)
            except OSError as fault:
                self.storage.drop(folder, f"its edits cannot be recovered: {error_text(fault)}")

    def contradiction(self) -> str:
        """Return the reason why our state cannot belong to the NameNode's past; "" if the segments do not prove a
        contradiction.
        """
        logs = self.source.manifest(0).logs
        if not contradiction(self._image_txid(), self._local(), logs):
            return ""
        # a damaged image and an invalid segment file prove nothing
        self.storage.exclude_damaged()
        return contradiction(self._image_txid(), whole_segments(self._local()), logs)

    def newest_txid(self) -> int:
        """Return the newest transaction in the storage, in a usable image or in a finalized segment; 0 if neither
        exists.
        """
        image = self._image_txid()
        later = (each for each in self._local() if each.last is not None and each.last > image)
        return max([image, *(each.last for each in whole_segments(later) if each.last is not None)])

    def reach(self, target: int, observer: Observer | None = None) -> None:
        """Fetch missing segments, then apply all transactions up to `target`, the end of a segment.

        Raises:
            TransactionGapError: the NameNode lacks transactions after its newest image.
            RpcError, TransferError, JournalError, ReplayError, ImageFormatError, StorageError: see their classes.
            CheckpointCancelledError: the observer cancelled the operation.
        """
        try:
            self._reach(target, observer)
        except TransferCancelledError as error:
            raise CheckpointCancelledError("cancelled during a fetch from the NameNode") from error

    def _reach(self, target: int, observer: Observer | None) -> None:
        namespace = self.namespace
        if not namespace.usable:
            self._load(observer)
        if namespace.last_txid >= target:
            return
        try:
            self._fetch_segments(namespace.last_txid + 1, target, observer)
        except TransactionGapError as gap:
            _LOG.warning("our image at txid %d is too old to continue from: %s", namespace.last_txid, gap)
            self._fetch_image(observer, self.source.newest_image_txid())
            self._fetch_segments(namespace.last_txid + 1, target, observer)
        self._apply_local(target, observer)

    def _apply_local(self, target: int, observer: Observer | None) -> None:
        """Apply our segments up to `target`; set aside and replace damaged segments."""
        while True:
            first = self.namespace.last_txid + 1
            chosen = select_segments(self._local(), first, target)
            self.past.doubt(kept=True)
            try:
                self._apply(chosen, target, observer)
            except (JournalError, OSError) as fault:
                try:
                    unreadable = set_aside_damaged(chosen)
                except LookupError:
                    raise fault from None
                for path, error in unreadable:
                    self.storage.drop(path.parent, f"{path.name} is damaged and cannot be set aside: {error}")
                if not self.namespace.usable:
                    self._load(observer)
                self._fetch_segments(self.namespace.last_txid + 1, target, observer)
            else:
                return

    def converge(self, receiver: JournalReceiver, observer: Observer | None = None) -> bool:
        """Catch up with the stream and transfer the namespace to it; return False if the stream was interrupted.

        Raises:
            HdfsError: see `reach`.
        """
        while not receiver.converge():
            position = receiver.position()
            if position.state is BackupState.DROP_UNTIL_NEXT_ROLL:
                return False
            segment = position.segment
            self.reach(position.last_txid if segment is None else segment.first - 1, observer)
            if self.namespace.last_txid > receiver.position().last_txid:
                receiver.break_off("the NameNode's image is newer than the received edits")
                return False
            if segment is not None and segment.last is not None and segment.last > self.namespace.last_txid:
                try:
                    self._apply([segment], segment.last, observer)
                except FileNotFoundError:
                    _LOG.debug("%s was finalized and renamed before it was read", segment.path.name)
        return True

    # ---- steps ---------------------------------------------------------------------------------------------

    def _image_txid(self) -> int:
        """Return the newest transaction of our usable images; 0 if no image is usable. The next load reports the
        reason.
        """
        try:
            return self.storage.latest_image().txid
        except StorageError:
            return 0

    def _local(self) -> list[EditLogSegment]:
        return local_segments(self.storage.current_folders())

    def _load(self, observer: Observer | None) -> None:
        if not self._image_is_stale:
            image = self._load_newest(observer)
            self.past.loaded(ImageId(image.txid, image_md5(image.path)))
            # A different layout means that the image predates an upgrade that this node has missed.
            self._image_is_stale = not self._has_our_layout(image.path)
        if self._image_is_stale:
            self._fetch_image(observer, self.source.newest_image_txid())

    @property
    def _layout(self) -> int:
        return self.storage.storage_info().layout_version

    def _has_our_layout(self, path: Path) -> bool:
        with ImageFile.open(path, verify_md5=False) as image:
            return image.layout_version == self._layout

    def _load_newest(self, observer: Observer | None) -> ImageCopy:
        """Load and return the newest undamaged image."""
        while True:
            image = self.storage.verified_image()
            try:
                self.namespace.load(image.path, observer, cluster=self._layout)
            except (UnsupportedLayoutError, UnsupportedCodecError):
                raise
            except ImageFormatError as error:
                self.storage.exclude(image, error)
            else:
                return image

    def _apply(self, segments: Sequence[EditLogSegment], last: int, observer: Observer | None) -> None:
        first = self.namespace.last_txid + 1
        ops = SegmentTransactions(segments, first)
        self.namespace.apply(ops, expected=last - first + 1, observer=observer)

    def _fetch_segments(self, first: int, last: int, observer: Observer | None) -> None:
        if first > last:
            return
        local = self._local()
        wanted = self._wanted(local, first, last)
        for start, end in wanted:
            folders = self.storage.current_folders()
            _LOG.info("fetching segment %d-%d", start, end)
            segment = download_segment(
                self.http_address,
                start,
                end,
                self.storage.storage_info(),
                folders,
                timeout=self.timeout,
                throttle=self.throttle,
                cancel=self._watched(observer),
                check=partial(check_segment_file, first_txid=start, last_txid=end, name=segment_name(start, end)),
            )
            for folder, reason in segment.missing_in(folders):
                self.storage.drop(folder, reason)
            _remove_partial_segments(local, folders, start, end)

    def _wanted(self, local: list[EditLogSegment], first: int, last: int) -> list[tuple[int, int]]:
        try:
            return missing_segments(local, (), first, last)
        except TransactionGapError:
            _LOG.debug("some of the transactions %d to %d are missing on this node", first, last)
        try:
            return missing_segments(local, self.source.manifest(first).logs, first, last)
        except TransactionGapError:
            # A NameNode omits a segment if the requested txid is not the segment's first txid.
            return missing_segments(local, self.source.manifest(0).logs, first, last)

    def _watched(self, observer: Observer | None) -> Callable[[], bool]:
        return lambda: self.cancelled() or (observer is not None and observer.cancelled())

    def _fetch_image(self, observer: Observer | None, txid: int) -> ImageId:
        """Fetch the NameNode's image at `txid` and load it; drop the directories that cannot store it."""
        # otherwise, each check would repeat a fetch that fills the disk
        self.storage.require_space()
        _LOG.info("fetching the image at txid %d", txid)
        folders = self.storage.current_folders()
        image = download_image(
            self.http_address,
            txid,
            self.storage.storage_info(),
            folders,
            timeout=self.timeout,
            throttle=self.throttle,
            cancel=self._watched(observer),
        )
        for folder, reason in image.missing_in(folders):
            self.storage.drop(folder, reason)
        self.namespace.load(image.paths[0], observer, cluster=self._layout)
        fetched = ImageId(image.txid, image.md5)
        self.past.loaded(fetched)
        self._image_is_stale = False
        return fetched


def _is_streamed(name: str, streamed_from: int | None) -> bool:
    segment = parse_segment(name)
    return segment is not None and streamed_from is not None and segment.first >= streamed_from


def _remove_partial_segments(local: Iterable[EditLogSegment], folders: Sequence[Path], first: int, last: int) -> None:
    """Remove our incomplete copies of a segment from the folders that now contain the whole segment."""
    for segment in local:
        if segment.first == first and segment.last is not None and segment.last < last:
            for folder in folders:
                if (folder / segment_name(first, last)).exists():
                    remove_durably(folder / segment.path.name)
