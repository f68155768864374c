"""Decides when a checkpoint is made, makes one at a time, and remembers how it went."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.standby import StandbyRole
from checkpointer.errors import CheckpointCancelledError
from checkpointer.merge import MergeResult
from checkpointer.triggers import TriggerReason, decide
from hadoop_common.errors import HdfsError
from servlets.status import Health, TriggerResult, TriggerState

__all__ = ["CheckpointService"]

_LOG = logging.getLogger(__name__)
_MISSED_PERIODS = 3


@dataclass(frozen=True, slots=True)
class Record:
    """What the status page tells; times are seconds since the epoch, None for never."""

    phase: str = "idle"
    looked_at: float | None = None
    saved_at: float | None = None
    saved_txid: int | None = None
    uploaded_at: float | None = None
    last_error: str = ""
    last_error_at: float | None = None
    last_reason: str = ""
    checkpoints: int = 0
    failures: int = 0
    last_seconds: Mapping[str, float] | None = None


class CheckpointService:
    """One role, its triggers and its memory; every method may be called from any thread.

    Args:
        role: what makes and uploads images.
        config: periods and thresholds.
        clock: monotonic seconds.
    """

    def __init__(
        self, role: StandbyRole, config: CheckpointConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._role = role
        self._config = config
        self._clock = clock
        self._running = threading.Lock()
        self._state = threading.Lock()
        self._record = Record()
        self._last_checkpoint = clock()
        self._cancelled = threading.Event()

    # ---- Observer ------------------------------------------------------------------------------------------

    def phase(self, name: str, total: int | None) -> None:
        self._update(phase=name)

    def advance(self, done: int) -> None:
        """Progress within a phase is not kept."""

    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def stop(self) -> None:
        """Let a running checkpoint end at its next safe point, and start no other."""
        self._cancelled.set()
        with self._running:
            _LOG.info("no checkpoint is running")

    # ---- triggers ------------------------------------------------------------------------------------------

    def poll(self) -> TriggerResult:
        """What the scheduler calls: checkpoint if one is due, then retry uploads that are owed."""
        return self._attempt(force=False, blocking=False)

    def request(self, *, force: bool, wait: bool) -> TriggerResult:
        """What an operator calls over HTTP."""
        if not wait:
            threading.Thread(target=self._attempt, kwargs={"force": force}, name="checkpoint", daemon=True).start()
            return TriggerResult(TriggerState.STARTED, "a checkpoint was started")
        return self._attempt(force=force)

    def _attempt(self, *, force: bool, blocking: bool = True) -> TriggerResult:
        if self._cancelled.is_set():
            return TriggerResult(TriggerState.UNAVAILABLE, "the daemon is stopping")
        if not self._running.acquire(blocking=blocking):
            return TriggerResult(TriggerState.BUSY, "a checkpoint is running")
        try:
            return self._checkpoint_if_due(force=force)
        except CheckpointCancelledError as error:
            return TriggerResult(TriggerState.UNAVAILABLE, error.message)
        except HdfsError as error:
            self._failed(error)
            return TriggerResult(TriggerState.FAILED, error.message, {"hint": error.hint})
        except OSError as error:
            self._failed(error)
            return TriggerResult(TriggerState.FAILED, str(error), {"hint": "Check disk and network."})
        finally:
            self._update(phase="idle")
            self._running.release()

    def _checkpoint_if_due(self, *, force: bool) -> TriggerResult:
        progress = self._role.progress()
        self._update(looked_at=time.time())
        reason = decide(
            now=self._clock(),
            last_checkpoint=self._last_checkpoint,
            transactions=progress.behind,
            config=self._config,
            forced=force,
        )
        if reason is None or not progress.behind:
            if reason is TriggerReason.PERIOD:
                # Nothing was written in a whole period; the next one counts from here.
                self._last_checkpoint = self._clock()
            self._upload()
            return TriggerResult(
                TriggerState.SKIPPED,
                f"no checkpoint is due: {progress.behind} transactions since the image at {progress.image_txid}",
                {"txid": progress.image_txid},
            )
        _LOG.info("checkpoint by %s: %d transactions behind", reason.value, progress.behind)
        result = self._role.checkpoint(self)
        self._saved(result, reason.value)
        self._upload()
        return TriggerResult(
            TriggerState.DONE,
            f"checkpoint at txid {result.txid}",
            {
                "txid": result.txid,
                "reason": reason.value,
                "transactions": result.transactions,
                "uploads": {target.address: target.result for target in self._role.targets},
            },
        )

    def _upload(self) -> None:
        self._update(phase="upload")
        for upload in self._role.upload(self.cancelled):
            if upload.error:
                _LOG.error("upload to %s failed: %s", upload.address, upload.error)
                self._update(last_error=upload.error, last_error_at=time.time())
            else:
                _LOG.info("upload to %s: %s in %.2f s", upload.address, upload.result, upload.seconds)
                self._update(uploaded_at=time.time())

    # ---- memory --------------------------------------------------------------------------------------------

    def _update(self, **changes: Any) -> None:
        with self._state:
            self._record = replace(self._record, **changes)

    def _saved(self, result: MergeResult, reason: str) -> None:
        self._last_checkpoint = self._clock()
        timings = result.timings
        _LOG.info(
            "checkpoint at txid %d: %d transactions, %d inodes, load %.2f s, replay %.2f s, save %.2f s",
            result.txid,
            result.transactions,
            result.inodes,
            timings.load,
            timings.replay,
            timings.save,
        )
        for failure in result.saved.failures:
            _LOG.error("storage directory dropped: %s", failure)
        self._update(
            saved_at=time.time(),
            saved_txid=result.txid,
            last_reason=reason,
            checkpoints=self._record.checkpoints + 1,
            last_seconds={"load": timings.load, "replay": timings.replay, "save": timings.save},
        )

    def _failed(self, error: Exception) -> None:
        _LOG.error("checkpoint failed: %s", error)
        self._update(last_error=str(error), last_error_at=time.time(), failures=self._record.failures + 1)

    # ---- views ---------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Values for GET /status; one that cannot be read is an error text there."""
        with self._state:
            record = self._record
        try:
            progress = self._role.progress()
            standing = {"imageTxid": progress.image_txid, "journalTxid": progress.journal_txid}
            standing["transactionsBehind"] = progress.behind
        except (HdfsError, OSError) as error:
            standing = {"error": str(error)}  # type: ignore[dict-item]
        return {
            "role": "standby",
            **standing,
            "phase": record.phase,
            "checkpoints": record.checkpoints,
            "failures": record.failures,
            "lookedAt": record.looked_at,
            "savedAt": record.saved_at,
            "savedTxid": record.saved_txid,
            "lastReason": record.last_reason,
            "uploadedAt": record.uploaded_at,
            "lastError": record.last_error,
            "lastErrorAt": record.last_error_at,
            "lastSeconds": record.last_seconds,
            "secondsSinceCheckpoint": round(self._clock() - self._last_checkpoint, 3),
            "targets": [
                {"address": t.address, "txid": t.txid, "result": t.result, "error": t.error, "at": t.at}
                for t in self._role.targets
            ],
        }

    def live(self) -> Health:
        return Health(not self._cancelled.is_set(), "stopping" if self._cancelled.is_set() else "running")

    def ready(self) -> Health:
        """Not ready when several periods went by without a checkpoint although there was work."""
        age = self._clock() - self._last_checkpoint
        behind = self._role.progress().behind
        late = behind > 0 and age > _MISSED_PERIODS * self._config.period
        return Health(not late, f"{behind} transactions behind, last checkpoint {age:.0f} s ago")
