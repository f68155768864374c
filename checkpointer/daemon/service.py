"""Decides when a checkpoint is made, makes one at a time, and remembers how it went."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkpointer.config import CheckpointConfig
from checkpointer.daemon.role import CheckpointRole, Upload
from checkpointer.errors import CheckpointCancelledError
from checkpointer.merge import MergeResult
from checkpointer.triggers import TriggerReason, decide
from hadoop_common.errors import EXIT_FAILURE, HdfsError
from servlets.status import Health, TriggerResult, TriggerState

__all__ = ["CheckpointService"]

_LOG = logging.getLogger(__name__)
_MISSED_PERIODS = 3
_SWITCHED_OFF = "dfs.ha.standby.checkpoints is false, so this standby makes no checkpoints"


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
        self, role: CheckpointRole, config: CheckpointConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._role = role
        self._config = config
        self._clock = clock
        self._running = threading.Lock()
        self._result: TriggerResult | None = None
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
        """What the scheduler calls: checkpoint if one is due, then repeat uploads that are owed."""
        return self._attempt(force=False, join=False)

    def request(self, *, force: bool, wait: bool) -> TriggerResult:
        """What an operator calls over HTTP (`CheckpointTrigger`); a running checkpoint is joined.

        With `force` a checkpoint is made as soon as there is a new transaction, and images are offered to all
        NameNodes that lack them, whatever they answered last.
        """
        refusal = self._refusal()
        if refusal is not None or wait:
            return refusal or self._attempt(force=force, join=True)
        threading.Thread(
            target=self._attempt, kwargs={"force": force, "join": True}, name="checkpoint", daemon=True
        ).start()
        return TriggerResult(TriggerState.STARTED, "a checkpoint was started")

    def _refusal(self) -> TriggerResult | None:
        if self._cancelled.is_set():
            return TriggerResult(TriggerState.UNAVAILABLE, "the daemon is stopping")
        if not self._config.standby_checkpoints:
            return TriggerResult(TriggerState.UNAVAILABLE, _SWITCHED_OFF)
        return None

    def _attempt(self, *, force: bool, join: bool) -> TriggerResult:
        waited = not self._running.acquire(blocking=False)
        if waited:
            if not join:
                return TriggerResult(TriggerState.BUSY, "a checkpoint is running")
            self._running.acquire()
        try:
            # Who waited gets the checkpoint it waited for; what else ended meanwhile is no answer to it.
            if waited and self._result is not None and self._result.state is TriggerState.DONE:
                return self._result
            self._result = self._refusal() or self._guarded(force=force)
            return self._result
        finally:
            self._update(phase="idle")
            self._running.release()

    def _guarded(self, *, force: bool) -> TriggerResult:
        """An attempt whose every fault is an outcome: the daemon lives on, and the next poll tries again."""
        try:
            return self._checkpoint_if_due(force=force)
        except CheckpointCancelledError as error:
            return TriggerResult(TriggerState.UNAVAILABLE, error.message)
        except HdfsError as error:
            return self._failed(error.message, error.hint, error.exit_code)
        except OSError as error:
            return self._failed(str(error), "Check disk and network.", EXIT_FAILURE)
        except Exception as error:
            _LOG.exception("a fault of the checkpointer itself")
            return self._failed(f"{type(error).__name__}: {error}", "Report this with the daemon's log.", EXIT_FAILURE)

    def _checkpoint_if_due(self, *, force: bool) -> TriggerResult:
        self._role.prepare()
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
            uploads = self._upload(force=force)
            message = f"no checkpoint is due: {progress.behind} transactions since the image at {progress.image_txid}"
            return TriggerResult(TriggerState.SKIPPED, message, {"txid": progress.image_txid, **uploads})
        _LOG.info("checkpoint by %s: %d transactions behind", reason.value, progress.behind)
        result = self._role.checkpoint(self)
        self._saved(result, reason.value)
        details = {"txid": result.txid, "reason": reason.value, "transactions": result.transactions}
        return TriggerResult(
            TriggerState.DONE, f"checkpoint at txid {result.txid}", {**details, **self._upload(force=force)}
        )

    def _upload(self, *, force: bool) -> dict[str, Any]:
        """Offer the image; returns `uploads`, address to result, and `uploadErrors`, address to error."""
        self._update(phase="upload")
        made = []
        for upload in self._role.upload(self.cancelled, force=force):
            made.append(upload)
            self._offered(upload)
        return {
            "uploads": {each.address: each.result for each in made},
            "uploadErrors": {each.address: each.error for each in made if each.error},
        }

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
        self._update(
            saved_at=time.time(),
            saved_txid=result.txid,
            last_reason=reason,
            checkpoints=self._record.checkpoints + 1,
            last_seconds={"load": timings.load, "replay": timings.replay, "save": timings.save},
        )

    def _offered(self, upload: Upload) -> None:
        if upload.error:
            _LOG.error("upload to %s failed: %s", upload.address, upload.error)
            self._update(last_error=upload.error, last_error_at=time.time())
        else:
            _LOG.info("upload to %s: %s in %.2f s", upload.address, upload.result, upload.seconds)
            self._update(uploaded_at=time.time())

    def _failed(self, message: str, hint: str, exit_code: int) -> TriggerResult:
        _LOG.error("checkpoint failed: %s", message)
        self._update(last_error=message, last_error_at=time.time(), failures=self._record.failures + 1)
        return TriggerResult(TriggerState.FAILED, message, {"hint": hint, "exitCode": exit_code})

    # ---- views ---------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Values for GET /status; times are seconds since the epoch, null for never.

        - `role`, `enabled` (dfs.ha.standby.checkpoints), `phase`: idle, load, replay, save or upload.
        - `imageTxid` of the newest image here, `journalTxid` of the newest finalized edit, `transactionsBehind`; or
          `error` where storage or journal cannot be read now.
        - `storage`: state of each storage directory by path, "in use" or why it was dropped.
        - `checkpoints` made and `failures` since the start; `secondsSinceCheckpoint`, since the start at first.
        - `savedAt`, `savedTxid`, `lastReason` (txns, period or forced), `lastSeconds` (load, replay, save) of the
          last checkpoint; `uploadedAt`, when a NameNode last answered an upload; `lookedAt`, the last poll that could.
        - `lastError`, `lastErrorAt`: the newest fault of a checkpoint or an upload; it stays when the next succeeds.
        - `targets`: for each NameNode `address`, `txid` of the newest image it needs no more, `result` of the last
          offer (SUCCESS, OLD_TRANSACTION_ID_FAILURE, NOT_ACTIVE_NAMENODE_FAILURE, failed, never), `error`, `at`,
          `failures` in a row.
        """
        with self._state:
            record = self._record
        return {
            "role": "standby",
            "enabled": self._config.standby_checkpoints,
            **self._standing(),
            "phase": record.phase,
            "storage": dict(self._role.storage()),
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
                {"address": t.address, "txid": t.txid, "result": t.result, "error": t.error}
                | {"at": t.at, "failures": t.failures}
                for t in self._role.targets
            ],
        }

    def _standing(self) -> dict[str, Any]:
        try:
            progress = self._role.progress()
        except (HdfsError, OSError) as error:
            return {"error": str(error)}
        return {
            "imageTxid": progress.image_txid,
            "journalTxid": progress.journal_txid,
            "transactionsBehind": progress.behind,
        }

    def live(self) -> Health:
        """Whether the daemon works at all: until it is told to stop."""
        stopping = self._cancelled.is_set()
        return Health(not stopping, "stopping" if stopping else "running")

    def ready(self) -> Health:
        """Not ready while storage or journal cannot be read, or several periods brought no checkpoint but work."""
        if not self._config.standby_checkpoints:
            return Health(True, _SWITCHED_OFF)
        try:
            behind = self._role.progress().behind
        except (HdfsError, OSError) as error:
            return Health(False, str(error))
        age = self._clock() - self._last_checkpoint
        late = behind > 0 and age > _MISSED_PERIODS * self._config.period
        return Health(not late, f"{behind} transactions behind, last checkpoint {age:.0f} s ago")
