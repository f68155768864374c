"""Decides when a checkpoint is made, and makes one at a time; every fault of it is an outcome.

One lock, `_running`, is held by the thread that makes a checkpoint or uploads, so there are never two. Who finds it
taken is BUSY (a poll, whose next one comes anyway) or waits and gets that result (a request). An attempt ends as DONE,
SKIPPED, FAILED or UNAVAILABLE; no fault leaves it in another way, and only a role that gives up ends the daemon.

A fault belongs to the operation that failed: the NameNode does not answer, storage or journal cannot be read, the image
of another daemon cannot be fetched, a checkpoint fails, or its image cannot be offered. The log has a line when a fault
begins, when it changes, and when that same operation has succeeded again. The first two are not failures of a
checkpoint while none is due. After a failure polls retry after growing waits until a checkpoint is made, whoever asked
for it first; a forced attempt does not wait.

A cancellation is a reason that is set, a lock that is waited for, and a time until which none begins: when `cancel`
returns nothing runs. It is asked at safe points alone, where what is unfinished can be deleted. `stop` is the same
for good. The period counts from the newest image on disk, whoever wrote it and however often this process was started;
where there is none one is due at once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.record import RecordStore
from checkpointer.daemon.status import LATE_HINT, UPLOAD_HINT, CheckpointStatus, daemon_state, lateness
from checkpointer.daemon.triggers import TriggerReason, decide
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.daemon.upload_outcome import Acceptance, UploadOutcome, outcome_of
from checkpointer.errors import RoleGaveUpError
from checkpointer.leadership.leadership import Leadership
from checkpointer.leadership.leadership_state import LeaseBasis
from checkpointer.roles.role import CheckpointRole, Job, Progress, Upload
from checkpointer.storage.room import ROOM_HINT
from engine.errors import CheckpointCancelledError
from engine.merge import MergeResult
from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import explained, told
from hadoop_common.quantities import duration
from hadoop_common.recurring_fault import Alarm, RecurringFault
from hadoop_rpc.errors import RpcError
from servlets.node_state import Cancelled, NodeState, as_json
from servlets.parameters import ImageKind
from servlets.status import Health, TriggerResult, TriggerState
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.keys import HA_STANDBY_CHECKPOINTS

_LOG = logging.getLogger(__name__)
# a failing daemon tries at least so often in a period
_TRIES_PER_PERIOD = 4
# StandbyCheckpointer.PREVENT_AFTER_CANCEL_MS
PREVENT_SECONDS = 120.0
_REPORT = "Report this with the daemon's log."
_HEALED = "Make sure that the NameNode has this image before it is restarted."
CONFIGURATION_HINT = "Correct it and reload again (`checkpointer config` lists all faults); a restart would fail."
_ALLOW_AGAIN = "`checkpointer checkpoint --cancel --minutes 0` allows checkpoints again at once."
_SWITCHED_OFF = "dfs.ha.standby.checkpoints is false, so this standby makes no checkpoints"


class CheckpointService:
    """One role, its triggers and its memory; every method may be called from any thread.

    Args:
        role: what makes and uploads images.
        config: periods and thresholds.
        clock: monotonic seconds.
        gave_up: called when the role gave up for good; `fault` says why.
        lake: told of each new image; it is stopped with the service.
        forecast: when NameNodes take images.
        leadership: whether this daemon, of several for its cluster, makes the checkpoints.
        wall: seconds since the epoch.

    Attributes:
        configuration_fault: why the configuration on disk could not be taken over, "" where it could.
    """

    def __init__(
        self,
        role: CheckpointRole,
        config: CheckpointConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        gave_up: Callable[[], None] = lambda: None,
        lake: LakeAppender | None = None,
        forecast: UploadForecast | None = None,
        leadership: Leadership | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._role = role
        self._leadership = leadership or Leadership.alone()
        # by what right the attempt that runs began, and whether the last one was left to another daemon
        self._basis: LeaseBasis | None = None
        self._passed_over = False
        self._config = config
        self._clock = clock
        self._gave_up = gave_up
        self._lake = lake or LakeAppender(config)
        self._forecast = forecast or UploadForecast(config, wall=wall)
        self.wall = wall
        self._started_at = wall()
        self._fault: RoleGaveUpError | None = None
        self._running = threading.Lock()
        self._result: TriggerResult | None = None
        self._record = RecordStore(wall)
        # where the role stood when that could be told last
        self._known: Progress | None = None
        # what the period counts from, by `clock`, and the image that this is the time of
        self._period_from = -math.inf
        self._counted: int | None = None
        self._stopped = threading.Event()
        self._cancellation = self._refused_because = ""
        self._prevented_until = clock()
        # whether a cancellation is in force whose end was not told yet
        self._held = False
        self._retry_at = clock()

        # whether a forced attempt failed, which polls retry
        self._owes_forced = False
        self._silence = self._fault_of("the NameNode answers again", "polls")
        self._blindness = self._fault_of("storage and journal can be read again", "polls")
        self._fetching = self._fault_of("the image of another daemon was fetched again", "polls")
        self._crampedness = self._fault_of("there is room for a checkpoint again", "polls")
        self._failing = self._fault_of("a checkpoint was made again", "attempts")
        self._offering = self._fault_of("an image was offered again", "attempts")
        self._lateness = self._fault_of("checkpoints are in time again", "polls")
        self._transfers: dict[str, RecurringFault] = {}
        self._jobs: dict[str, RecurringFault] = {}
        # why the configuration on disk is not the one in force, "" where it is
        self.configuration_fault = ""
        # when the image that is being made got its name
        self._renamed_at: float | None = None

    def _fault_of(self, success: str, unit: str) -> RecurringFault:
        return RecurringFault(_LOG, success, unit=unit, clock=self._clock)

    @property
    def fault(self) -> RoleGaveUpError | None:
        """Why the role gave up, None as long as it works."""
        return self._fault

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new periods and thresholds from the next poll on."""
        self._config = self._forecast.config = config
        self._lake.reconfigure(config)

    def jobs(self) -> list[Job]:
        """What is to be run now and then beside polls: NameNodes are asked when they take an image again."""
        return [Job("upload-forecast", self._config.poll_interval, self._look)]

    def _look(self) -> bool:
        self._forecast.look([target.address for target in self._role.targets], self._stopped.is_set)
        return False

    # ---- Observer ------------------------------------------------------------------------------------------

    def phase(self, name: str, total: int | None) -> None:
        self._record.phase(name)

    def advance(self, done: int) -> None:
        """Progress within a phase is not kept."""

    def saved(self) -> None:
        self._renamed_at = self._clock()

    def cancelled(self) -> bool:
        return self._called_off() or self._leadership.must_abort(self._basis)

    def _called_off(self) -> bool:
        return bool(self._cancellation) or self._stopped.is_set()

    def _not_to_be_sent(self) -> bool:
        return self._called_off() or self._leadership.must_abort(self._basis, sending=True)

    # ---- cancellation --------------------------------------------------------------------------------------

    def cancel(self, reason: str, *, prevent_for: float = PREVENT_SECONDS) -> None:
        """End a running checkpoint or upload at its next safe point, and make none for `prevent_for` seconds.

        Returns when nothing runs any more: what was unfinished is deleted, images that were complete stay
        (StandbyCheckpointer.cancelAndPreventCheckpoints).
        """
        phase = self._record.now.phase
        self._prevented_until, self._held = self._clock() + prevent_for, prevent_for > 0
        self._cancellation = self._refused_because = reason
        self._owes_forced = False
        with self._running:
            self._cancellation = ""
        until = f"none begins for {duration(prevent_for)}" if prevent_for else "one may begin again"
        if not self._stopped.is_set():
            _LOG.info("no checkpoint is running, %s: %s", until, reason, extra={"phase": phase, "seconds": prevent_for})

    def stop(self) -> None:
        """Let a running checkpoint end at its next safe point, and start no other."""
        self._stopped.set()
        self.cancel("the daemon is stopping")
        self._lake.stop()

    # ---- triggers ------------------------------------------------------------------------------------------

    def poll(self) -> TriggerResult:
        """What the scheduler calls: checkpoint if one is due, then repeat uploads that are owed."""
        self._passed_over = False
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
            return _refused("the daemon is stopping", "Start it again, then ask again.")
        if self.switched_off:
            return _refused(self.switched_off, f"Set {HA_STANDBY_CHECKPOINTS.name} to true and reload the daemon.")
        left = self._prevented_until - self._clock()
        if left > 0:
            return _refused(f"no checkpoint may begin for {duration(left)}: {self._refused_because}", _ALLOW_AGAIN)
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
            if self._result.state is TriggerState.DONE:
                self._observe()
            self._note_lateness()
            return self._result
        finally:
            self._record.phase("idle")
            self._running.release()

    def _guarded(self, *, force: bool) -> TriggerResult:
        """An attempt whose every fault is an outcome: the daemon lives on, and a later poll tries again."""
        if self._held:
            _LOG.info("checkpoints may begin again, which were held back: %s", self._refused_because)
        self._held = False
        # the operation that runs, None while the role finds out where it stands
        operation: RecurringFault | None = None
        before, self._basis = self._basis, None
        try:
            self._role.prepare()
            progress = self._known = self._role.progress()
            self._seen(progress)
            held_back = self._held_back(progress)
            self._passed_over = bool(held_back)
            if held_back:
                self._failing.forget()
                self._owes_forced = False
                operation = self._fetching
                self._keep_up()
                return TriggerResult(TriggerState.UNAVAILABLE if force else TriggerState.SKIPPED, held_back)
            self._basis = self._leadership.lease_basis()
            if self._basis != before:
                # Another one may have made images since: what is here must not be compared with a past long purged.
                operation = self._fetching
                self._keep_up()
                operation = None
                progress = self._known = self._role.progress()
                self._seen(progress)
            reason = self._reason(progress, force=force)
            # The period may end before this attempt does.
            self._passed_over = reason is None and progress.behind > 0
            wait = self._retry_at - self._clock()
            if reason is not None and (force or wait <= 0):
                operation = self._failing
                made = self._checkpoint(progress, reason, force=force)
                operation = self._offering
                return self._after(made, force=force)
            operation = self._offering
            if reason is None:
                self._failing.forget()
                self._owes_forced = False
                self._retry_at = self._clock()
                since = f"{progress.behind} transactions since the image at {progress.image_txid}"
                return self._without(progress, f"no checkpoint is due: {since}", force=force)
            message = f"a checkpoint is due, but {self._failing.count} failed: tried again in {duration(wait)}"
            return self._without(progress, message, force=force)
        except CheckpointCancelledError as error:
            return TriggerResult(TriggerState.UNAVAILABLE, error.message)
        except Exception as error:
            if isinstance(error, RoleGaveUpError):
                self._fault = error
                self._gave_up()
            known, bug = _of_fault(error)
            if operation is None:
                operation = self._silence if isinstance(known, RpcError) else self._blindness
            return self._failed(known, operation, force=force, bug=bug)

    def _keep_up(self) -> None:
        self._role.keep_up(self.cancelled)
        self._fetching.ended()

    def _held_back(self, progress: Progress) -> str:
        """Why another daemon makes the next checkpoint, "" where this one does."""
        if self._leadership.leads:
            self._forecast.remember()
        age, config = self._image_age(progress), self._config
        return self._leadership.held_back(age, config.period, config.poll_interval, self._others_at_work)

    def _others_at_work(self) -> bool:
        self._look()
        return self._forecast.others_image()

    @property
    def shares(self) -> bool:
        """Whether several daemons agree on the one that makes the checkpoints."""
        return self._leadership.shared

    def due_in(self) -> float | None:
        """Seconds until the period of a leader ends, or 0 where a checkpoint has become due that none was tried of.

        None where there is nothing to be made sooner than by the next poll: whoever takes over has little time left.
        """
        if not self._leadership.leads:
            return None
        left = self._period_from + self._config.period - self._clock()
        return left if left > 0 else 0.0 if self._passed_over else None

    def _seen(self, progress: Progress) -> None:
        """NameNode, storage and journal answered."""
        self._record.looked()
        self._silence.ended()
        self._blindness.ended()
        if problem := self._role.lacks_room():
            self._crampedness.occurred(
                f"the next checkpoint will fail: {problem}", hint=ROOM_HINT, level=logging.WARNING
            )
        else:
            self._crampedness.ended()
        if progress.image_txid != self._counted:
            self._counted = progress.image_txid
            age = math.inf if progress.image_at is None else max(0.0, self.wall() - progress.image_at)
            self._period_from = self._clock() - age
        if self._leadership.shared and (age_of_all := self._image_age(progress)) is not None:
            # What another daemon made counts, too.
            self._period_from = max(self._period_from, self._clock() - age_of_all)

    def _without(self, progress: Progress, message: str, *, force: bool) -> TriggerResult:
        """No checkpoint, but uploads that are owed."""
        offers = self._upload(force=force)
        outcome = self._outcome(progress.image_txid, ImageKind.IMAGE, offers) if offers or force else None
        return _answer(TriggerState.SKIPPED, message, {"txid": progress.image_txid}, offers, outcome)

    def _checkpoint(self, progress: Progress, reason: TriggerReason, *, force: bool) -> _Made:
        if force:
            self._look()
            for sentence in self._forecast.expected_refusals(progress.journal_txid):
                _LOG.warning("%s", sentence, extra={"txid": progress.journal_txid, "phase": "upload"})
        if not self._failing.count:
            _LOG.info("%s", _beginning(progress, reason), extra=_of_progress(progress, reason))
        triggered, self._renamed_at = self._clock(), None
        period_from = self._period_from
        result = self._role.checkpoint(self, forced=force)
        self._saved(result, reason, triggered)
        self._failing.ended()
        self._owes_forced = False
        self._retry_at = self._clock()
        return _Made(result, reason, period_from)

    def _after(self, made: _Made, *, force: bool) -> TriggerResult:
        """What follows a checkpoint: lake and uploads."""
        result = made.result
        if not result.rollback:
            self._lake.offer(self._role)
        details: dict[str, Any] = {
            "txid": result.txid,
            "reason": made.reason.value,
            "transactions": result.transactions,
            "ignored": result.ignored,
            "healed": [asdict(healed) for healed in result.healed],
        }
        offers = self._upload(force=force)
        kind = ImageKind.ROLLBACK if result.rollback else ImageKind.IMAGE
        outcome = self._outcome(result.txid, kind, offers) if offers or force else None
        if force and outcome is not None and outcome.acceptance is Acceptance.TOO_RECENT:
            self._make_next_by(made.period_from, outcome.again_at)
        return _answer(TriggerState.DONE, f"checkpoint at txid {result.txid}", details, offers, outcome)

    def _outcome(self, txid: int, kind: ImageKind, offers: list[Upload]) -> UploadOutcome:
        found = outcome_of(
            txid, kind, offers, self._role.targets, takes_from=self._forecast.takes_from, now=self.wall()
        )
        self._record.fared(found.acceptance.value)
        return found

    def _make_next_by(self, period_from: float, again_at: float | None) -> None:
        """A forced checkpoint that came too early does not put off the one that a NameNode takes."""
        now, period = self._clock(), self._config.period
        due_at = period_from + period
        if again_at is not None:
            due_at = now + max(0.0, again_at - self.wall())
        # Not at once and again and again where the NameNode's clock or keys are others.
        if due_at > now:
            self._period_from = min(now, due_at - period)

    def _reason(self, progress: Progress, *, force: bool) -> TriggerReason | None:
        """Why a checkpoint is due, None where none is or there is nothing to save."""
        reason = decide(
            now=self._clock(),
            last_checkpoint=self._period_from,
            transactions=progress.behind,
            config=self._config,
            forced=force or self._owes_forced,
            urgent=bool(progress.urgent),
        )
        return reason if progress.behind or progress.urgent else None

    def _image_age(self, progress: Progress) -> float | None:
        """Of the newest image that is known, whoever made it, in seconds; None where there is none."""
        known = [at for at in (progress.image_at, self._forecast.last_image_at()) if at is not None]
        return max(0.0, self.wall() - max(known)) if known else None

    def _upload(self, *, force: bool) -> list[Upload]:
        """Offer the image; returns what became of each offer."""
        self._record.phase("upload")
        self._leadership.await_certainty(self._basis, self._called_off)
        if self._leadership.must_abort(self._basis):
            raise CheckpointCancelledError("another checkpointer leads now, which makes the next one")
        made = []
        for upload in self._role.upload(self._not_to_be_sent, force=force):
            made.append(upload)
            self._record.offered(upload)
            self._forecast.heard(upload)
            fields = _of_upload(upload)
            fault = self._transfers.setdefault(
                upload.address, self._fault_of(f"{upload.address} accepts images again", "transfers")
            )
            if upload.error:
                fault.occurred(f"upload to {upload.address} failed: {upload.error}", hint=UPLOAD_HINT, **fields)
                continue
            if upload.refusal:
                fault.forget()
                _LOG.warning("upload to %s: %s: %s", upload.address, upload.result, upload.refusal, extra=fields)
            else:
                fault.ended()
                _LOG.info("upload to %s: %s in %.2f s", upload.address, upload.result, upload.seconds, extra=fields)
        if made:
            self._offering.ended()
        else:
            self._offering.forget()
        return made

    # ---- memory --------------------------------------------------------------------------------------------

    def _saved(self, result: MergeResult, reason: TriggerReason, triggered: float) -> None:
        self._period_from = saved_at = self._clock()
        if not result.rollback:
            self._counted = result.txid
        latency = (saved_at if self._renamed_at is None else self._renamed_at) - triggered
        self._record.saved(result, reason.value, latency)
        for healed in result.healed:
            _LOG.error(
                "fsimage_%019d: healed: %s; next: %s",
                result.txid,
                healed,
                _HEALED,
                extra={"txid": result.txid, "code": healed.code},
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
                "ignored": result.ignored,
                "inodes": result.inodes,
                "seconds": round(timings.load + timings.replay + timings.save, 3),
                "latency": round(latency, 3),
                "bytes": result.saved.size,
                "rollback": result.rollback,
            },
        )

    def _failed(
        self, error: HdfsError, operation: RecurringFault, *, force: bool, bug: BaseException | None = None
    ) -> TriggerResult:
        fields = {"phase": self._record.now.phase, "exitCode": error.exit_code}
        unread = operation in (self._silence, self._blindness, self._fetching)
        due = force or not unread or self._clock() - self._period_from >= self._config.period
        what = {True: "a checkpoint is due, but cannot be made", False: "no checkpoint can be made now"}
        begins = what[due] if unread else "checkpoint failed" if operation is self._failing else "offering it failed"
        level = logging.ERROR if due else logging.WARNING
        operation.occurred(f"{begins}: {error.message}", hint=error.hint, level=level, bug=bug, **fields)
        if due:
            self._record.failed(error.message)
        if operation is self._failing:
            self._owes_forced |= force
            # However often it is forced, polls keep to their waits.
            self._retry_at = self._clock() + self._back_off().wait(operation.count)
        return TriggerResult(TriggerState.FAILED, error.message, {"hint": error.hint, "exitCode": error.exit_code})

    def _back_off(self) -> BackOff:
        first = self._config.poll_interval
        return BackOff(first, max(first, self._config.period / _TRIES_PER_PERIOD))

    def _note_lateness(self) -> None:
        standing = self._standing(None)
        if late := lateness(standing):
            self._lateness.occurred(late, hint=LATE_HINT)
        elif standing.is_in_time:
            self._lateness.ended()
        else:
            self._lateness.forget()

    def job_failed(self, name: str, fault: Exception) -> None:
        """Note what ended a run of one of the role's jobs; the next run tries again."""
        known, bug = _of_fault(fault)
        failing = self._jobs.setdefault(name, self._fault_of(f"the job {name} runs again", "runs"))
        failing.occurred(f"the job {name} failed: {known.message}", hint=known.hint, bug=bug)
        self._record.job_failed(known.message)

    def job_done(self, name: str) -> None:
        """Note that a run of one of the role's jobs ended well."""
        if name in self._jobs:
            self._jobs[name].ended()

    # ---- views ---------------------------------------------------------------------------------------------

    def _standing(self, fault: str | None) -> CheckpointStatus:
        now, clock, wall = self._known, self._clock(), self.wall()
        theirs, ours = self._forecast.last_image_at(), None if now is None else now.image_at
        held, retry = self._prevented_until - clock, self._retry_at - clock
        # One that failed counts before one whose image cannot be offered.
        failing = self._failing if self._failing.count else self._offering
        return CheckpointStatus(
            now=wall,
            period=self._config.period,
            started_at=self._started_at,
            progress=now,
            fault=fault,
            checkpoint_at=ours if theirs is None else theirs,
            switched_off=self.switched_off,
            cancelled=Cancelled(reason=self._refused_because, seconds_left=round(held, 3)) if held > 0 else None,
            failures=failing.count,
            failing_for=failing.seconds,
            failure=failing.alarm,
            retry_at=round(wall + retry, 3) if retry > 0 else None,
            notices=[Alarm(self.configuration_fault, CONFIGURATION_HINT)] if self.configuration_fault else [],
            leader=self._leadership.state(),
        )

    def _observe(self) -> str | None:
        """Look where the role stands; why that cannot be told now, None where it can."""
        try:
            self._known = self._role.progress()
        except (HdfsError, OSError) as error:
            return told(error)
        return None

    def state(self) -> NodeState:
        """The daemon as it is now."""
        fault = self._observe()
        return daemon_state(self._role, self._record.now, self._lake, self._forecast, self._standing(fault))

    def status(self) -> dict[str, Any]:
        """`state` as GET /status has it."""
        values: dict[str, Any] = as_json(self.state())
        return values

    def live(self) -> Health:
        """Whether the daemon works at all: until it is asked to stop."""
        stopping = self._stopped.is_set()
        return Health(not stopping, "stopping" if stopping else "running")

    def ready(self) -> Health:
        """Not ready while storage or journal cannot be read, while the role raises an alarm, while attempts fail again
        and again, or when several periods brought no checkpoint but work.
        """
        state = self.state()
        return Health(state.ready, state.message)


