"""Attempts at a checkpoint and at the subsequent uploads; an attempt converts each fault to an outcome.

An attempt prepares the role, reads its progress, and checks leadership and schedule. Then it makes a checkpoint, or
only offers the newest image. Its result is always DONE, SKIPPED, FAILED or UNAVAILABLE, even after a fault. Only a role
that fails too often stops the daemon.

`OperationFaults` records each fault for the operation that failed. The daemon logs one line when a fault begins, when
it changes, and when the operation succeeds again. After a failure, polls retry with increasing delays until a
checkpoint succeeds; a forced attempt does not wait. Read faults count as checkpoint failures only while a checkpoint is
due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from checkpointer.daemon.archive_process import ArchiveProcess
from checkpointer.daemon.cancellation import Cancellation
from checkpointer.daemon.checkpoint_log import begin_message, log_checkpoint
from checkpointer.daemon.checkpoint_schedule import CheckpointSchedule, TriggerReason
from checkpointer.daemon.daily_report import DailyReporter
from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.record import RecordStore
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.daemon.upload_outcome import Acceptance, UploadOutcome, outcome_of
from checkpointer.errors import RoleGaveUpError
from checkpointer.leadership.leadership import Leadership
from checkpointer.leadership.leadership_state import LeaseBasis
from checkpointer.roles.role import CheckpointRole, Progress
from checkpointer.storage.disk_space import SPACE_HINT
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.image_acceptance import upload_hint
from checkpointer.transfer.namenode_settings import SETTINGS_HINT
from checkpointer.transfer.upload_target import Upload
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.merge import MergeResult
from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.moment_age import MomentAge
from hadoop_common.names import ImageKind
from hadoop_common.quantities import counted, duration
from hadoop_common.recurring_fault import RecurringFault, without_numbers
from hadoop_rpc.errors import RpcError
from servlets.status import TriggerResult, TriggerState

_LOG = logging.getLogger(__name__)
_REPORT = "Report this problem and include the daemon's log."
_LEADER_HINT = "Request the checkpoint on the leader's host; `checkpointer check --only leader` names the leader."
_LOCK_HINT = "Restore the service that stores the lock; `checkpointer check --only leader` shows its fault."
_UPLOAD = "upload"


class OperationFaults:
    """The recurring faults of a daemon, one for each operation; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.namenode = self._fault("the NameNode answers again", "polls")
        self.reading = self._fault("storage and journal can be read again", "polls")
        self.fetch = self._fault("images of another daemon can be fetched again", "polls")
        self.space = self._fault("there is space for a checkpoint again", "polls")
        self.checkpoint = self._fault("checkpoints succeed again", "attempts")
        self.offer = self._fault("images can be offered again", "attempts")
        self.lateness = self._fault("checkpoints are on time again", "polls")
        self._transfers: dict[str, RecurringFault] = {}
        self._jobs: dict[str, RecurringFault] = {}

    def _fault(self, success: str, unit: str) -> RecurringFault:
        return RecurringFault(_LOG, success, unit=unit, clock=self._clock)

    def transfer(self, address: str) -> RecurringFault:
        """Return the fault of transfers to a NameNode."""
        return self._transfers.setdefault(address, self._fault(f"{address} accepts images again", "transfers"))

    def transfers(self) -> list[RecurringFault]:
        """Return the faults of transfers to all NameNodes."""
        return list(self._transfers.values())

    def job(self, name: str) -> RecurringFault:
        """Return the fault of a role's job."""
        return self._jobs.setdefault(name, self._fault(f"the job {name} runs again", "runs"))


