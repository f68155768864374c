"""Images of other NameNodes for a standby's storage: the first image, and images after an upgrade or a gap.

`ImageFetcher` fetches images, and `ImageReplacement` replaces our images with the active NameNode's image.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from checkpointer.errors import TransferError
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.version import ActiveVersion, VersionAction, decide_version_action
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lost_pasts import LOST_PAST
from checkpointer.transfer import DownloadedImage, TransferCancelledError, download_image, stored_info
from engine.errors import CheckpointCancelledError
from hadoop_common.back_off import BackOff
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from journal.errors import JournalError, TransactionGapError
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)

_BACK_OFF = BackOff(10.0, 600.0)


class FetchPauses:
    """Delays between failed fetches of one image.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: tuple[str, int | None, StorageInfo] | None = None
        self._error: TransferError | None = None
        self._failures, self._next = 0, 0.0

    def check(self, address: str, txid: int | None, info: StorageInfo) -> None:
        """Raise the last error of this fetch again if the fetch failed too recently."""
        error = self._error
        if error is not None and self._failed == (address, txid, info) and self._clock() < self._next:
            # Raise a new error each time, because the traceback of a reused error would grow.
            raise TransferError(error.target, error.problem, status=error.status, hint=error.hint)

    def failed(self, address: str, txid: int | None, info: StorageInfo, error: TransferError) -> TransferError:
        """Record that a fetch has failed; return the error with the time of the next attempt."""
        self._failures = self._failures + 1 if self._failed == (address, txid, info) else 1
        self._failed = address, txid, info
        wait = _BACK_OFF.wait(self._failures)
        self._next = self._clock() + wait
        text = f"{error.problem}; the next attempt follows after {wait:.0f} s"
        self._error = TransferError(error.target, text, status=error.status, hint=error.hint)
        return self._error

    def succeeded(self) -> None:
        """Record that a fetch has succeeded."""
        self._failed = self._error = None
        self._failures = 0


@dataclass(eq=False)
class ImageFetcher:
    """Fetcher of images into locked, formatted storage. Only one thread at a time may use it.

    Args:
        count: called with the number of bytes received.
        fetched: called with the NameNode's address and the txid after each image is stored.
        clock: monotonic seconds.

    Attributes:
        config: timeout and bandwidth; changes apply from the next transfer on.
    """

    storage: StorageDirectories
    config: CheckpointConfig
    _: KW_ONLY
    count: Callable[[int], None]
    fetched: Callable[[str, int], None]
    clock: Callable[[], float] = time.monotonic
    _pauses: FetchPauses = field(init=False)

    def __post_init__(self) -> None:
        self._pauses = FetchPauses(self.clock)

    def fetch(
        self, address: str, txid: int | None, info: StorageInfo, cancelled: Callable[[], bool]
    ) -> DownloadedImage:
        """Fetch the image at `txid` (None: the newest) from the NameNode with VERSION `info` at `address`
        (`http://host:port`).

        Drop a directory that cannot store the image. After a failure, the same fetch fails without a request until a
        delay has passed. Otherwise, each tail would transfer the whole image again.

        Raises:
            TransferError: the image could not be fetched; nothing was changed.
            CheckpointCancelledError: `cancelled()` became true; nothing was changed.
            StorageError: the last directory was dropped.
        """
        self._pauses.check(address, txid, info)
        folders = self.storage.current_folders()
        began = time.monotonic()
        try:
            image = download_image(
                address,
                txid,
                info,
                folders,
                bootstrap=True,
                timeout=self.config.transfer_timeout,
                throttle=Throttle(self.config.bootstrap_bandwidth, count=self.count),
                cancel=cancelled,
            )
        except TransferCancelledError as error:
            raise CheckpointCancelledError(error.message) from error
        except TransferError as error:
            raise self._pauses.failed(address, txid, info, error) from error
        self._pauses.succeeded()
        for folder, reason in image.missing_in(folders):
            self.storage.drop(folder, reason)
        seconds = time.monotonic() - began
        _LOG.info(
            "fetched the image at txid %d from %s, %d bytes in %.1f s",
            image.txid,
            address,
            image.size,
            seconds,
            extra={
                "txid": image.txid,
                "phase": "fetch",
                "target": address,
                "seconds": round(seconds, 3),
                "bytes": image.size,
            },
        )
        self.fetched(address, image.txid)
        return image


def closing_images(gap: TransactionGapError, images: Mapping[str, int]) -> dict[str, int]:
    """Return the `images` (newest image by NameNode) that the present edits follow without a gap."""
    return {address: txid for address, txid in images.items() if txid >= _end_of(gap)}


