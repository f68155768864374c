"""Archiving in a separate process, so that checkpoints and readers of edits do not wait for the archive.

The process runs with a low priority while the daemon runs, and is restarted after a crash. The daemon sends the folders
and the image that belongs to the cluster's present past. The process finds new edits in these folders. `worker`
contains the code of the process, and `messages` defines the messages. A failure remains visible until a round succeeds.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from archive.scratch import scratch_folder
from checkpointer.archiving.messages import PRUNE_HINT, ArchiveReport, ArchiveSource
from checkpointer.roles.role import CheckpointRole
from checkpointer.set_back.start_over import LostPast
from engine.merge import MergeResult
from hadoop_common.addresses import without_password
from hadoop_common.child_module import child_module
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.moment_age import MomentAge
from hadoop_common.names import parse_image
from hadoop_common.process_group import end_process_group
from hadoop_common.quantities import counted, duration
from hadoop_common.recurring_fault import Alarm, RecurringFault
from image_format.md5_file import read_md5_file
from node_state.state import ArchiveState
from site_config.checkpoint_config import CheckpointConfig, Role

_LOG = logging.getLogger(__name__)
_MODULE = "checkpointer.archiving.worker"
_KIND = "archive"
_MAX_WAIT_SECONDS = 60.0
# longer than the process needs to exit
_GRACE_SECONDS = 8.0
# the replay of fewer transactions is too short for a measurement of speed
_MIN_MEASURED = 10_000
_LOST_HINT = "`checkpointer archive check` lists the moments that are lost, and the next step."
_MISSING_HINT = "Make a checkpoint (`checkpointer checkpoint --force`): the archive continues from its image."
_LAG_HINT = (
    "Check the daemon's log, and whether `checkpointer archive list` can read the archive; the daemon "
    "continues to read edits and make checkpoints."
)


class ArchiveProcess:
    """Supervisor of the archive process.

    Any thread may call any method. Only `stop` waits, and no method raises.

    Args:
        config: location of the archive, and settings for filling it.
        clock: monotonic seconds; `wall`: seconds since the epoch.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._clock = clock
        self._guard = threading.Lock()
        self._source: ArchiveSource | None = None
        self._confirmed: tuple[Path, bytes] | None = None
        self._confirmations = 0
        self._replay_rate = 0.0
        self._report = ArchiveReport()
        # time of the role's last start-over, and the last reported branch
        self._started_over = 0.0
        self._branch = ""
        # newest transaction that the role has read, and the error of the last query for this transaction
        self._known_txid = -1
        self._unread = ""
        self._complete_at: float | None = None
        self._lag_age = MomentAge(clock, wall)
        # `_complete_at`, or else the time of the start
        self._lag_from = self._lag_age.now()
        self._failures = 0
        self._fault = RecurringFault(_LOG, "the archive is being filled again", unit="attempts", clock=clock)
        self._child: subprocess.Popen[bytes] | None = None
        self._worker: threading.Thread | None = None
        self._restarts = False
        self._stopping = threading.Event()

    @property
    def enabled(self) -> bool:
        return bool(self._config.archive.directory)

    # ---- sources of the archive --------------------------------------------------------------------------

    def measured(self, result: MergeResult) -> None:
        """Record the speed of this daemon's replay."""
        if result.transactions >= _MIN_MEASURED and result.timings.replay > 0:
            self._replay_rate = result.transactions / result.timings.replay

    def offer(self, role: CheckpointRole) -> None:
        """Offer the newest image to the archive if the role confirms it; called after each attempt."""
        if not self.enabled:
            return
        try:
            newest = role.latest_image()
            known = (newest, read_md5_file(newest))
            if known != self._confirmed and role.confirm_image() == newest:
                with self._guard:
                    self._confirmed = known
                    self._confirmations += 1
        except (HdfsError, OSError) as fault:
            # the next attempt retries, and uploads report why an image is not confirmed
            _LOG.debug("the newest image is not archived yet: %s", error_text(fault))
        self.feed(role)

    def feed(self, role: CheckpointRole) -> None:
        """Send the present folders to the process; the first call starts the process."""
        if not self.enabled or self._stopping.is_set():
            return
        try:
            source = self._source_of(role)
            self._note_start_over(source.started_over)
            self._known_txid = _known_txid(role, source)
            self._unread = ""
        except (HdfsError, OSError, IndexError) as fault:
            # the alarm about an incomplete archive includes this error
            self._unread = error_text(fault)
            return
        with self._guard:
            if source != self._source:
                self._source = source
                self._send(source)
            if self._worker is None and not self._stopping.is_set():
                worker = threading.Thread(target=self._work, name="archive", daemon=True)
                # if the system refuses another thread now, the next poll retries
                worker.start()
                self._worker = worker

    def _note_start_over(self, at: float) -> None:
        """If the role has started over, discard the last report, which describes the previous history."""
        with self._guard:
            if at != self._started_over:
                self._started_over, self._report = at, ArchiveReport()

    def _source_of(self, role: CheckpointRole) -> ArchiveSource:
        lost: LostPast | None = getattr(role.details(), "lost_past", None)
        name = parse_image(role.latest_image().name)
        image = None if self._confirmed is None else self._confirmed[0]
        return ArchiveSource(
            storages=tuple(role.image_folders()),
            edits=tuple(dict.fromkeys(each.path.parent for each in role.segments())),
            base_txid=0 if name is None else name.txid,
            image=image if image is not None and image.is_file() else None,
            confirmations=self._confirmations,
            replay_rate=self._replay_rate,
            started_over=0.0 if lost is None else lost.at,
        )

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings; restart the process if the archive settings have changed."""
        with self._guard:
            changed, self._config = config.archive != self._config.archive, config
            if changed:
                self._report, self._complete_at, self._lag_from = ArchiveReport(), None, self._lag_age.now()
                self._branch = ""
                self._fault.forget()
                self._restarts = True
                self._kill()

    def stop(self) -> None:
        """Stop the process; the next daemon continues its work."""
        self._stopping.set()
        with self._guard:
            child, worker = self._child, self._worker
        if child is not None:
            assert child.stdin is not None
            with suppress(OSError):
                child.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
            end_process_group(child, "the process that fills the archive")
        if worker is not None:
            worker.join(_GRACE_SECONDS)

    def _work(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            self._restarts = False
            if not self.enabled:
                wait = 1.0
                continue
            began = self._clock()
            try:
                end = self._run()
            except OSError as fault:
                end = error_text(fault)
            except Exception as fault:
                # without this thread, the archive would lack edits without an alarm
                _LOG.exception("the archive cannot be filled because of a bug")
                end = str(fault) or type(fault).__name__
                self._kill()
            # a new process does not know the branch for which the role confirmed the image
            self._forget_image()
            if self._restarts:
                wait = 0.0
            elif not self._stopping.is_set():
                self._failed(f"its process ended: {end}", "The daemon restarts the process; see the daemon's log.")
                wait = 1.0 if self._clock() - began > _MAX_WAIT_SECONDS else min(_MAX_WAIT_SECONDS, max(1.0, 2 * wait))

    def _forget_image(self) -> None:
        """Require the role to confirm the image again."""
        with self._guard:
            self._confirmed = None
            if self._source is not None:
                self._source = replace(self._source, image=None)

    def _run(self) -> str:
        """Run one process until it ends; return the reason."""
        with scratch_folder() as scratch:
            with self._guard:
                if self._stopping.is_set():
                    return "the daemon is stopping"
                child = self._child = subprocess.Popen(
                    child_module(_MODULE),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "TMPDIR": str(scratch)},
                    start_new_session=True,
                )
                assert child.stdin is not None
                # a hanging process must not block the thread that makes checkpoints
                os.set_blocking(child.stdin.fileno(), False)
                self._send(self._config)
                self._send(self._source)
            last = self._follow(child)
            code = child.wait()
            with self._guard:
                self._child = None
        return last or f"exit code {code}"

    def _follow(self, child: subprocess.Popen[bytes]) -> str:
        """Read reports until the process ends; return the last line that is not a report."""
        assert child.stdout is not None
        last = ""
        for line in child.stdout:
            text = line.decode("utf-8", "replace").strip()
            try:
                report = ArchiveReport.from_line(text)
                # errors of fsspec file systems contain URLs with tokens
                shown = replace(report, error=without_password(report.error), hint=without_password(report.hint))
            except (ValueError, TypeError):
                text = without_password(text)
                last = text or last
                _LOG.warning("archive: %s", text)
            else:
                self._reported(shown)
        return last

    def _send(self, message: object) -> None:
        """Write a message to the running process; kill a process that does not read, so that it is restarted."""
        child = self._child
        if child is None or child.stdin is None:
            return
        content = pickle.dumps(message)
        try:
            if os.write(child.stdin.fileno(), content) == len(content):
                return
        except (OSError, ValueError) as fault:
            _LOG.debug("the process that fills the archive does not read its input: %s", fault)
        self._kill()

    def _kill(self) -> None:
        if self._child is not None:
            with suppress(OSError):
                self._child.kill()

    # ---- reports of the archive process --------------------------------------------------------------------

    def _reported(self, report: ArchiveReport) -> None:
        with self._guard:
            if report.started_over != self._started_over:
                # the report describes the previous history, except for its error
                if not report.error:
                    return
                report = ArchiveReport(error=report.error, hint=report.hint)
            self._report = report
        if report.error:
            # the process may no longer use the image
            self._forget_image()
            self._failed(report.error, report.hint)
            return
        self._fault.ended()
        if report.complete and report.restorable_txid >= self._known_txid and not self._unread:
            self._complete_at = self._lag_from = self._lag_age.now()
        if report.branch != self._branch:
            if self._branch:
                # the process does not archive an image that was confirmed for the previous history
                self._forget_image()
            self._branch = report.branch
            _LOG.info("archived as branch %s of %s", report.branch, self._config.archive.location)

    def _failed(self, error: str, hint: str) -> None:
        self._failures += 1
        self._fault.occurred(f"the archive {self._config.archive.location} is not being filled: {error}", hint=hint)

    def alarms(self) -> list[str]:
        """Return an alarm if archiving fails, or if the archive lags behind, lacks objects or purged edits, or grows
        without limit.
        """
        if not self.enabled:
            return []
        if self._fault.count:
            return [Alarm(self._fault.text, self._fault.hint, _KIND)]
        where, report, limit = self._config.archive.location, self._report, self._config.archive.lag_alarm
        if report.lost:
            text = f"the archive {where} lacks {report.lost}, so its newest transactions cannot be restored"
            return [Alarm(text, _LOST_HINT, _KIND)]
        if report.missing and report.restorable_txid < report.last_txid:
            text = (
                f"the archive {where} lacks {counted(report.missing, 'transaction')} that a purge removed before "
                f"they were archived, so nothing after transaction {report.restorable_txid} can be restored"
            )
            return [Alarm(text, _MISSING_HINT, _KIND)]
        if limit and self._lag_seconds > limit:
            why = self._unread and f": {self._unread}"
            text = f"the archive {where} has been incomplete for {duration(self._lag_seconds)}{why}"
            return [Alarm(text, _LAG_HINT, _KIND)]
        if report.pruning_error:
            text = f"the archive {where} grows, because its retention rules were not applied: {report.pruning_error}"
            return [Alarm(text, PRUNE_HINT, _KIND)]
        return []

    @property
    def _lag_seconds(self) -> float:
        return self._lag_age.of(self._lag_from)

    def state(self, journal_txid: int | None) -> ArchiveState | None:
        """Return the state of the archive, or None if no archive is configured.

        Args:
            journal_txid: newest known transaction, None if unknown.
        """
        if not self.enabled:
            return None
        report = self._report
        known = journal_txid is not None and report.restorable_txid >= 0
        return ArchiveState(
            directory=self._config.archive.location,
            running=self._child is not None,
            branch=report.branch,
            archived_txid=report.last_txid,
            restorable_txid=report.restorable_txid,
            lag_transactions=max(0, (journal_txid or 0) - report.restorable_txid) if known else None,
            lag_seconds=round(self._lag_seconds, 3),
            missing_transactions=report.missing,
            complete_at=self._complete_at,
            failures=self._failures,
            error=self._fault.text,
        )


def _known_txid(role: CheckpointRole, source: ArchiveSource) -> int:
    """Return the newest transaction that the archive must contain; a secondary reads edits only up to the last roll."""
    return source.base_txid if role.name == Role.SECONDARY.value else role.progress().journal_txid
