"""Offers images to all NameNodes that are due at once, and keeps for each of them how that went.

For each NameNode there is a `UploadTarget`, and an offer of an image ends in one of these:

- taken, or refused as old: that image is settled there.
- not active: nothing is settled, and it is left alone for a while.
- failed: it is offered again after a wait that grows.
- none made: it said beforehand, or meanwhile, that it is not active.

Who was refused for another checkpointer's image is not the primary there, and leaves that NameNode alone for a while.
What can never happen: an image goes out that was not confirmed right before; a txid that is settled is offered again,
for Hadoop refuses for ever what it once refused as too recent; one target's fault cuts a transfer to another.
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
from checkpointer.roles.role import STANDBY, Upload, UploadTarget
from checkpointer.transfer import UploadResult, upload_image
from engine.errors import CheckpointCancelledError
from hadoop_common.back_off import BackOff
from hadoop_common.storage_info import StorageInfo
from image_format.md5_file import read_md5_file
from servlets.parameters import ImageKind
from servlets.throttle import Throttle
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_JITTER_FROM, _JITTER_RANGE = 0.5, 0.4
# how often the state of a NameNode that gets an image is asked for
_WATCH_SECONDS = 5.0
# an image follows the active role from node to node so often in one go; what is left is for the next poll
_MAX_ROUNDS = 3

# Whether the NameNode at an HTTP address takes images now; None where that cannot be told.
TakesImages = Callable[[str], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPolicy:
    """How images are offered; times in seconds, `bandwidth` in bytes a second for all transfers together, 0 is off.

    Attributes:
        quiet_period: who turned an image down is left alone so long; 0 offers every image.
        back_off: waits after failed transfers, about.
        parallelism: transfers at once.
    """

    quiet_period: float
    back_off: BackOff
    parallelism: int
    timeout: float
    chunk_size: int
    bandwidth: int

    @classmethod
    def of(cls, config: CheckpointConfig) -> Self:
        return cls(
            quiet_period=config.quiet_multiplier * config.period,
            back_off=BackOff(config.poll_interval, config.period),
            parallelism=config.upload_parallelism,
            timeout=config.transfer_timeout,
            chunk_size=config.transfer_chunk_size,
            bandwidth=config.transfer_bandwidth,
        )

    @classmethod
    def for_one(cls, config: CheckpointConfig) -> Self:
        """For a NameNode that nobody else makes checkpoints for: it is offered every image."""
        return replace(cls.of(config), quiet_period=0.0)


@dataclass(frozen=True, slots=True)
class _Image:
    """What is offered."""

    path: Path
    txid: int
    kind: ImageKind
    md5: str
    info: StorageInfo


@dataclass(slots=True)
class _Transfer:
    """One image on its way to one NameNode; `lost` is set when that one is no longer active."""

    number: int
    target: UploadTarget
    total: int = 0
    lost: threading.Event = field(default_factory=threading.Event)
    size: int = 0

    def sent(self, count: int) -> None:
        self.size += count


@dataclass(frozen=True, slots=True)
class _Outcome:
    """`result` None with an `error` where the transfer failed, without one where there was none to make.

    `said` is why the image was refused.
    """

    result: UploadResult | None
    error: str = ""
    seconds: float = 0.0
    status: int | None = None
    said: str = ""


class Uploader:
    """The NameNodes that get our images. One thread at a time offers; any thread may look at `targets`.

    Args:
        addresses: `http://host:port` each.
        takes_images: asked before and, from time to time, during a transfer, so that no image goes to a NameNode
            that will refuse it; called from several threads, tells its own errors.
        confirm: called with an image and its txid right before each transfer. A TransferError is a transfer that
            failed, to be repeated; what else it raises ends the offer.
        count: told the bytes that go out, over all NameNodes.
        clock: monotonic seconds, for when to offer an image again.
        jitter: numbers from 0 to 1 that spread the retries of several checkpointers.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        policy: UploadPolicy,
        *,
        takes_images: TakesImages = lambda address: None,
        confirm: Callable[[Path, int], None] = lambda image, txid: None,
        count: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        watch_interval: float = _WATCH_SECONDS,
    ) -> None:
        self._targets = [UploadTarget(address) for address in addresses]
        self._takes_images = takes_images
        self._confirm = confirm
        self._count = count
        self._clock = clock
        self._jitter = jitter
        self._watch_interval = watch_interval
        self._busy = False
        self._sending: tuple[_Transfer, ...] = ()
        self.policy = policy

    @property
    def targets(self) -> tuple[UploadTarget, ...]:
        """The NameNodes as they are now."""
        found = list(self._targets)
        for each in self._sending:
            found[each.number] = replace(found[each.number], sent=each.size, total=each.total)
        return tuple(found)

    @property
    def busy(self) -> bool:
        """Whether an image is on its way to somebody."""
        return self._busy

    @property
    def policy(self) -> UploadPolicy:
        """How images are offered; a new one holds from the next offer on."""
        return self._policy

    @policy.setter
    def policy(self, policy: UploadPolicy) -> None:
        self._policy = policy
        # One budget for all targets, so that several standbys to serve do not multiply the load.
        self._throttle = Throttle(policy.bandwidth, count=self._count)

    def holds(self, address: str, txid: int, kind: ImageKind = ImageKind.IMAGE) -> None:
        """Note that the image at `txid` came from there, so that it is not offered back."""
        self._targets = [t.holds(txid, kind) if t.address == address else t for t in self._targets]

    def forget(self) -> None:
        """What the NameNodes have or do not want is not known any more: their past is another one."""
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
    ) -> Iterator[Upload]:
        """Offer an image to every NameNode that is due, yielding each outcome when it is there.

        A transfer that fails is repeated at a later call, after waits of `UploadPolicy.back_off`. One that was cut
        because its NameNode ceased to be active is followed by offers to those that have become active since. Leaving
        the iterator early cancels what runs.

        Raises:
            CheckpointCancelledError: `cancelled()` became true; transfers that ran have ended.
            OSError, HdfsError: image or digest file cannot be read; transfers to other NameNodes have ended.
        """
        quiet = self._policy.quiet_period
        due = [
            number
            for number, target in enumerate(self._targets)
            if target.due(txid, kind, self._clock(), quiet_period=quiet, force=force)
        ]
        if not due:
            return
        offered = _Image(image, txid, kind, read_md5_file(image).hex(), info)
        for _ in range(_MAX_ROUNDS):
            transfers = [_Transfer(number, self._targets[number], total=image.stat().st_size) for number in due]
            yield from self._round(offered, transfers, cancelled)
            if not any(each.lost.is_set() for each in transfers):
                return
            # Someone else has become active, perhaps one that was passed over.
            due = [number for number in due if self._targets[number].result == STANDBY]

    def _round(self, image: _Image, transfers: list[_Transfer], cancelled: Callable[[], bool]) -> Iterator[Upload]:
        ended = threading.Event()
        faults: list[Exception] = []
        with ThreadPoolExecutor(min(len(transfers), self._policy.parallelism), "upload") as pool:
            try:
                self._busy = True
                self._sending = tuple(transfers)
                running = {
                    pool.submit(self._send, image, each, lambda: cancelled() or ended.is_set()): each
                    for each in transfers
                }
                # Nobody waits for it: it may be asking a NameNode that does not answer.
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

    def _send(self, image: _Image, transfer: _Transfer, stopped: Callable[[], bool]) -> _Outcome:
        address = transfer.target.address
        if stopped():
            raise CheckpointCancelledError("cancelled before the upload")
        if self._takes_images(address) is False:
            return _Outcome(None)
        started = time.monotonic()
        said: list[str] = []
        try:
            self._confirm(image.path, image.txid)
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
                refused=said.append,
            )
        except TransferError as error:
            if stopped():
                raise CheckpointCancelledError("cancelled during the upload") from error
            if transfer.lost.is_set():
                return _Outcome(None, seconds=time.monotonic() - started)
            return _Outcome(None, error.message, time.monotonic() - started, error.status)
        return _Outcome(result, seconds=time.monotonic() - started, said="".join(said))

    def _watch(self, running: Mapping[Future[_Outcome], _Transfer], ended: threading.Event) -> None:
        """Cut a transfer to a NameNode that is no longer active: it would refuse the image in the end."""
        while not ended.wait(self._watch_interval):
            for future, transfer in running.items():
                if future.running() and transfer.size and self._takes_images(transfer.target.address) is False:
                    address = transfer.target.address
                    _LOG.warning(
                        "%s is no longer active, the upload is ended",
                        address,
                        extra={"phase": "upload", "target": address, "bytes": transfer.size},
                    )
                    transfer.lost.set()

    def _note(self, image: _Image, transfer: _Transfer, outcome: _Outcome) -> Upload | None:
        """Remember an outcome; None where nothing was offered."""
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
                said=outcome.said,
            )
        elif outcome.error:
            after = target.failed(outcome.error, at=time.time(), not_before=now + self._wait_after(target.failures + 1))
        else:
            after = target.stands_by(at=time.time())
            if target.result != STANDBY:
                _LOG.info(
                    "%s is not active, it gets no image",
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
        """Seconds to wait after `failures` in a row; below the poll interval after the first."""
        return self._policy.back_off.wait(failures) * (_JITTER_FROM + _JITTER_RANGE * self._jitter())