def _end_of(fault: JournalError) -> int:
    """Return the last transaction that is known to be missing or damaged, or 0 if it is unknown."""
    if isinstance(fault, TransactionGapError):
        return fault.expected if fault.found is None else fault.found - 1
    return fault.txid or 0


def gap_alarm(gap: TransactionGapError, location: str, images: Mapping[str, int]) -> str:
    """Describe a gap in one sentence.

    Args:
        location: where the segments were searched for.
        images: newest image of each NameNode that answered.
    """
    until = "on" if gap.found is None else f"to {gap.found - 1}"
    missing = f"transactions from {gap.expected} {until} are missing in {location}"
    closing = closing_images(gap, images)
    if closing:
        address, txid = min(closing.items(), key=lambda item: item[1])
        return f"{missing}; the image at txid {txid} of {address} closes the gap: fetch it, or restore the segments"
    asked = ", ".join(f"{address} has {txid}" for address, txid in images.items()) or "no NameNode answered"
    return f"{missing}; no known image closes the gap ({asked}): restore the segments"


@dataclass(eq=False)
class ImageReplacement:
    """Replacement of our image by another NameNode's image if edits cannot be applied to our image. Only one thread at
    a time may use it.
    """

    storage: StorageDirectories
    nodes: NameNodes
    images: ImageFetcher

    def bridge(self, fault: JournalError, applied: int, cancelled: Callable[[], bool]) -> None:
        """Fetch the newest image of the active NameNode if it makes missing or damaged edits unnecessary.

        Args:
            fault: the gap, or the damage of all copies of a segment.
            applied: the last transaction before the fault.

        Raises:
            JournalError: the image does not replace the edits, or no NameNode is active.
            StorageError: there is no space for the image.
            HdfsError: the image could not be fetched.
        """
        active = self.nodes.active_version()
        # Only the active NameNode's image definitely belongs to the present past.
        if active is None or active.image_txid < max(_end_of(fault), applied + 1, self.storage.latest_image().txid + 1):
            raise fault
        # otherwise, each tail would repeat a fetch that fills the disk
        self.storage.require_space()
        _LOG.warning(
            "transactions from %d on are %s; fetching the image at txid %d of %s instead",
            applied + 1,
            "missing" if isinstance(fault, TransactionGapError) else "damaged",
            active.image_txid,
            active.address,
            extra={"txid": active.image_txid, "phase": "fetch", "target": active.address},
        )
        self.images.fetch(active.http_address, active.image_txid, self.storage.storage_info(), cancelled)

    def take_over(
        self, move: VersionAction, active: ActiveVersion, cancelled: Callable[[], bool], *, cause: str
    ) -> list[Path]:
        """Adopt the active NameNode's image, then its VERSION; in this order, a restart after a crash fetches both
        again.

        Return the folders to which the previous images were moved.

        Args:
            cause: why the images are replaced.

        Raises:
            HdfsError: a step failed; VERSION is unchanged.
        """
        fetches = move is VersionAction.FETCH
        aside, info = self.start_over(active, cancelled, cause=cause) if fetches else ([], active.info)
        self.storage.write_version(info)
        return aside

    def begin(self, active: ActiveVersion | None, *, cause: str, folder: str) -> ActiveVersion:
        """Record that our images, if any, are not used for the reason `cause`; return the active NameNode.

        Raises:
            StorageError: the active NameNode has another namespace, and nothing is recorded; or no NameNode is active.
        """
        if active is not None:
            decide_version_action(
                self.storage.storage_info(), active.info, rolling=True, namenode=f"NameNode {active.address}"
            )
        if self.storage.is_formatted():
            self.storage.begin_start_over(folder, cause)
        if active is None:
            raise StorageError(
                f"{cause}; this node will start over once a NameNode is active",
                hint="Find out from the logs of NameNodes and failover controllers why no NameNode is active.",
            )
        return active

    def start_over(
        self, active: ActiveVersion, cancelled: Callable[[], bool], *, cause: str, folder: str = LOST_PAST
    ) -> tuple[list[Path], StorageInfo]:
        """Replace all images with the active NameNode's newest image, for the reason `cause`.

        Return the folders below `folder` to which the previous images were moved, and the NameNode's VERSION.

        Raises:
            StorageError: there is no space for the image.
            HdfsError: the image could not be fetched; our images are unchanged.
        """
        # otherwise, each tail would repeat a fetch that fills the disk
        self.storage.require_space()
        name, info = image_name(active.image_txid), active.info
        self.storage.link_aside(folder, cause)
        try:
            self.images.fetch(active.http_address, active.image_txid, info, cancelled)
        except TransferError as refusal:
            stored = stored_info(refusal, info)
            if stored is None:
                raise
            info = stored
            self.images.fetch(active.http_address, active.image_txid, info, cancelled)
        return self.storage.finish_start_over(keep=[name]), info