def _of_fault(fault: Exception) -> tuple[HdfsError, Exception | None]:
    """What to say of a fault, and the fault itself where it is one of this program."""
    known = explained(fault)
    if known is not None:
        return known, None
    return HdfsError(f"{type(fault).__name__}: {fault}", hint=_REPORT), fault


@dataclass(frozen=True, slots=True)
class _Made:
    """A checkpoint that was made, why, and what the period counted from before."""

    result: MergeResult
    reason: TriggerReason
    period_from: float


def _beginning(progress: Progress, reason: TriggerReason) -> str:
    begins = {
        TriggerReason.URGENT: f"checkpoint at once: {progress.urgent}",
        TriggerReason.FORCED: "forced checkpoint",
    }.get(reason, f"checkpoint by {reason.value}")
    return f"{begins}: {progress.behind} transactions behind"


def _refused(message: str, hint: str) -> TriggerResult:
    return TriggerResult(TriggerState.UNAVAILABLE, message, {"hint": hint})


def _is_answer(result: TriggerResult, *, force: bool) -> bool:
    """Whether what somebody else asked for is what is asked for now: a forced image is offered to everyone."""
    return result.state is TriggerState.DONE and (
        not force or result.details.get("outcome") == Acceptance.ACCEPTED.value
    )


def _answer(
    state: TriggerState, message: str, details: dict[str, Any], offers: list[Upload], outcome: UploadOutcome | None
) -> TriggerResult:
    """What is told to who asked: `uploads`, `uploadErrors` and `refusals` by address, and `UploadOutcome.details`."""
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
