"""Daily report about the first image of each day (UTC). A separate process makes the report, so that checkpoints do not
wait.

The process has a low priority and limited memory. All state is in the reports' folder, so each day has at most one
complete report, even after a restart. Only the reporter's thread accesses the folder, because its file system may hang.
A failure remains visible until a report succeeds. The first checkpoint at least an hour after a failure retries the
report.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from archive.scratch import scratch_folder
from checkpointer.daemon.child_process import ChildCommand, ChildQueue
from checkpointer.daemon.linked_image import LinkedImage, linked_image
from checkpointer.roles.role import CheckpointRole
from hadoop_common.child_module import child_module
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.names import parse_image
from hadoop_common.recurring_fault import Alarm, with_next
from node_state.report_folder import KeptReport, list_reports, surplus_files
from node_state.state import ReportState
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_FOLDER = "reports"
_COMMAND = tuple(child_module("checkpointer", "report"))
_MASTER = "local[2]"
_NICENESS = 10
_SPARK_FOLDERS = "SPARK_LOCAL_DIRS"
_RETRY_SECONDS = 3600.0
_FAILED = "the daily report failed"
_HINT = (
    "Run `checkpointer report` with the newest image, and raise checkpointer.report.memory if the report needs more "
    "memory. Checkpoints continue; the first checkpoint after an hour retries the report."
)


@contextmanager
def _spark_scratch() -> Iterator[Path]:
    """Yield a folder for Spark's temporary files, and delete it afterwards, because a killed Spark process cannot
    delete it.
    """
    parent = None
    if folders := os.environ.get(_SPARK_FOLDERS):
        parent = Path(folders.split(",")[0])
        parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(parent) as scratch:
        yield scratch


class DailyReporter:
    """Daily reports of a daemon, made at most one at a time.

    Any thread may call any method. Only `stop` waits for a report, and no method raises.

    Args:
        config: settings for the reports, including their folder.
        command: command line words before the arguments of `checkpointer report`.
        wall: seconds since the epoch.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        command: Sequence[str] = _COMMAND,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._command = command
        self._wall = wall
        self._clock = clock
        self._guard = threading.Lock()
        self._state = ReportState()
        # reading of `clock` before which the reporter does not retry a failed report
        self._retry_at = -math.inf
        self._making: KeptReport | None = None
        self._kept: list[KeptReport] = []
        self._offered = False
        self._image: LinkedImage | None = None
        self._children = ChildQueue("the report", self._ended)

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings from the next checkpoint on."""
        self._config = config

    def folder(self, role: CheckpointRole) -> Path | None:
        """Return the folder of the reports, or None if there is no storage directory."""
        if self._config.report_directory:
            return Path(self._config.report_directory)
        storages: list[Path] = []
        # without a usable directory, `/status` must still show the reason
        with suppress(HdfsError):
            storages = role.image_folders()
        return storages[0].parent / _FOLDER if storages else None

    def reports(self) -> list[KeptReport]:
        """Return the complete reports, newest first, even if reports are now disabled."""
        return self._kept

    def renew(self, role: CheckpointRole) -> None:
        """Refresh the list of reports."""
        self._children.offer(partial(self._task, role))

    def offer(self, role: CheckpointRole) -> None:
        """Make a report about the newest image after a checkpoint if this day (UTC) has no report yet."""
        if self._config.report_daily:
            self._offered = True
            self.renew(role)

    def stop(self) -> None:
        """Stop the running report and prevent further reports; the next daemon makes this report again."""
        self._children.stop()

    def forget_error(self) -> None:
        """Drop the last error, because another daemon makes the next report."""
        with self._guard:
            self._state = replace(self._state, error="")

    def alarms(self) -> list[Alarm]:
        error = self._state.error
        return [Alarm(f"{_FAILED}: {error}", _HINT, "report")] if error and self._config.report_daily else []

    def state(self, role: CheckpointRole) -> ReportState | None:
        if not self._config.report_daily:
            return None
        return replace(self._state, directory=str(self.folder(role) or ""), running=self._children.running)

    @contextmanager
    def _task(self, role: CheckpointRole) -> Iterator[ChildCommand | None]:
        """List the reports; prepare a new report if an image was offered and the day has no report."""
        offered, self._offered = self._offered, False
        moment = datetime.fromtimestamp(self._wall(), UTC)
        folder = self.folder(role)
        try:
            self._kept = [] if folder is None else list_reports(folder)
        except OSError as fault:
            if offered:
                raise
            # the next offer raises this fault again
            _LOG.debug("the reports in %s cannot be listed: %s", folder, error_text(fault, folder))
        made = any(each.time.date() == moment.date() for each in self._kept)
        if folder is None or made or not offered or self._clock() < self._retry_at:
            yield None
            return
        folder.mkdir(parents=True, exist_ok=True)
        image = role.latest_image()
        name = parse_image(image.name)
        report = self._making = KeptReport.named(folder, moment, 0 if name is None else name.txid)
        with _spark_scratch() as scratch, linked_image(image) as linked:
            self._image = linked
            yield self._command_for(linked.path, report, scratch)

    def _command_for(self, image: Path, report: KeptReport, scratch: Path) -> ChildCommand:
        memory = self._config.report_memory
        words = [*self._command, str(image), "--master", _MASTER, "--driver-memory", f"{memory // 2 >> 20}m"]
        words += ["--since-last", str(report.page.parent)]
        if self._config.report_paths:
            words += ["--paths", self._config.report_paths]
        # the process writes the JSON file last, so a report that has both files is complete
        words += ["--format", "json", "--out", str(report.page), "--out", str(report.data), "--force"]
        return ChildCommand(words, self._config.conf_dir, _NICENESS, memory, {_SPARK_FOLDERS: str(scratch)})

    def _ended(self, error: str) -> None:
        """Record the end of a report; `error` is "" if it succeeded."""
        report = self._making
        error = self._image.in_storage(error) if self._image else error
        if not error and report is not None:
            self._retain(report.page.parent)
        with self._guard:
            state = self._state
            if error:
                self._state = replace(state, failures=state.failures + 1, error=error)
                self._retry_at = self._clock() + _RETRY_SECONDS
            else:
                self._state = replace(state, reported_at=self._wall(), error="")
        if error:
            _LOG.error("%s", with_next(f"{_FAILED}: {error}", _HINT))
        elif report is not None:
            _LOG.info("made the report %s", report.page, extra={"txid": report.txid})

    def _retain(self, folder: Path) -> None:
        """Delete all but the newest reports, and list the remaining reports."""
        try:
            for path in surplus_files(folder, self._config.reports_retained, datetime.fromtimestamp(self._wall(), UTC)):
                try:
                    path.unlink(missing_ok=True)
                except OSError as fault:
                    _LOG.warning("the old report %s cannot be deleted: %s", path, error_text(fault, path))
            self._kept = list_reports(folder)
        except OSError as fault:
            _LOG.warning("the reports in %s cannot be listed: %s", folder, error_text(fault, folder))