@dataclass(eq=False)
class CheckpointAttempts:
    """Attempts of a daemon, made one at a time; also the observer of the role's merges (`Observer`).

    Args:
        gave_up: called when the role has stopped permanently; `gave_up_error` is the reason.
        clock: monotonic seconds.
        wall: seconds since the epoch.

    Attributes:
        progress: last known progress of the role; None at first.
        passed_over: whether the last attempt skipped the checkpoint because it was not due, or because another daemon
            makes it.
        reported_standby: whether, at the last attempt, another daemon was the leader and should have made the
            checkpoint.
        gave_up_error: reason why the role has stopped permanently; None while the role works.
    """

    role: CheckpointRole
    _: KW_ONLY
    schedule: CheckpointSchedule
    cancellation: Cancellation
    leadership: Leadership
    forecast: UploadForecast
    archive: ArchiveProcess
    lake: LakeAppender
    reports: DailyReporter
    record: RecordStore
    faults: OperationFaults
    gave_up: Callable[[], None]
    clock: Callable[[], float]
    wall: Callable[[], float]
    # leadership at the start of the attempt
    _basis: LeaseBasis | None = field(init=False, default=None)
    # messages of failures in the history, by operation
    _recorded: dict[RecurringFault, set[str]] = field(init=False, default_factory=dict)
    # time when the image in progress was renamed to its final name
    _renamed_at: float | None = field(init=False, default=None)
    _newest_image: MomentAge = field(init=False)
    progress: Progress | None = field(init=False, default=None)
    passed_over: bool = field(init=False, default=False)
    reported_standby: bool = field(init=False, default=False)
    gave_up_error: RoleGaveUpError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._newest_image = MomentAge(self.clock, self.wall)

    # ---- Observer ------------------------------------------------------------------------------------------

    def phase(self, name: str, total: int | None) -> None:
        self.record.phase(name, total)

    def advance(self, done: int) -> None:
        self.record.advance(done)

    def saved(self) -> None:
        self._renamed_at = self.clock()

    def cancelled(self) -> bool:
        return self.cancellation.requested or self.leadership.must_abort(self._basis)

    def _upload_cancelled(self) -> bool:
        return self.cancellation.requested or self.leadership.must_abort(self._basis, sending=True)

    def _upload_began(self) -> None:
        if self.record.now.phase != _UPLOAD:
            self.record.phase(_UPLOAD)

    # ---- attempt -------------------------------------------------------------------------------------------

    def run(self, *, force: bool) -> TriggerResult:
        """Make one attempt; for a forced checkpoint, a single new transaction is sufficient."""
        self.cancellation.log_end()
        # the current operation; None while the role reads its progress
        operation: RecurringFault | None = None
        before, self._basis = self._basis, None
        try:
            self.role.prepare()
            progress = self._read_progress()
            held_back = self._held_back(progress)
            self.passed_over = bool(held_back)
            self.reported_standby = bool(held_back) and self.leadership.follows
            if held_back:
                self._leave_to_others(progress)
                self.schedule.drop_forced()
                operation = self.faults.fetch
                self._keep_up()
                if progress.urgent and self.schedule.retry_wait <= 0:
                    # A standby's tail waits for this node's rollback image, although only the leader uploads such
                    # images.
                    operation = self.faults.checkpoint
                    self._checkpoint(progress, TriggerReason.URGENT, force=False)
                state = TriggerState.UNAVAILABLE if force else TriggerState.SKIPPED
                hint = _LEADER_HINT if self.leadership.follows else _LOCK_HINT
                return TriggerResult(state, held_back, {"hint": hint} if force else {})
            self._basis = self.leadership.lease_basis()
            if self._basis != before:
                # Another daemon may have made images in the meantime, so the edits with which our state must be
                # compared may have been purged.
                operation = self.faults.fetch
                self._keep_up()
                operation = None
                progress = self._read_progress()
            reason = self.schedule.reason(progress, force=force)
            # The period may end during this attempt.
            self.passed_over = reason is None and progress.behind > 0
            wait = self.schedule.retry_wait
            if reason is not None and (force or wait <= 0):
                operation = self.faults.checkpoint
                period_from = self.schedule.period_from
                result = self._checkpoint(progress, reason, force=force)
                operation = self.faults.offer
                return self._offer_new(result, reason, period_from, force=force)
            operation = self.faults.offer
            if reason is None:
                self.faults.checkpoint.forget()
                self.schedule.reset_retries()
                base = "without an image" if progress.image_txid < 0 else f"since the image at {progress.image_txid}"
                since = f"{counted(progress.behind, 'transaction')} {base}"
                if force:
                    self.update_forecast()
                    since += self.forecast.unread_edits(progress.journal_txid)
                return self._offer_again(progress, f"no checkpoint is due: {since}", force=force)
            failed = counted(self.faults.checkpoint.count, "attempt")
            message = f"a checkpoint is due, but {failed} failed; the daemon retries in {duration(wait)}"
            return self._offer_again(progress, message, force=force)
        except CheckpointCancelledError as error:
            # a shutdown of the daemon does not record a reason
            why = self.cancellation.reason if self.cancellation.requested else ""
            return TriggerResult(TriggerState.UNAVAILABLE, f"{error.message}: {why}" if why else error.message)
        except Exception as error:
            if isinstance(error, RoleGaveUpError):
                self.gave_up_error = error
                self.gave_up()
            known, bug = describe_fault(error)
            if operation is None:
                operation = self.faults.namenode if isinstance(known, RpcError) else self.faults.reading
            return self._failed(known, operation, force=force, bug=bug)

    def observe(self) -> None:
        """Read the role's progress.

        Raises:
            HdfsError, OSError: the storage or the journal cannot be read.
        """
        self.progress = self.role.progress()

    def image_age(self, progress: Progress) -> float | None:
        """Return the age of the newest known image of any daemon, in seconds; None if there is no image."""
        known = [at for at in (progress.image_at, self.forecast.last_image_at()) if at is not None]
        return self._newest_image.of(max(known)) if known else None

    def update_forecast(self) -> None:
        """Query the NameNodes for the times at which they accept an image."""
        self.forecast.update([target.address for target in self.role.targets], lambda: self.cancellation.stopped)

    # ---- steps ---------------------------------------------------------------------------------------------

    def _read_progress(self) -> Progress:
        progress = self.progress = self.role.progress()
        self.record.looked()
        self._succeeded(self.faults.namenode)
        self._succeeded(self.faults.reading)
        if problem := self.role.space_shortage():
            problem = f"the next checkpoint will fail: {problem}"
            self.faults.space.occurred(problem, hint=SPACE_HINT, level=logging.WARNING)
        else:
            self.faults.space.ended()
        self.schedule.observe(progress, self.image_age(progress) if self.leadership.shared else None)
        return progress

    def _keep_up(self) -> None:
        self.role.keep_up(self.cancelled)
        self._succeeded(self.faults.fetch)
        self.archive.offer(self.role)

    def _held_back(self, progress: Progress) -> str:
        """Return the reason why another daemon makes the next checkpoint, or "" if this daemon makes it."""
        if self.leadership.leads:
            self.forecast.remember()
        age, config = self.image_age(progress), self.schedule.config
        return self.leadership.held_back(age, config.period, config.poll_interval, self._others_at_work)

    def _leave_to_others(self, progress: Progress) -> None:
        """Drop the faults of checkpoints and of later work, because another daemon now does this work.

        A standby still makes a rollback image.
        """
        left = [] if progress.urgent else [self.faults.checkpoint]
        for fault in (*left, self.faults.offer, *self.faults.transfers()):
            if fault.count:
                fault.forget()
                self.record.resolved()
        if self.reported_standby:
            self.lake.forget_error()
            self.reports.forget_error()

    def _others_at_work(self) -> bool:
        self.update_forecast()
        return self.forecast.others_image()

    def _checkpoint(self, progress: Progress, reason: TriggerReason, *, force: bool) -> MergeResult:
        if force or not self.forecast.updated:
            self.update_forecast()
        self._compare_settings()
        if force and not self.schedule.config.shadow:
            for sentence in self.forecast.expected_refusals(progress.journal_txid):
                _LOG.warning("%s", sentence, extra={"txid": progress.journal_txid, "phase": _UPLOAD})
        if not self.faults.checkpoint.count:
            fields = {"txid": progress.journal_txid, "reason": reason.value, "transactions": progress.behind}
            _LOG.info("%s", begin_message(progress, reason), extra=fields)
        triggered, self._renamed_at = self.clock(), None
        result = self.role.checkpoint(self, forced=force)
        self.record.phase("idle")
        self.schedule.saved(None if result.rollback else result.txid)
        latency = (self.clock() if self._renamed_at is None else self._renamed_at) - triggered
        self.record.saved(result, reason.value, latency)
        self.archive.measured(result)
        log_checkpoint(result, reason, latency)
        self._succeeded(self.faults.checkpoint)
        self.schedule.reset_retries()
        return result

    def _compare_settings(self) -> None:
        """Raise CheckpointError if the active NameNode is known to replay edits with different settings."""
        try:
            text = self.forecast.settings_fault(self.cancelled)
        except TransferCancelledError as error:
            raise CheckpointCancelledError(error.message) from error
        if text:
            raise CheckpointError(text, hint=SETTINGS_HINT)

    def _offer_new(
        self, result: MergeResult, reason: TriggerReason, period_from: float, *, force: bool
    ) -> TriggerResult:
        """Pass a new image to the lake, to the NameNodes and to the daily report.

        Args:
            period_from: start of the period that ended with this checkpoint.
        """
        if not result.rollback:
            self.lake.offer(self.role)
        details: dict[str, Any] = {
            "txid": result.txid,
            "reason": reason.value,
            "transactions": result.transactions,
            "ignored": result.ignored,
            "healed": [asdict(healed) for healed in result.healed],
        }
        try:
            offers = self._upload(force=force)
        finally:
            if not result.rollback:
                self.reports.offer(self.role)
        kind = ImageKind.ROLLBACK if result.rollback else ImageKind.IMAGE
        outcome = self._outcome(result.txid, kind, offers) if offers or force else None
        if force and outcome is not None and outcome.acceptance is Acceptance.TOO_RECENT:
            self.schedule.keep_due(period_from, outcome.again_at)
        return _answer(TriggerState.DONE, f"checkpoint at txid {result.txid}", details, offers, outcome)

    def _offer_again(self, progress: Progress, message: str, *, force: bool) -> TriggerResult:
        """Offer the newest image to the NameNodes that still need it, without a new checkpoint."""
        offers = self._upload(force=force)
        outcome = self._outcome(progress.image_txid, ImageKind.IMAGE, offers) if offers or force else None
        answer = _answer(TriggerState.SKIPPED, message, {"txid": progress.image_txid}, offers, outcome)
        alarm = next(iter(self.role.alarms()), None) if force else None
        if alarm is None or answer.details.get("exitCode"):
            return answer
        # the role may lack edits that exist at the NameNode
        details = {"exitCode": ExitCode.FAILURE, "hint": getattr(alarm, "hint", "")}
        return TriggerResult(answer.state, f"{answer.message}, but {alarm}", {**answer.details, **details})

    def _outcome(self, txid: int, kind: ImageKind, offers: list[Upload]) -> UploadOutcome:
        config = self.schedule.config
        found = outcome_of(
            txid,
            kind,
            offers,
            self.role.targets,
            takes_from=self.forecast.takes_from,
            now=self.wall(),
            period=config.period,
            shadow=config.shadow,
            observers=self.forecast.observers(),
            inactive=self.forecast.inactive(),
        )
        self.record.outcome(found.acceptance.value)
        return found

    def _upload(self, *, force: bool) -> list[Upload]:
        """Offer the image to the NameNodes; return the result of each offer."""
        self.leadership.await_certainty(self._basis, lambda: self.cancellation.requested)
        if self.leadership.must_abort(self._basis):
            raise CheckpointCancelledError("another checkpointer is now the leader and makes the next checkpoint")
        made = []
        for upload in self.role.upload(self._upload_cancelled, self._upload_began, force=force):
            made.append(upload)
            self.record.offered(upload)
            self.forecast.note_upload(upload)
            self._log_upload(upload)
        self.archive.offer(self.role)
        if made:
            self._succeeded(self.faults.offer)
        else:
            self.faults.offer.forget()
        return made

    def _log_upload(self, upload: Upload) -> None:
        fault = self.faults.transfer(upload.address)
        fields: dict[str, Any] = {
            "txid": upload.txid,
            "phase": _UPLOAD,
            "target": upload.address,
            "kind": upload.kind.value,
            "result": upload.result,
            "seconds": round(upload.seconds, 3),
            "bytes": upload.size,
        }
        if upload.error:
            fault.occurred(
                f"upload to {upload.address} failed: {upload.error}", hint=upload_hint(upload.error), **fields
            )
        elif upload.refusal:
            fault.forget()
            _LOG.warning("upload to %s: %s: %s", upload.address, upload.result, upload.refusal, extra=fields)
        else:
            if fault.ended():
                self.record.resolved()
            _LOG.info("upload to %s: %s in %.2f s", upload.address, upload.result, upload.seconds, extra=fields)

    def _failed(
        self, error: HdfsError, operation: RecurringFault, *, force: bool, bug: BaseException | None
    ) -> TriggerResult:
        faults = self.faults
        phase = _UPLOAD if operation is self.faults.offer else self.record.now.phase
        fields = {"phase": phase, "exitCode": error.exit_code}
        unread = operation in (faults.namenode, faults.reading, faults.fetch)
        due = force or not unread or self.schedule.period_left <= 0
        what = "checkpoint failed" if operation is faults.checkpoint else "the offer of the image failed"
        if unread:
            what = "a checkpoint is due, but cannot be made" if due else "no checkpoint can be made now"
        level = logging.ERROR if due else logging.WARNING
        operation.occurred(f"{what}: {error.message}", hint=error.hint, level=level, bug=bug, **fields)
        if due:
            self.record.failed(error.message, is_new=self._is_new(operation, error.message))
        if operation is faults.checkpoint:
            self.schedule.failed(operation.count, force=force)
        return TriggerResult(TriggerState.FAILED, error.message, {"hint": error.hint, "exitCode": error.exit_code})

    def _is_new(self, operation: RecurringFault, text: str) -> bool:
        """Return whether `text` is new since the operation last succeeded or its fault was dropped."""
        if operation.count == 1 or operation not in self._recorded:
            self._recorded[operation] = set()
        known, text = self._recorded[operation], without_numbers(text)
        is_new = text not in known
        known.add(text)
        return is_new

    def _succeeded(self, operation: RecurringFault) -> None:
        sentence = operation.ended()
        if self._recorded.pop(operation, None) and sentence:
            self.record.recovered(sentence)


def describe_fault(fault: Exception) -> tuple[HdfsError, Exception | None]:
    """Return the error to report for a fault; also return the fault itself if it is a bug in this program."""
    known = as_hdfs_error(fault)
    if known is not None:
        return known, None
    return HdfsError(f"{type(fault).__name__}: {fault}", hint=_REPORT), fault


def _answer(
    state: TriggerState, message: str, details: dict[str, Any], offers: list[Upload], outcome: UploadOutcome | None
) -> TriggerResult:
    """Return the response to a request; `uploads`, `uploadErrors` and `refusals` are keyed by address."""
    details |= {
        "uploads": {each.address: each.result for each in offers},
        "uploadErrors": {each.address: each.error for each in offers if each.error},
        "refusals": {each.address: each.refusal for each in offers if each.refusal},
    }
    if outcome is None:
        return TriggerResult(state, message, details)
    if outcome.exit_code:
        message = f"{message}, but no active NameNode has the image: {outcome.problem}"
    return TriggerResult(state, message, details | outcome.details())
