"""When each NameNode takes an image, as far as that is known: those of Hadoop 3.3 refuse one soon after the last."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from checkpointer.errors import TransferError
from checkpointer.roles.role import Upload
from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.namenode_outlook import NamenodeOutlook, ask_outlook
from checkpointer.transfer.refusals import least_age, too_recent
from servlets.parameters import ImageKind
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
# the question is worth less than the checkpoint that waits for its answer
_TIMEOUT = 5.0
# a NameNode's beans keep what they told for so long
_STALE_SECONDS = 15.0


class UploadForecast:
    """What each NameNode said last of its last image; any thread may ask. `wall` gives seconds since the epoch."""

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        ask: Callable[..., NamenodeOutlook] = ask_outlook,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._ask = ask
        self._wall = wall
        self._lock = threading.Lock()
        self._known: dict[str, NamenodeOutlook] = {}
        # what each said of its newest image, whether or not it tells now
        self._last: dict[str, NamenodeOutlook] = {}
        # what each had when this daemon last knew that it is the one that makes images, or gave it one
        self._familiar: dict[str, NamenodeOutlook] = {}
        # when each took an image of ours
        self._took: dict[str, float] = {}
        # what a NameNode said when it refused, by its own keys
        self._told: dict[str, float] = {}

    def look(self, addresses: Sequence[str], cancelled: Callable[[], bool]) -> None:
        """Ask all NameNodes at once; one that does not tell is forgotten."""
        if not addresses:
            return

        def ask(address: str) -> NamenodeOutlook | None:
            return self._look(address, cancelled)

        with ThreadPoolExecutor(len(addresses), "upload-forecast") as pool:
            for address, found in zip(addresses, pool.map(ask, addresses), strict=True):
                with self._lock:
                    self._known.pop(address, None)
                    if found is not None:
                        self._known[address] = self._last[address] = self._fresh(address, found)

    def _look(self, address: str, cancelled: Callable[[], bool]) -> NamenodeOutlook | None:
        try:
            return self._ask(address, timeout=_TIMEOUT, cancel=cancelled)
        except TransferCancelledError:
            return None
        except TransferError as error:
            _LOG.debug("when %s takes images is not known: %s", address, error)
            return None

    def _fresh(self, address: str, found: NamenodeOutlook) -> NamenodeOutlook:
        """Its answer may be older than an image that it took just now."""
        took = self._took.get(address)
        if took is None or found.last_at is None or found.last_at >= took or self._wall() - took > _STALE_SECONDS:
            return found
        return replace(found, last_at=took)

    def last_image_at(self) -> float | None:
        """When the active NameNode got its newest image, seconds since the epoch; None where that was never told."""
        with self._lock:
            known = [each for each in self._last.values() if each.last_at is not None]
        return max((each.last_at or 0.0 for each in known if each.state != "standby"), default=None)

    def remember(self) -> None:
        """What the NameNodes have now is known to be no work of others."""
        with self._lock:
            self._familiar = dict(self._last)

    def others_image(self) -> bool:
        """Whether a NameNode has got a newer image since `remember` that was none of ours."""
        with self._lock:
            pairs = [(self._last[address], old) for address, old in self._familiar.items()]
        # Each alone may only seem to be newer: txids are computed from two numbers, and the times are of two clocks.
        return any(
            (new.last_txid or -1) > (old.last_txid or -1) and (new.last_at or 0.0) > (old.last_at or 0.0)
            for new, old in pairs
        )

    def heard(self, upload: Upload) -> None:
        """Note what became of an offer."""
        if upload.kind is not ImageKind.IMAGE:
            return
        now = self._wall()
        with self._lock:
            known = self._known.get(upload.address)
            if upload.result == UploadResult.SUCCESS.name:
                self._told.pop(upload.address, None)
                self._took[upload.address] = now
                if last := known or self._last.get(upload.address):
                    self._last[upload.address] = replace(last, last_at=now, last_txid=upload.txid)
                    self._familiar[upload.address] = self._last[upload.address]
                    if known is not None:
                        self._known[upload.address] = self._last[upload.address]
            elif (recent := too_recent(upload.refusal)) is not None:
                self._told[upload.address] = now + recent.seconds_left

    def state_of(self, address: str) -> str:
        """What this NameNode said it is: active, standby or observer; "" where it does not say."""
        with self._lock:
            known = self._known.get(address)
        return "" if known is None else known.state

    def namenode_id(self, address: str) -> str:
        """Its id in the nameservice, "" without HA."""
        ids = dict(zip(self.config.namenode_http_addresses, self.config.namenode_ids, strict=False))
        return ids.get(address, "")

    def takes_from(self, address: str) -> float | None:
        """When this NameNode takes an image again, seconds since the epoch; None where it may take one now."""
        with self._lock:
            known, told = self._known.get(address), self._told.get(address)
        expected = told
        if expected is None and known is not None:
            expected = known.takes_from(self.config.period)
        return expected if expected is not None and expected > self._wall() else None

    def expected_refusals(self, txid: int) -> list[str]:
        """A sentence for each NameNode that will refuse the image at `txid` now."""
        now, period, transactions = self._wall(), self.config.period, self.config.transactions
        with self._lock:
            known = dict(self._known)
        return [
            f"{address} (Hadoop {node.version}) will refuse the image at txid {txid} as too recent: its last one is "
            f"{now - (node.last_at or now):.0f} s old, expected {least_age(period)} s or {transactions} transactions"
            for address, node in known.items()
            if node.refuses(txid, now, period=period, transactions=transactions)
        ]
