"""Forecast of the times at which NameNodes accept images. Since Hadoop 3.3, a NameNode refuses an image soon after its
last image.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from checkpointer.errors import TransferError
from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.image_acceptance import ImageAcceptance, ask_acceptance, min_image_age, too_recent
from checkpointer.transfer.namenode_settings import NamenodeSettings, ask_settings, difference
from checkpointer.transfer.upload_target import Upload
from hadoop_common.clock_difference import CLOCK_TOLERANCE, difference_text
from hadoop_common.names import ImageKind
from hadoop_common.quantities import counted
from hadoop_common.recurring_fault import Alarm
from site_config.checkpoint_config import CheckpointConfig
from site_config.keys import CHECKPOINT_PERIOD, CHECKPOINT_TXNS

_LOG = logging.getLogger(__name__)
# short, because a checkpoint waits for the responses although it does not depend on them
_TIMEOUT = 5.0
# seconds for which a NameNode caches its beans
_STALE_SECONDS = 15.0
_ACTIVE, _STANDBY, _OBSERVER = "active", "standby", "observer"
# transactions that every roll writes at the start of a segment
_START_OF_SEGMENT = 1


class UploadForecast:
    """The last report of each NameNode about its newest image, with times by this host's clock. Any thread may call any
    method.

    Args:
        clock: monotonic seconds; `wall`: seconds since the epoch.

    Attributes:
        updated: whether the daemon has queried the NameNodes.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        ask: Callable[..., ImageAcceptance] = ask_acceptance,
        ask_settings: Callable[..., NamenodeSettings] = ask_settings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.updated = False
        self._ask = ask
        self._ask_settings = ask_settings
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._known: dict[str, ImageAcceptance] = {}
        # last reports, including reports of NameNodes that no longer answer
        self._last: dict[str, ImageAcceptance] = {}
        # reports at the last time when this daemon was known to be the leader, or when it uploaded an image
        self._own: dict[str, ImageAcceptance] = {}
        # alarm for each NameNode that does not answer, with readings of `clock` at the first and last consecutive
        # failed query
        self._silent: dict[str, tuple[Alarm, float, float]] = {}
        # the last known settings of each NameNode, and the reason why the present settings are unknown
        self._settings: dict[str, NamenodeSettings] = {}
        self._unknown: dict[str, str] = {}
        # time when each NameNode accepted our last image
        self._accepted_at: dict[str, float] = {}
        # time when a NameNode accepts an image again, according to its refusal
        self._refused_until: dict[str, float] = {}
        # seconds by which each NameNode's clock is ahead; small changes are ignored, so that the times of one image
        # remain equal
        self._clock_ahead: dict[str, float] = {}

    def update(self, addresses: Sequence[str], cancelled: Callable[[], bool]) -> None:
        """Query all NameNodes in parallel; discard the report of a NameNode that does not answer."""
        if not addresses:
            return

        def ask(address: str) -> ImageAcceptance | TransferError:
            return self._fetch(address, cancelled)

        with ThreadPoolExecutor(len(addresses), "upload-forecast") as pool:
            for address, found in zip(addresses, pool.map(ask, addresses), strict=True):
                with self._lock:
                    self._known.pop(address, None)
                    if isinstance(found, ImageAcceptance):
                        ours = found.by_our_clock(self._clock_lead(address, found.clock_ahead))
                        self._known[address] = self._last[address] = last = self._fresh(address, ours)
                        # a standby makes its own images
                        if (own := self._own.get(address)) and _STANDBY in (own.state, last.state):
                            self._own[address] = last
                        self._silent.pop(address, None)
                    elif not isinstance(found, TransferCancelledError):
                        reason = found.message.removeprefix(found.target).lstrip(": ")
                        alarm = Alarm(f"{address} does not report its state: {reason}", found.hint, "namenode")
                        now = self._clock()
                        self._silent[address] = alarm, self._silent.get(address, (alarm, now))[1], now
        # set this last, because an attempt may run at the same time
        self.updated = True

    def settings_fault(self, cancelled: Callable[[], bool]) -> str:
        """Describe how the active NameNode's settings of replay differ from ours; "" if they are equal or unknown.

        While no NameNode is known to be active, the last active NameNode is assumed to be active with unchanged
        settings if it does not answer.

        Raises:
            TransferCancelledError: `cancelled()` became true.
        """
        with self._lock:
            active = _active_namenodes(self._known) or _active_namenodes(self._last)
        for address in active:
            self._update_settings(address, cancelled)
            known = self._settings.get(address)
            if known is not None and (text := difference(known, self.config.merge_settings.rules)):
                return f"{address} replays edits with different settings: {text}"
        return ""

    def _update_settings(self, address: str, cancelled: Callable[[], bool]) -> None:
        try:
            self._settings[address] = self._ask_settings(address, timeout=_TIMEOUT, cancel=cancelled)
        except TransferCancelledError:
            raise
        except TransferError as error:
            if error.status is not None:
                self._settings.pop(address, None)
            if error.problem != self._unknown.get(address):
                self._unknown[address] = error.problem
                _LOG.warning("our replay settings cannot be compared with those of %s: %s", address, error.problem)
        else:
            self._unknown.pop(address, None)

    def _fetch(self, address: str, cancelled: Callable[[], bool]) -> ImageAcceptance | TransferError:
        try:
            return self._ask(address, timeout=_TIMEOUT, cancel=cancelled)
        except TransferError as error:
            _LOG.debug("it is unknown when %s accepts images: %s", address, error)
            return error

    def _clock_lead(self, address: str, measured: float) -> float:
        """Return the number of seconds by which the NameNode's clock is ahead of this host's clock; log changes."""
        known = self._clock_ahead.get(address, 0.0)
        if abs(measured - known) <= CLOCK_TOLERANCE:
            return known
        known = self._clock_ahead[address] = 0.0 if abs(measured) <= CLOCK_TOLERANCE else measured
        if known:
            _LOG.warning("the clock of %s is %s", address, difference_text(known))
        return known

    def alarms(self, addresses: Sequence[str]) -> list[Alarm]:
        """Return an alarm for each given NameNode that did not answer two consecutive queries."""
        with self._lock:
            found = [self._silent[address] for address in addresses if address in self._silent]
        return [alarm for alarm, first, last in found if last - first >= self.config.poll_interval / 2]

    def _fresh(self, address: str, found: ImageAcceptance) -> ImageAcceptance:
        """Correct a report that may be older than an image that the NameNode has just accepted."""
        accepted_at = self._accepted_at.get(address)
        if (
            accepted_at is None
            or found.last_at is None
            or found.last_at >= accepted_at
            or self._wall() - accepted_at > _STALE_SECONDS
        ):
            return found
        return replace(found, last_at=accepted_at)

    def last_image_at(self) -> float | None:
        """Return the time when the newest image reached the active NameNode, in seconds since the epoch; None if
        unknown.
        """
        with self._lock:
            known = [each for each in self._last.values() if each.state not in (_STANDBY, _OBSERVER)]
        return max((each.last_at for each in known if each.last_at is not None), default=None)

    def observers(self) -> frozenset[str]:
        """Return the NameNodes that are observers. The active NameNode needs an image of its own, which allows it to
        purge edits.
        """
        return self._in_state(_OBSERVER)

    def inactive(self) -> frozenset[str]:
        """Return the NameNodes that are known to be standbys or observers."""
        return self._in_state(_STANDBY, _OBSERVER)

    def _in_state(self, *states: str) -> frozenset[str]:
        with self._lock:
            return frozenset(address for address, each in self._last.items() if each.state in states)

    def remember(self) -> None:
        """Record the NameNodes' current images as images of this daemon."""
        with self._lock:
            self._own = dict(self._last)

    def others_image(self) -> bool:
        """Return whether a NameNode has received a newer image from another daemon since `remember`."""
        with self._lock:
            pairs = [(self._last[address], old) for address, old in self._own.items()]
        return any(_is_newer(new, old) for new, old in pairs)

    def has_newer(self, address: str, txid: int) -> bool:
        """Return whether a NameNode has received an image newer than `txid` from another daemon."""
        with self._lock:
            new, old = self._last.get(address), self._own.get(address)
        return new is not None and old is not None and _is_newer(new, old) and (new.last_txid or -1) > txid

    def note_upload(self, upload: Upload) -> None:
        if upload.kind is not ImageKind.IMAGE:
            return
        now = self._wall()
        with self._lock:
            known = self._known.get(upload.address)
            if upload.result == UploadResult.SUCCESS.name:
                self._refused_until.pop(upload.address, None)
                self._accepted_at[upload.address] = now
                if last := known or self._last.get(upload.address):
                    # a standby refuses images, so this NameNode has changed its state
                    state = "" if last.state == _STANDBY else last.state
                    self._last[upload.address] = replace(last, state=state, last_at=now, last_txid=upload.txid)
                    self._own[upload.address] = self._last[upload.address]
                    if known is not None:
                        self._known[upload.address] = self._last[upload.address]
            elif (recent := too_recent(upload.refusal)) is not None:
                self._refused_until[upload.address] = now + recent.seconds_left

    def state_of(self, address: str) -> str:
        """Return the NameNode's reported state: active, standby or observer; "" if unknown."""
        with self._lock:
            known = self._known.get(address)
        return "" if known is None else known.state

    def unread_edits(self, txid: int) -> str:
        """Describe the edits after `txid` in the active NameNode's open segment, which a standby does not read; "" if
        there are none.
        """
        with self._lock:
            found = [each.written_txid for each in self._known.values() if each.state == _ACTIVE]
        written = max((each for each in found if each is not None), default=-1)
        if written <= txid + _START_OF_SEGMENT:
            return ""
        return (
            f"; the active NameNode has written up to {written}: end its open segment with `hdfs dfsadmin -rollEdits`, "
            "then repeat the request"
        )

    def reported_at(self, address: str) -> float | None:
        """Return the time when the NameNode last stored an image, in seconds since the epoch; None if no current report
        exists.
        """
        with self._lock:
            known = self._known.get(address)
        return None if known is None else known.last_at

    def namenode_id(self, address: str) -> str:
        """Return the NameNode's id in the nameservice, or "" if the nameservice has no HA."""
        ids = dict(zip(self.config.namenode_http_addresses, self.config.namenode_ids, strict=False))
        return ids.get(address, "")

    def takes_from(self, address: str) -> float | None:
        """Return the time from which this NameNode accepts an image, in seconds since the epoch; None if it may accept
        an image now.
        """
        with self._lock:
            known, expected = self._known.get(address), self._refused_until.get(address)
        if expected is None and known is not None:
            period, _ = self._image_rule(address)
            expected = known.takes_from(period)
        return expected if expected is not None and expected > self._wall() else None

    def expected_refusals(self, txid: int) -> list[str]:
        """Return a sentence for each NameNode that will refuse the image at `txid` now."""
        now = self._wall()
        with self._lock:
            known = dict(self._known)
        found = []
        for address, node in known.items():
            period, transactions = self._image_rule(address)
            if node.refuses(txid, now, period=period, transactions=transactions):
                age, count = max(0.0, now - (node.last_at or now)), counted(transactions, "transaction")
                found.append(
                    f"{address} (Hadoop {node.version}) will refuse the image at txid {txid} as too recent: its last "
                    f"image is {age:.0f} s old, expected at least {min_image_age(period)} s or {count}"
                )
        return found

    def _image_rule(self, address: str) -> tuple[float, int]:
        """Return the period in seconds and the number of transactions with which the NameNode decides whether an image
        is too recent; use our values if the NameNode's are unknown.
        """
        theirs = self._settings.get(address, NamenodeSettings())
        period = theirs.get(CHECKPOINT_PERIOD, self.config.period)
        return period, theirs.get(CHECKPOINT_TXNS, self.config.transactions)


def _active_namenodes(reports: Mapping[str, ImageAcceptance]) -> list[str]:
    """Return the NameNodes that report that they are active."""
    return [address for address, each in reports.items() if each.state == _ACTIVE]


def _is_newer(new: ImageAcceptance, old: ImageAcceptance) -> bool:
    """Return whether `new` reports a newer image than `old`.

    Both values must be newer: the time also changes if the NameNode's clock is set, and its response may be older than
    the response with the txid.
    """
    return (new.last_txid or -1) > (old.last_txid or -1) and (new.last_at or 0.0) > (old.last_at or 0.0)
