"""Parallel offers of images to all NameNodes that are due; one `UploadTarget` per NameNode records the results.

An offer ends in one of these ways:

- Accepted, or refused as old: the image is settled for that NameNode, but the checkpointer offers a refused rollback
  image again.
- Not active: the image is not settled. If the NameNode's state is unknown, the checkpointer offers nothing to it for a
  while.
- Failed: the checkpointer repeats the offer after an increasing delay.
- Not made: before, during or after the transfer, the NameNode reported that it is not active.

A NameNode may refuse our image because it has another checkpointer's image. In this case, this checkpointer is not
primary for the NameNode, and offers nothing to it for a while. This module prevents these faults:

- An image is sent that was not confirmed immediately before.
- An image is sent to a NameNode whose settings of replay differ, or which does not answer when they are compared.
- A settled txid is offered again. Hadoop would permanently refuse an image that it once refused as too recent.
- A fault at one target aborts a transfer to another target.
- An image is sent in shadow mode.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from checkpointer.errors import TransferError
from checkpointer.transfer import UploadResult, upload_image
from checkpointer.transfer.namenode_settings import settings_difference
from checkpointer.transfer.upload_target import STANDBY, Upload, UploadTarget
from engine.errors import CheckpointCancelledError
from engine.settings import ReplayRules
from hadoop_common.back_off import BackOff
from hadoop_common.names import ImageKind
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import Throttle
from image_format.md5_file import read_md5_file
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_JITTER_FROM, _JITTER_RANGE = 0.5, 0.4
# seconds between two checks of a NameNode that is receiving an image
_WATCH_SECONDS = 5.0
# maximum wait for a NameNode's settings; a NameNode that does not answer in time receives no image
_SETTINGS_SECONDS = 20.0
# maximum number of rounds, one for each failover during an offer; the next poll offers the image to the other NameNodes
_MAX_ROUNDS = 3

# Returns whether the NameNode at an HTTP address accepts images now; None if unknown.
AcceptsImages = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPolicy:
    """Rules for offering images to NameNodes. Times are in seconds. `bandwidth` is in bytes per second for all
    transfers together, or 0 if unlimited.

    Attributes:
        quiet_period: time without offers to a NameNode that rejected an image; with 0, the uploader offers every image.
        back_off: approximate delays after failed transfers.
        parallelism: number of simultaneous transfers.
        rules: our settings of replay; the uploader sends nothing to a NameNode with different settings.
        shadow: whether offers are disabled.
    """

    quiet_period: float
    back_off: BackOff
    parallelism: int
    timeout: float
    chunk_size: int
    bandwidth: int
    rules: ReplayRules = field(default_factory=ReplayRules)
    shadow: bool = False

    @classmethod
    def of(cls, config: CheckpointConfig) -> Self:
        return cls(
            quiet_period=config.quiet_multiplier * config.period,
            back_off=BackOff(config.poll_interval, config.period),
            parallelism=config.upload_parallelism,
            timeout=config.transfer_timeout,
            chunk_size=config.transfer_chunk_size,
            bandwidth=config.transfer_bandwidth,
            rules=config.merge_settings.rules,
            shadow=config.shadow,
        )

    @classmethod
    def for_one(cls, config: CheckpointConfig) -> Self:
        """Return a policy that offers every image, for a NameNode without other checkpointers."""
        return replace(cls.of(config), quiet_period=0.0)


@dataclass(frozen=True, slots=True)
class _OfferedImage:
    path: Path
    txid: int
    kind: ImageKind
    md5: str
    info: StorageInfo


@dataclass(slots=True)
class _Transfer:
    """The transfer of an image to one NameNode. `begun` is set when the transfer begins, and `lost` when the NameNode
    is no longer active.
    """

    number: int
    target: UploadTarget
    total: int = 0
    begun: bool = False
    lost: threading.Event = field(default_factory=threading.Event)
    size: int = 0

    def sent(self, count: int) -> None:
        self.size += count


@dataclass(frozen=True, slots=True)
class _TransferOutcome:
    """Result of a transfer. Without a `result`, the transfer failed with `error`; if `error` is "", no transfer was
    made.

    `refusal` is the reason why the NameNode refused the image.
    """

    result: UploadResult | None
    error: str = ""
    seconds: float = 0.0
    status: int | None = None
    refusal: str = ""


class Uploader:
    """Uploader of images to NameNodes. Only one thread at a time may call `offer`; any thread may read `targets`.

    Args:
        addresses: addresses of the NameNodes, each `http://host:port`.
        accepts_images: called before a transfer and regularly during it, so that the uploader sends images only to
            NameNodes that accept them. Several threads call the function, which logs all errors.
        confirm: called with an image and its txid immediately before each transfer. A TransferError counts as a failed
            transfer, which is retried; any other error ends the offer.
        differs: compares the settings of replay; see `settings_difference`.
        count: called with numbers of bytes sent to any NameNode.
        clock: monotonic seconds, for the time of the next offer.
        jitter: numbers from 0 to 1 that spread the retries of several checkpointers.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        policy: UploadPolicy,
        *,
        accepts_images: AcceptsImages = lambda address: None,
        confirm: Callable[[Path, int], None] = lambda image, txid: None,
        differs: Callable[..., str] = settings_difference,
        count: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        watch_interval: float = _WATCH_SECONDS,
    ) -> None:
        self._targets = [UploadTarget(address) for address in addresses]
        self._accepts_images = accepts_images
        self._confirm = confirm
        self._differs = differs
        self._count = count
        self._clock = clock
        self._jitter = jitter
        self._watch_interval = watch_interval
        self._busy = False
        self._sending: tuple[_Transfer, ...] = ()
        self.policy = policy

    @property
    def targets(self) -> tuple[UploadTarget, ...]:
        """The NameNodes with their current state."""
        found = list(self._targets)
        for each in self._sending:
            if each.begun:
                found[each.number] = replace(found[each.number], sent=each.size, total=each.total)
        return tuple(found)

    @property
    def busy(self) -> bool:
        """Whether an image is being sent."""
        return self._busy

    @property
    def policy(self) -> UploadPolicy:
        """The rules for offers; a new policy applies from the next offer on."""
        return self._policy

    @policy.setter
    def policy(self, policy: UploadPolicy) -> None:
        self._policy = policy
        # Use one throttle for all targets, so that several standbys do not multiply the load.
        self._throttle = Throttle(policy.bandwidth, count=self._count)

    def holds(self, address: str, txid: int, kind: ImageKind = ImageKind.IMAGE) -> None:
        """Record that the NameNode has the image at `txid`, so that later calls do not offer this image to it."""
        self._targets = [t.holds(txid, kind) if t.address == address else t for t in self._targets]

    def forget(self) -> None:
        """Forget the results of all NameNodes, because their past has changed."""
        self._targets = [UploadTarget(target.address) for target in self._targets]

    def offer(
        self,
        image: Path,
        txid: int,
        info: StorageInfo,
        cancelled: Callable[[], bool],
        *,
        kind: ImageKind = ImageKind.IMAGE,
        force: bool = False,
        began: Callable[[], None] = lambda: None,
    ) -> Iterator[Upload]:
        """Offer an image to every NameNode that is due, and yield each result as it arrives.

        Later calls repeat a failed transfer, with delays according to `UploadPolicy.back_off`. If a NameNode ceases to
        be active during its transfer, abort the transfer, and offer the image to NameNodes that have since become
        active. If the caller closes the iterator early, cancel running transfers.

        Args:
            began: called by each transfer's thread when the transfer begins.

        Raises:
            CheckpointCancelledError: `cancelled()` became true; running transfers have ended.
            OSError, HdfsError: the image or its digest file cannot be read; transfers to other NameNodes have ended.
        """
        if self._policy.shadow:
            return
        quiet = self._policy.quiet_period
        due = [
            number
            for number, target in enumerate(self._targets)
            if target.due(txid, kind, self._clock(), quiet_period=quiet, force=force)
        ]
        if not due:
            return
        offered = _OfferedImage(image, txid, kind, read_md5_file(image).hex(), info)
        for _ in range(_MAX_ROUNDS):
            transfers = [_Transfer(number, self._targets[number], total=image.stat().st_size) for number in due]
            yield from self._round(offered, transfers, cancelled, began)
            if not any(each.lost.is_set() for each in transfers):
                return
            # Another NameNode has become active, perhaps one that was skipped.
            due = [number for number in due if self._targets[number].result == STANDBY]

    def _round(
        self, image: _OfferedImage, transfers: list[_Transfer], cancelled: Callable[[], bool], began: Callable[[], None]
    ) -> Iterator[Upload]:
        ended = threading.Event()
        faults: list[Exception] = []
        with ThreadPoolExecutor(min(len(transfers), self._policy.parallelism), "upload") as pool:
            try:
                self._busy = True
                self._sending = tuple(transfers)
                running = {
                    pool.submit(self._send, image, each, lambda: cancelled() or ended.is_set(), began): each
                    for each in transfers
                }
                # Use a daemon thread, because it may wait for a NameNode that does not answer.
                threading.Thread(target=self._watch, args=(running, ended), name="upload-watch", daemon=True).start()
                for future in as_completed(running):
                    try:
                        outcome = future.result()
                    except Exception as fault:
                        faults.append(fault)
                        continue
                    if (upload := self._note(image, running[future], outcome)) is not None:
                        yield upload
            finally:
                ended.set()
                self._busy = False
                self._sending = ()
        if faults:
            raise next((fault for fault in faults if isinstance(fault, CheckpointCancelledError)), faults[0])

    def _send(
        self, image: _OfferedImage, transfer: _Transfer, stopped: Callable[[], bool], began: Callable[[], None]
    ) -> _TransferOutcome:
        address = transfer.target.address
        if stopped():
            raise CheckpointCancelledError("cancelled before the upload")
        if self._accepts_images(address) is False:
            return _TransferOutcome(None)
        started = time.monotonic()
        refusals: list[str] = []
        try:
            self._compare_settings(address, stopped)
            # query this last, because the response must not be old when the transfer begins
            self._confirm(image.path, image.txid)
            transfer.begun = True
            began()
            result = upload_image(
                address,
                image.path,
                image.md5,
                image.txid,
                image.info,
                kind=image.kind,
                timeout=self._policy.timeout,
                chunk_size=self._policy.chunk_size,
                throttle=self._throttle,
                cancel=lambda: stopped() or transfer.lost.is_set(),
                sent=transfer.sent,
                refused=refusals.append,
            )
        except TransferError as error:
            if stopped():
                raise CheckpointCancelledError("cancelled during the upload") from error
            if transfer.lost.is_set():
                return _TransferOutcome(None, seconds=time.monotonic() - started)
            return _TransferOutcome(None, error.message, time.monotonic() - started, error.status)
        if result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE and self._accepts_images(address) is False:
            # The NameNode is known to be inactive, so offer the image as soon as it becomes active.
            transfer.lost.set()
            return _TransferOutcome(None, seconds=time.monotonic() - started)
        return _TransferOutcome(result, seconds=time.monotonic() - started, refusal="".join(refusals))

    def _compare_settings(self, address: str, stopped: Callable[[], bool]) -> None:
        """Raise TransferError if the NameNode has other settings of replay or does not answer, or if `stopped()`
        becomes true.
        """
        text = self._differs(address, self._policy.rules, timeout=_SETTINGS_SECONDS, cancel=stopped)
        if text:
            raise TransferError(address, f"the NameNode replays edits with different settings: {text}")

    def _watch(self, running: Mapping[Future[_TransferOutcome], _Transfer], ended: threading.Event) -> None:
        """Abort transfers to NameNodes that are no longer active, because they would refuse the transferred image."""
        while not ended.wait(self._watch_interval):
            for future, transfer in running.items():
                if future.running() and transfer.size and self._accepts_images(transfer.target.address) is False:
                    address = transfer.target.address
                    _LOG.warning(
                        "%s is no longer active; the upload is cancelled",
                        address,
                        extra={"phase": "upload", "target": address, "bytes": transfer.size},
                    )
                    transfer.lost.set()

    def _note(self, image: _OfferedImage, transfer: _Transfer, outcome: _TransferOutcome) -> Upload | None:
        """Store a result; return None if nothing was offered."""
        target, now = transfer.target, self._clock()
        self._sending = tuple(each for each in self._sending if each is not transfer)
        if outcome.result is not None:
            after = target.answered(
                image.txid,
                image.kind,
                outcome.result,
                at=time.time(),
                now=now,
                quiet_period=self._policy.quiet_period,
                refusal=outcome.refusal,
            )
        elif outcome.error:
            wait = self._wait_after(target.failures + 1)
            after = target.failed(image.kind, outcome.error, at=time.time(), now=now, wait=wait)
        else:
            after = target.reported_standby(at=time.time())
            if target.result != STANDBY:
                _LOG.info(
                    "%s is not active, so the image is not offered to it",
                    target.address,
                    extra={"txid": image.txid, "phase": "upload", "target": target.address},
                )
        self._targets[transfer.number] = after
        if after.result == STANDBY:
            return None
        refused = outcome.result is not None
        return Upload(
            after.address,
            after.result,
            "" if refused else after.error,
            seconds=outcome.seconds,
            size=transfer.size,
            txid=image.txid,
            kind=image.kind,
            status=outcome.status,
            refusal=after.error if refused else "",
        )

    def _wait_after(self, failures: int) -> float:
        """Return the delay in seconds after `failures` consecutive failures; the first delay is less than the poll
        interval.
        """
        return self._policy.back_off.wait(failures) * (_JITTER_FROM + _JITTER_RANGE * self._jitter())
