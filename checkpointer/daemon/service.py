"""Decides when a checkpoint is made, and makes one at a time; every fault of it is an outcome.

One lock, `_running`, is held by the thread that makes a checkpoint or uploads, so there are never two. Who finds it
taken is BUSY (a poll, whose next one comes anyway) or waits and gets that result (a request). An attempt ends as DONE,
SKIPPED, FAILED or UNAVAILABLE; no fault leaves it in another way, and only a role that gives up ends the daemon.

A cancellation is a reason that is set, a lock that is waited for, and a time until which none begins: when `cancel`
returns nothing runs. It is asked at safe points alone, where what is unfinished can be deleted. `stop` is the same
for good. The period counts from the last image, or from the last time that it passed with nothing to save.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from checkpointer.config.checkpoint_config import CheckpointConfig, Role
from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.outcome import Outcome, Taking, outcome_of
from checkpointer.daemon.outlook import Outlook
from checkpointer.daemon.record import RecordKeeper
from checkpointer.daemon.status import daemon_state
from checkpointer.daemon.triggers import TriggerReason, decide
from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.role import CheckpointRole, Job, Progress, Upload
from engine.errors import CheckpointCancelledError
from engine.merge import MergeResult
from hadoop_common.errors import EXIT_FAILURE, HdfsError
from hadoop_common.file_faults import explained, told
from servlets.node_state import Cancelled, NodeState, as_json
from servlets.parameters import ImageKind
from servlets.status import Health, TriggerResult, TriggerState

__all__ = ["PREVENT_SECONDS", "CheckpointService"]

_LOG = logging.getLogger(__name__)
_MISSED_PERIODS = 3
# StandbyCheckpointer.PREVENT_AFTER_CANCEL_MS
PREVENT_SECONDS = 120.0
_SWITCHED_OFF = "dfs.ha.standby.checkpoints is false, so this standby makes no checkpoints"


class CheckpointService:
    """One role, its triggers and its memory; every method may be called from any thread.

    Args:
        role: what makes and uploads images.
        config: periods and thresholds.
        clock: monotonic seconds.
        gave_up: called when the role gave up for good; `fault` says why.
        lake: told of each new image; it is stopped with the service.
        outlook: when NameNodes take images.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        role: CheckpointRole,
        config: CheckpointConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        gave_up: Callable[[], None] = lambda: None,
        lake: LakeAppender | None = None,
        outlook: Outlook | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._role = role
        self._config = config
        self._clock = clock
        self._gave_up = gave_up
        self._lake = lake or LakeAppender(config)
        self._outlook = outlook or Outlook(config)
        self._wall = wall
        self._fault: RoleGaveUpError | None = None
        self._running = threading.Lock()
        self._result: TriggerResult | None = None
        self._record = RecordKeeper()
        # what the period counts from, and when there was really a new image
        self._period_from = self._saved_at = clock()
        self._stopped = threading.Event()
        self._cancellation = self._refused_because = ""
        self._prevented_until = clock()
        # when the image that is being made got its name
        self._renamed_at: float | None = None

    @property
    def fault(self) -> RoleGaveUpError | None:
        """Why the role gave up, None as long as it works."""
        return self._fault

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new periods and thresholds from the next poll on."""
        self._config = self._outlook.config = config
        self._lake.reconfigure(config)

    def jobs(self) -> list[Job]:
        """What is to be run now and then beside polls: NameNodes are asked when they take an image again."""
        return [Job("outlook", self._config.period, self._look)]

    def _look(self) -> bool:
        self._outlook.look([target.address for target in self._role.targets], self._stopped.is_set)
        return False

    # ---- Observer ------------------------------------------------------------------------------------------

    def phase(self, name: str, total: int | None) -> None:
        self._record.phase(name)

    def advance(self, done: int) -> None:
        """Progress within a phase is not kept."""

    def saved(self) -> None:
        self._renamed_at = self._clock()

    def cancelled(self) -> bool:
        return bool(self._cancellation) or self._stopped.is_set()

    # ---- cancellation --------------------------------------------------------------------------------------

    def cancel(self, reason: str, *, prevent_for: float = PREVENT_SECONDS) -> None:
        """End a running checkpoint or upload at its next safe point, and make none for `prevent_for` seconds.

        Returns when nothing runs any more: what was unfinished is deleted, images that were complete stay
        (StandbyCheckpointer.cancelAndPreventCheckpoints).
        """
        phase = self._record.now.phase
        self._prevented_until = self._clock() + prevent_for
        self._cancellation = self._refused_because = reason
        with self._running:
            self._cancellation = ""
        _LOG.info("no checkpoint is running: %s", reason, extra={"phase": phase, "seconds": prevent_for})

    def stop(self) -> None:
        """Let a running checkpoint end at its next safe point, and start no other."""
        self._stopped.set()
        self.cancel("the daemon is stopping")
        self._lake.stop()

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
        if self._stopped.is_set():
            return TriggerResult(TriggerState.UNAVAILABLE, "the daemon is stopping")
        if self.switched_off:
            return TriggerResult(TriggerState.UNAVAILABLE, self.switched_off)
        left = self._prevented_until - self._clock()
        if left > 0:
            return TriggerResult(
                TriggerState.UNAVAILABLE, f"no checkpoint for {left:.0f} s more: {self._refused_because}"
            )
        return None

    @property
    def switched_off(self) -> str:
        """Why there are to be no checkpoints at all, "" where there are."""
        off = self._config.role is Role.STANDBY and not self._config.standby_checkpoints
        return _SWITCHED_OFF if off else ""

    def _attempt(self, *, force: bool, join: bool) -> TriggerResult:
        waited = not self._running.acquire(blocking=False)
        if waited:
            if not join:
                return TriggerResult(TriggerState.BUSY, "a checkpoint is running")
            self._running.acquire()
        try:
            # Who waited gets the checkpoint it waited for; what else ended meanwhile is no answer to it.
            if waited and self._result is not None and _is_answer(self._result, force=force):
                return self._result
            self._result = self._refusal() or self._guarded(force=force)
            return self._result
        finally:
            self._record.phase("idle")
            self._running.release()

    def _guarded(self, *, force: bool) -> TriggerResult:
        """An attempt whose every fault is an outcome: the daemon lives on, and the next poll tries again."""
        try:
            return self._checkpoint_if_due(force=force)
        except CheckpointCancelledError as error:
            return TriggerResult(TriggerState.UNAVAILABLE, error.message)
        except HdfsError as error:
            if isinstance(error, RoleGaveUpError):
                self._fault = error
                self._gave_up()
            return self._failed(error.message, error.hint, error.exit_code)
        except Exception as error:
            known = explained(error)
            if known is not None:
                return self._failed(known.message, known.hint, known.exit_code)
            _LOG.exception("a fault of the checkpointer itself")
            return self._failed(f"{type(error).__name__}: {error}", "Report this with the daemon's log.", EXIT_FAILURE)

    def _checkpoint_if_due(self, *, force: bool) -> TriggerResult:
        self._role.prepare()
        progress = self._role.progress()
        self._record.looked()
        if force:
            self._look()
        reason = self._reason(progress, force=force)
        if reason is None:
            message = f"no checkpoint is due: {progress.behind} transactions since the image at {progress.image_txid}"
            offers = self._upload(force=force)
            outcome = self._outcome(progress.image_txid, ImageKind.IMAGE, offers) if offers or force else None
            return _answer(TriggerState.SKIPPED, message, {"txid": progress.image_txid}, offers, outcome)
        if force:
            for sentence in self._outlook.forecast(progress.journal_txid):
                _LOG.warning("%s", sentence, extra={"txid": progress.journal_txid, "phase": "upload"})
        triggered, self._renamed_at = self._clock(), None
        period_from = self._period_from
        result = self._role.checkpoint(self)
        self._saved(result, reason, triggered)
        if not result.rollback:
            self._lake.offer(self._role)
        details: dict[str, Any] = {
            "txid": result.txid,
            "reason": reason.value,
            "transactions": result.transactions,
            "healed": [asdict(healed) for healed in result.healed],
        }
        offers = self._upload(force=force)
        kind = ImageKind.ROLLBACK if result.rollback else ImageKind.IMAGE
        outcome = self._outcome(result.txid, kind, offers) if offers or force else None
        if force and outcome is not None and outcome.taking is Taking.TOO_RECENT:
            self._make_next_by(period_from, outcome.again_at)
        return _answer(TriggerState.DONE, f"checkpoint at txid {result.txid}", details, offers, outcome)

    def _outcome(self, txid: int, kind: ImageKind, offers: list[Upload]) -> Outcome:
        found = outcome_of(
            txid, kind, offers, self._role.targets, takes_from=self._outlook.takes_from, now=self._wall()
        )
        self._record.fared(found.taking.value)
        return found

    def _make_next_by(self, period_from: float, again_at: float | None) -> None:
        """A forced checkpoint that came too early does not put off the one that a NameNode takes."""
        now, period = self._clock(), self._config.period
        due_at = period_from + period
        if again_at is not None:
            due_at = now + max(0.0, again_at - self._wall())
        # Not at once and again and again where the NameNode's clock or keys are others.
        if due_at > now:
            self._period_from = min(now, due_at - period)

    def _reason(self, progress: Progress, *, force: bool) -> TriggerReason | None:
        reason = decide(
            now=self._clock(),
            last_checkpoint=self._period_from,
            transactions=progress.behind,
            config=self._config,
            forced=force,
            urgent=bool(progress.urgent),
        )
        if reason is TriggerReason.URGENT:
            _LOG.info("checkpoint at once: %s", progress.urgent, extra=_of_progress(progress, reason))
        elif reason is not None and progress.behind:
            _LOG.info(
                "checkpoint by %s: %d transactions behind",
                reason.value,
                progress.behind,
                extra=_of_progress(progress, reason),
            )
        elif reason is TriggerReason.PERIOD:
            # Nothing was written in a whole period; the next one counts from here.
            self._period_from = self._clock()
        return reason if progress.behind or progress.urgent else None

    def _upload(self, *, force: bool) -> list[Upload]:
        """Offer the image; returns what became of each offer."""
        self._record.phase("upload")
        made = []
        for upload in self._role.upload(self.cancelled, force=force):
            made.append(upload)
            self._record.offered(upload)
            self._outlook.heard(upload)
            fields = _of_upload(upload)
            if upload.error:
                _LOG.error("upload to %s failed: %s", upload.address, upload.error, extra=fields)
            elif upload.refusal:
                _LOG.warning("upload to %s: %s: %s", upload.address, upload.result, upload.refusal, extra=fields)
            else:
                _LOG.info("upload to %s: %s in %.2f s", upload.address, upload.result, upload.seconds, extra=fields)
        return made

    # ---- memory --------------------------------------------------------------------------------------------

    def _saved(self, result: MergeResult, reason: TriggerReason, triggered: float) -> None:
        self._period_from = self._saved_at = self._clock()
        latency = (self._saved_at if self._renamed_at is None else self._renamed_at) - triggered
        self._record.saved(result, reason.value, latency)
        for healed in result.healed:
            _LOG.error(
                "fsimage_%019d: healed: %s", result.txid, healed, extra={"txid": result.txid, "code": healed.code}
            )
        timings = result.timings
        _LOG.info(
            "checkpoint at txid %d: %d transactions, %d inodes, load %.2f s, replay %.2f s, save %.2f s; "
            "%.2f s from its trigger to the image under its name",
            result.txid,
            result.transactions,
            result.inodes,
            timings.load,
            timings.replay,
            timings.save,
            latency,
            extra={
                "txid": result.txid,
                "phase": "save",
                "reason": reason.value,
                "transactions": result.transactions,
                "inodes": result.inodes,
                "seconds": round(timings.load + timings.replay + timings.save, 3),
                "latency": round(latency, 3),
                "bytes": result.saved.size,
                "rollback": result.rollback,
            },
        )

    def _failed(self, message: str, hint: str, exit_code: int) -> TriggerResult:
        _LOG.error("checkpoint failed: %s", message, extra={"phase": self._record.now.phase, "exitCode": exit_code})
        self._record.failed(message)
        return TriggerResult(TriggerState.FAILED, message, {"hint": hint, "exitCode": exit_code})

    def job_failed(self, name: str, fault: Exception) -> None:
        """Note what ended a run of one of the role's jobs; the next run tries again."""
        known = explained(fault)
        if known is None:
            _LOG.error("a fault of the checkpointer itself", exc_info=fault)
        message = f"{type(fault).__name__}: {fault}" if known is None else known.message
        _LOG.error("the job %s failed: %s", name, message)
        self._record.job_failed(message)

    # ---- views ---------------------------------------------------------------------------------------------

    def state(self) -> NodeState:
        """The daemon as it is now."""
        left = self._prevented_until - self._clock()
        return daemon_state(
            self._role,
            self._record.now,
            self._lake,
            self._outlook,
            enabled=not self.switched_off,
            cancelled=Cancelled(reason=self._refused_because, seconds_left=round(left, 3)) if left > 0 else None,
            seconds_since_checkpoint=round(self._clock() - self._saved_at, 3),
        )

    def status(self) -> dict[str, Any]:
        """`state` as GET /status has it."""
        values: dict[str, Any] = as_json(self.state())
        return values

    def live(self) -> Health:
        """Whether the daemon works at all: until it is asked to stop."""
        stopping = self._stopped.is_set()
        return Health(not stopping, "stopping" if stopping else "running")

    def ready(self) -> Health:
        """Not ready while storage or journal cannot be read, while the role raises an alarm, or several periods
        brought no checkpoint but work.
        """
        if self.switched_off:
            return Health(True, self.switched_off)
        try:
            behind = self._role.progress().behind
        except (HdfsError, OSError) as error:
            return Health(False, told(error))
        if alarms := self._role.alarms():
            return Health(False, "; ".join(alarms))
        age = self._clock() - self._period_from
        late = behind > 0 and age > _MISSED_PERIODS * self._config.period
        return Health(not late, f"{behind} transactions behind, last checkpoint {age:.0f} s ago")


