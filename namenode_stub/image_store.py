"""The stub's images and segments for the transfer servlet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from checkpointer.storage.usable_images import ImageCopy, latest_image
from hadoop_common.names import ImageKind, image_name, segment_name
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from image_format.layout import LayoutVersion, supports
from journal.errors import SegmentError
from journal.segment_file import EditLogSegment, list_segments
from namenode_stub.config import StubConfig

_LOG = logging.getLogger(__name__)


def local_segments(folders: Iterable[Path]) -> list[EditLogSegment]:
    """Return the segments in these folders; skip a folder that cannot be read. Other journals serve segments without
    the stub.
    """
    found: list[EditLogSegment] = []
    for folder in folders:
        try:
            found += list_segments(folder)
        except (OSError, SegmentError) as fault:
            _LOG.warning("the segments in %s are not reported to checkpointers: %s", folder, fault)
    return found


def manifest(segments: Iterable[EditLogSegment], since: int) -> list[tuple[int, int]]:
    """Return the first and last transaction id of the finalized segments that begin at `since` or later.

    Segments that begin before `since` are skipped. After a gap, the list restarts, so the result is the last sequence
    without a gap.
    """
    longest: dict[int, int] = {}
    for segment in segments:
        if segment.last is not None and segment.first >= since:
            longest[segment.first] = max(segment.last, longest.get(segment.first, 0))
    run: list[tuple[int, int]] = []
    for first in sorted(longest):
        if run and first <= run[-1][1]:
            continue
        if run and first != run[-1][1] + 1:
            run = []
        run.append((first, longest[first]))
    return run


_TOO_RECENT_SHARE = 0.75


class StubImages:
    """An active NameNode's side of image transfers (`ImageStore`).

    Args:
        newest: image from which the stub started; the file's age is the age of the last checkpoint.
        durable_txid: returns the newest transaction in the edit log.
        active: returns whether this node accepts checkpoints now.
        upgrading: returns whether a rolling upgrade is in progress; otherwise, the node refuses rollback images.
        clock: monotonic seconds.
        received: called after each received checkpoint.
    """

    def __init__(
        self,
        config: StubConfig,
        info: StorageInfo,
        newest: ImageCopy,
        *,
        durable_txid: Callable[[], int],
        active: Callable[[], bool],
        upgrading: Callable[[], bool] = lambda: False,
        clock: Callable[[], float],
        received: Callable[[], None] = lambda: None,
    ) -> None:
        self._config = config
        self._info = info
        self._durable_txid = durable_txid
        self._active = active
        self._upgrading = upgrading
        self._clock = clock
        self._received = received
        self._image_folders = [directory / "current" for directory in config.image_directories]
        self._edits_folders = [directory / "current" for directory in config.edits_directories]
        self._noting = threading.Lock()
        age = max(0.0, time.time() - newest.path.stat().st_mtime)
        # assigned as one tuple, so that readers without a lock see values of the same checkpoint
        self._checkpoint = (newest.txid, clock() - age)

    @property
    def checkpoint_txid(self) -> int:
        """Transaction id of the newest image."""
        return self._checkpoint[0]

    @property
    def checkpoint_age(self) -> float:
        """Seconds since the newest image arrived."""
        return self._clock() - self._checkpoint[1]

    # ---- ImageStore ----------------------------------------------------------------------------------------

    def storage_info(self) -> StorageInfo:
        return self._info

    def find_image(self, txid: int) -> Path | None:
        return _find(self._image_folders, image_name(txid), image_name(txid, rollback=True))

    def latest_image(self) -> Path | None:
        return latest_image(self._image_folders).path

    def find_segment(self, first: int, last: int) -> Path | None:
        return _find(self._edits_folders, segment_name(first, last))

    def image_directories(self) -> list[Path]:
        return list(self._image_folders)

    def is_active(self) -> bool:
        return self._active()

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        """Return the reason to refuse an image; None to accept it.

        Refuse an image that is ahead of the edit log, and a rollback image without a rolling upgrade. As in Hadoop 3.3
        and newer, also refuse an image too soon after the last image.
        """
        durable = self._durable_txid()
        if txid > durable:
            return f"the image is at txid {txid}, but this NameNode's edit log ends at {durable}"
        if kind is ImageKind.ROLLBACK and not self._upgrading():
            return "it is a rollback image, but no rolling upgrade is in progress"
        if not supports(LayoutVersion.ERASURE_CODING, self._info.layout_version):
            return None
        newest, at = self._checkpoint
        age, delta = self._clock() - at, txid - newest
        wanted_age = _TOO_RECENT_SHARE * self._config.checkpoint_period
        if kind is ImageKind.IMAGE and age < wanted_age and delta < self._config.checkpoint_transactions:
            return (
                f"the last checkpoint is {age:.0f} s old and {counted(delta, 'transaction')} back, expected "
                f"{wanted_age:.0f} s or {counted(self._config.checkpoint_transactions, 'transaction')}"
            )
        return None

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None:
        """Record the checkpoint."""
        _LOG.info("checkpoint at txid %d received: %d bytes, md5 %s", txid, size, md5)
        if kind is not ImageKind.IMAGE:
            return
        with self._noting:
            self._checkpoint = (max(self.checkpoint_txid, txid), self._clock())
        self._received()


def _find(folders: Sequence[Path], *names: str) -> Path | None:
    paths = (folder / name for folder in folders for name in names)
    return next((path for path in paths if path.is_file()), None)
