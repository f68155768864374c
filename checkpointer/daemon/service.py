"""The checkpoint service of a daemon's role: triggers, cancellation, and views of its status.

The `_running` lock serialises checkpoints and uploads. A poll that finds it held returns BUSY and tries again at the
next poll. A request waits for the running attempt and returns its result. `CheckpointAttempts` makes the attempts,
`CheckpointSchedule` determines their times, and `Cancellation` stops them.

`cancel` records a reason, waits until the running attempt has stopped, and blocks new checkpoints for a while. When
`cancel` returns, no checkpoint is running. An attempt stops only at safe points, where unfinished files can be deleted.
`stop` cancels permanently.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from checkpointer.daemon.alarm_marks import AlarmAcknowledgements, AlarmSilences
from checkpointer.daemon.archive_process import ArchiveProcess
from checkpointer.daemon.attempts import CheckpointAttempts, OperationFaults, describe_fault
from checkpointer.daemon.cancellation import Cancellation
from checkpointer.daemon.checkpoint_alarms import CheckpointStatus, late_hint, lateness
from checkpointer.daemon.checkpoint_schedule import CheckpointSchedule
from checkpointer.daemon.daily_report import DailyReporter
from checkpointer.daemon.history import DaemonHistory
from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.record import RecordStore
from checkpointer.daemon.shadow import ShadowComparer
from checkpointer.daemon.status import daemon_state
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.daemon.upload_outcome import Acceptance
from checkpointer.errors import ProgressPendingError, RoleGaveUpError
from checkpointer.leadership.leadership import Leadership
from checkpointer.roles.role import CheckpointRole, Job, SavesAside
from engine.errors import CheckpointCancelledError
from engine.observer import CancellableObserver
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.moment_age import MomentAge
from hadoop_common.quantities import duration
from hadoop_common.recurring_fault import Alarm
from node_state.report_folder import KeptReport
from node_state.state import ALLOW_AGAIN_HINT, NodeState, as_json
from servlets.status import ProbeResult, TriggerResult, TriggerState
from site_config.checkpoint_config import CheckpointConfig
from site_config.keys import HA_STANDBY_CHECKPOINTS

_LOG = logging.getLogger(__name__)
# StandbyCheckpointer.PREVENT_AFTER_CANCEL_MS
PREVENT_SECONDS = 120.0
CONFIGURATION_HINT = (
    "Correct the configuration, then reload it (`checkpointer config` lists all faults); a restart would fail."
)
_UNREADABLE_HINT = (
    "The daemon keeps running and retries. Repair the cause of the error; the `namenode`, `storage` and "
    "`journalnodes` checks examine the NameNode, the directories and the edits."
)


class CheckpointService:
    """Triggers, cancellation, and status views for one role. Any thread may call any method.

    Args:
        role: makes and uploads images.
        config: periods and thresholds.
        clock: monotonic seconds.
        gave_up: called when the role has stopped permanently; `fault` is the reason.
        archive: process that fills the archive while the role runs; the service stops it.
        lake: appends each new image to a lake; the service stops it.
        reports: makes the daily reports; the service stops it.
        forecast: forecasts the times at which NameNodes accept images.
        leadership: decides whether this daemon makes the checkpoints of its cluster.
        wall: seconds since the epoch.
        notices: returns alarms of this daemon's servers.

    Attributes:
        silences, acknowledgements: silences and acknowledgements of alarms, which survive restarts.
        history: checkpoints, uploads, failures and events, which survive restarts.
        configuration_fault: reason why the configuration on disk does not apply, "" if it applies.
    """

    def __init__(
        self,
        role: CheckpointRole,
        config: CheckpointConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        gave_up: Callable[[], None] = lambda: None,
        archive: ArchiveProcess | None = None,
        lake: LakeAppender | None = None,
        reports: DailyReporter | None = None,
        forecast: UploadForecast | None = None,
        leadership: Leadership | None = None,
        wall: Callable[[], float] = time.time,
        notices: Callable[[], Sequence[Alarm]] = tuple,
    ) -> None:
        self._role = role
        self._config = config
        self._leadership = leadership or Leadership.alone()
        self._archive = archive or ArchiveProcess(config, clock=clock, wall=wall)
        self._lake = lake or LakeAppender(config)
        self._reports = reports or DailyReporter(config, wall=wall, clock=clock)
        self._forecast = forecast or UploadForecast(config, clock=clock, wall=wall)
        self.wall = wall
        self._clock = clock
        self._started_at = clock()
        self._checkpoint_age = MomentAge(clock, wall)
        self.history = DaemonHistory(role, self._forecast, wall)
        self.silences = AlarmSilences(role.image_folders, wall)
        self.acknowledgements = AlarmAcknowledgements(role.image_folders, wall, clock)
        self._record = RecordStore(wall, self.history.note)
        self._schedule = CheckpointSchedule(config, clock, wall)
        self._cancellation = Cancellation(clock)
        self._faults = OperationFaults(clock)
        self._attempts = CheckpointAttempts(
            role,
            schedule=self._schedule,
            cancellation=self._cancellation,
            leadership=self._leadership,
            forecast=self._forecast,
            archive=self._archive,
            lake=self._lake,
            reports=self._reports,
            record=self._record,
            faults=self._faults,
            gave_up=gave_up,
            clock=clock,
            wall=wall,
        )
        self._shadow = None
        if config.shadow:
            self._shadow = ShadowComparer(
                role,
                config,
                self._forecast,
                self.history,
                stopped=lambda: self._cancellation.stopped,
                wall=wall,
                clock=clock,
            )
        self._running = threading.Lock()
        self._result: TriggerResult | None = None
        self.configuration_fault = ""
        self._server_notices = notices

    @property
    def fault(self) -> RoleGaveUpError | None:
        """Reason why the role stopped permanently; None while it works."""
        return self._attempts.gave_up_error

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new periods and thresholds from the next poll on."""
        self._config = self._schedule.config = self._forecast.config = config
        self._archive.reconfigure(config)
        self._lake.reconfigure(config)
        self._reports.reconfigure(config)

    # ---- cancellation --------------------------------------------------------------------------------------

    def cancel(self, reason: str, *, prevent_for: float = PREVENT_SECONDS) -> None:
        """Stop a running checkpoint or upload at its next safe point, and block new checkpoints for `prevent_for`
        seconds.

        When this method returns, no checkpoint or upload is running. Complete images remain, and unfinished files do
        not (StandbyCheckpointer.cancelAndPreventCheckpoints).
        """
        phase = self._record.now.phase
        self._cancellation.begin(reason, prevent_for)
        self._schedule.drop_forced()
        with self._running:
            self._cancellation.complete(phase, prevent_for)

    def stop(self) -> None:
        """Stop a running checkpoint at its next safe point, and prevent further checkpoints."""
        self._cancellation.stop()
        self.cancel("the daemon is stopping")
        self._archive.stop()
        self._lake.stop()
        self._reports.stop()

    # ---- triggers ------------------------------------------------------------------------------------------

    def poll(self) -> TriggerResult:
        """Make a checkpoint if one is due, then repeat pending uploads; the scheduler calls this."""
        self._attempts.passed_over = False
        return self._attempt(force=False, join=False)

    def request(self, *, force: bool, wait: bool) -> TriggerResult:
        """Answer an operator's HTTP request (`CheckpointTrigger`); if a checkpoint is running, wait for its result and
        use it.

        With `force`, a single new transaction is sufficient for a checkpoint. The service then offers the image to all
        NameNodes that lack it, regardless of their last responses.
        """
        refusal = self._refusal()
        if refusal is not None or wait:
            return refusal or self._attempt(force=force, join=True)
        arguments = {"force": force, "join": True}
        threading.Thread(target=self._attempt, kwargs=arguments, name="checkpoint", daemon=True).start()
        return TriggerResult(TriggerState.STARTED, "a checkpoint was started")

    def save_aside(self) -> TriggerResult:
        """Save the namespace in memory where this node neither uses nor offers it (`SavesAside`).

        Raises:
            HdfsError: no image could be made.
        """
        if not isinstance(self._role, SavesAside):
            hint = "`checkpointer merge` makes an image from them."
            return _refused("the images and edits of this daemon are in its directories, not only in memory", hint)
        try:
            paths = self._role.save_aside(CancellableObserver(lambda: self._cancellation.stopped))
        except CheckpointCancelledError as error:
            return TriggerResult(TriggerState.UNAVAILABLE, error.message)
        message = f"the namespace in memory is saved in {', '.join(map(str, paths))}"
        _LOG.warning("%s; it was not compared with a NameNode, and is not offered", message)
        return TriggerResult(TriggerState.DONE, message, {"paths": [str(path) for path in paths]})

    def jobs(self) -> list[Job]:
        """Return the jobs that run in addition to polls.

        The jobs query the NameNodes' newest images, feed the archive, list reports, end the acknowledgements of ended
        alarms, and compare images in shadow mode.
        """
        seconds = self._config.poll_interval
        jobs = [
            Job("upload-forecast", seconds, self._update_forecast),
            Job("archive", seconds, self._feed_archive),
            Job("reports", seconds, self._renew_reports),
            Job("acknowledgements", seconds, self._end_acknowledgements),
        ]
        if self._shadow is not None:
            jobs.append(Job("shadow", seconds, self._shadow.run))
        return jobs

    def _update_forecast(self) -> bool:
        self._attempts.update_forecast()
        return False

    def _feed_archive(self) -> bool:
        self._archive.feed(self._role)
        return False

    def _renew_reports(self) -> bool:
        self._reports.renew(self._role)
        return False

    def _end_acknowledgements(self) -> bool:
        if self.acknowledgements.current():
            self.acknowledgements.observe(self.state().alarm_kinds)
        return False

    def job_failed(self, name: str, fault: Exception) -> None:
        """Record the fault of a job; the job will run again."""
        known, bug = describe_fault(fault)
        self._faults.job(name).occurred(f"the job {name} failed: {known.message}", hint=known.hint, bug=bug)
        self._record.job_failed(known.message)

    def job_done(self, name: str) -> None:
        if self._faults.job(name).ended():
            self._record.resolved()

    @property
    def switched_off(self) -> str:
        return self._config.switched_off

    def due_in(self) -> float | None:
        """Return the seconds until a leader's period ends, or 0 if a due checkpoint has not been attempted.

        None means that the next poll is soon enough.
        """
        if not self._leadership.leads:
            return None
        left = self._schedule.period_left
        return left if left > 0 else 0.0 if self._attempts.passed_over else None

    def _refusal(self) -> TriggerResult | None:
        if self._cancellation.stopped:
            return _refused("the daemon is stopping", "Start the daemon again, then repeat the request.")
        if self.switched_off:
            return _refused(self.switched_off, f"Set {HA_STANDBY_CHECKPOINTS.name} to true and reload the daemon.")
        if (found := self._cancellation.state) is not None:
            return _refused(
                f"no checkpoint may begin for {duration(found.seconds_left)}: {found.reason}", ALLOW_AGAIN_HINT
            )
        return None

    def _attempt(self, *, force: bool, join: bool) -> TriggerResult:
        waited = not self._running.acquire(blocking=False)
        if waited:
            if not join:
                return TriggerResult(TriggerState.BUSY, "a checkpoint is running")
            self._running.acquire()
        try:
            # A caller that waited for an attempt uses the result if it also answers this request. Otherwise, the caller
            # makes a new attempt.
            if waited and self._result is not None and _is_answer(self._result, force=force):
                return self._result
            self._result = self._refusal() or self._attempts.run(force=force)
            if self._result.state is TriggerState.DONE:
                self._observe()
            self._note_lateness()
            self.history.observe()
            return self._result
        finally:
            self._record.phase("idle")
            self._running.release()

    def _note_lateness(self) -> None:
        status = self._checkpoint_status(None)
        if late := lateness(status):
            self._faults.lateness.occurred(late, hint=late_hint(status))
        elif status.is_in_time:
            self._faults.lateness.ended()
        else:
            self._faults.lateness.forget()

    # ---- views ---------------------------------------------------------------------------------------------

    def state(self) -> NodeState:
        status = self._checkpoint_status(self._observe())
        archive, lake = self._archive, self._lake
        marks = self.silences.current(), self.acknowledgements.current()
        shadow = None if self._shadow is None else self._shadow.state()
        return replace(
            daemon_state(self._role, self._record.now, archive, lake, self._forecast, status, *marks, shadow),
            report=self._reports.state(self._role),
        )

    def status(self) -> dict[str, Any]:
        """Return `state` in the form of GET /status."""
        values: dict[str, Any] = as_json(self.state())
        return values

    def reports(self) -> list[KeptReport]:
        """Return the complete daily reports, newest first."""
        return self._reports.reports()

    def live(self) -> ProbeResult:
        """Return whether the daemon is alive: true until a shutdown is requested."""
        stopping = self._cancellation.stopped
        return ProbeResult(not stopping, "stopping" if stopping else "running")

    def ready(self) -> ProbeResult:
        """Return whether the daemon is ready, which means that no problem requires an operator's attention.

        The daemon is not ready while the storage or the journal cannot be read, the role raises an alarm, or attempts
        fail repeatedly. It is also not ready after several periods with new transactions but no checkpoint.
        """
        state = self.state()
        return ProbeResult(state.ready, state.message)

    def _observe(self) -> Alarm | None:
        """Read the role's progress; return an alarm if it cannot be read.

        Return None if the progress is known or pending. If an attempt failed before it queried the NameNode, the alarm
        contains the attempt's error.
        """
        try:
            self._attempts.observe()
        except ProgressPendingError:
            last = self._result
            if last is None or last.state is not TriggerState.FAILED:
                return None
            return Alarm(last.message, last.details["hint"] or _UNREADABLE_HINT, "unreadable")
        except (HdfsError, OSError) as error:
            hint = describe_fault(error)[0].hint or _UNREADABLE_HINT
            return Alarm(error_text(error), hint, "unreadable")
        return None

    def _notices(self) -> list[Alarm]:
        fault = self.configuration_fault
        differences = [] if self._shadow is None else self._shadow.alarms()
        configuration = [Alarm(fault, CONFIGURATION_HINT, "configuration")] if fault else []
        return [*configuration, *self._reports.alarms(), *differences, *self._server_notices()]

    def _checkpoint_status(self, fault: Alarm | None) -> CheckpointStatus:
        progress, retry = self._attempts.progress, self._schedule.retry_wait
        theirs, ours = self._forecast.last_image_at(), None if progress is None else progress.image_at
        checkpoint_at = ours if theirs is None else theirs
        # A failed checkpoint is more important than a failed offer.
        failing = self._faults.checkpoint if self._faults.checkpoint.count else self._faults.offer
        return CheckpointStatus(
            period=self._config.period,
            uptime=self._clock() - self._started_at,
            progress=progress,
            fault=fault,
            checkpoint_at=checkpoint_at,
            age=None if checkpoint_at is None else self._checkpoint_age.of(checkpoint_at),
            switched_off=self.switched_off,
            cancelled=self._cancellation.state,
            failures=failing.count,
            failing_for=failing.seconds,
            failure=failing.alarm,
            retry_at=round(self.wall() + retry, 3) if retry > 0 else None,
            notices=self._notices(),
            leader=self._leadership.state(),
            reported_standby=self._attempts.reported_standby,
            inactive=self._forecast.inactive(),
        )


def _refused(message: str, hint: str) -> TriggerResult:
    return TriggerResult(TriggerState.UNAVAILABLE, message, {"hint": hint})


def _is_answer(result: TriggerResult, *, force: bool) -> bool:
    """Return whether another caller's result also answers this request; a forced request requires an accepted image."""
    if result.state is not TriggerState.DONE:
        return False
    return not force or result.details.get("outcome") == Acceptance.ACCEPTED.value