def _is_answer(result: TriggerResult, *, force: bool) -> bool:
    """Whether what somebody else asked for is what is asked for now: a forced image is offered to everyone."""
    return result.state is TriggerState.DONE and (not force or result.details.get("outcome") == Taking.TAKEN.value)


def _answer(
    state: TriggerState, message: str, details: dict[str, Any], offers: list[Upload], outcome: Outcome | None
) -> TriggerResult:
    """What is told to who asked: `uploads`, `uploadErrors` and `refusals` by address, and `Outcome.details`."""
    told = {
        **details,
        "uploads": {each.address: each.result for each in offers},
        "uploadErrors": {each.address: each.error for each in offers if each.error},
        "refusals": {each.address: each.refusal for each in offers if each.refusal},
    }
    if outcome is None:
        return TriggerResult(state, message, told)
    if outcome.exit_code:
        message = f"{message}, but no NameNode took the image: {outcome.problem}"
    return TriggerResult(state, message, told | outcome.details())


def _of_progress(progress: Progress, reason: TriggerReason) -> dict[str, Any]:
    """What a line on a checkpoint that begins tells a collector of logs."""
    return {"txid": progress.journal_txid, "reason": reason.value, "transactions": progress.behind}


def _of_upload(upload: Upload) -> dict[str, Any]:
    """The same of an upload."""
    return {
        "txid": upload.txid,
        "phase": "upload",
        "target": upload.address,
        "kind": upload.kind.value,
        "result": upload.result,
        "seconds": round(upload.seconds, 3),
        "bytes": upload.size,
    }
