"""The archive process, which a daemon starts as `python -m checkpointer.archiving.worker`.

The process reads the messages that `messages` defines from its standard input. It exits at the end of the input, so it
never outlives its daemon. If the process is killed, a few unlisted objects may remain in the archive.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import BinaryIO

from archive.adding import AddOptions, FoundFiles, find_segments
from archive.archive import Archive, open_archive
from archive.errors import OtherHistoryError
from archive.following import ArchiveFollower, ArchivePosition
from archive.moments import histories, view_of
from archive.pruning import prune
from archive.scratch import SCRATCH_PREFIX
from checkpointer.archiving.begun_archives import BegunArchive
from checkpointer.archiving.journal_spool import JournalSpool
from checkpointer.archiving.messages import PRUNE_HINT, ArchiveReport, ArchiveSource
from checkpointer.roles.standby.open_edit_source import open_edit_source
from hadoop_common.addresses import without_password
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error
from hadoop_common.names import VERSION
from hadoop_common.process_tuning import lower_session_priority
from hadoop_common.quantities import counted
from hadoop_common.storage_info import parse_version
from hadoop_common.tls.reloading import use_client
from hadoop_rpc.kerberos import PROCESS, log_in
from site_config.archive_settings import ArchiveSettings
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_NICE = 10
_PRUNE_SECONDS = 3600.0
# intervals between searches for removed objects, normally and while objects are missing
_SEARCH_SECONDS, _SEARCH_AGAIN_SECONDS = 3600.0, 60.0
# interval between checks for a set-back of a journal without new edits
_LOOK_BACK_SECONDS = 60.0
_MAX_WAIT_SECONDS = 60.0
# one round may miss the segment in progress while it is renamed
_TOLERATED = 1
_GRACE_SECONDS = 5.0
_HINT = "Check that the archive can be reached and has space; the daemon retries, and checkpoints continue."


class Inbox:
    """The daemon's newest message, received by a thread; `ended` is set when the daemon ends or requests a stop."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.ended = threading.Event()
        self.source: ArchiveSource | None = None
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                self.source = pickle.load(self._stream)
        except (EOFError, pickle.UnpicklingError):
            self.ended.set()
            # a hanging file system must not keep this process alive
            time.sleep(_GRACE_SECONDS)
            remove_scratch()
            os._exit(0)


class Rounds:
    """Archiving rounds. Each round copies edits from a journal, adds them to the archive, and applies the retention
    rules.

    A round after a failed round compares all files again, but reuses their digests and the history of the image.

    Attributes:
        pruning_error: reason why the last round could not apply the retention rules, or "".
        lost: see `ArchiveReport`.
        started_over: value in the source of the last round that compared the archive with the source's history.
    """

    def __init__(self, archive: Archive, settings: ArchiveSettings, spool: JournalSpool | None) -> None:
        self._archive = archive
        self._settings = settings
        self._spool = spool
        self._options = AddOptions(restore_target=settings.restore_target, forks=spool is None)
        self._begun = BegunArchive(settings.directory)
        self._follower: ArchiveFollower | None = None
        # the confirmed image and the branch at its confirmation; branches that begin later do not contain the image
        self._confirmations = -1
        self._image: Path | None = None
        self._image_branch = ""
        self._branch = ""
        self._looked_at = time.monotonic()
        self.started_over = 0.0
        self._pruned_at: float | None = None
        self.pruning_error = ""
        self._searched_at: float | None = None
        self.lost = ""

    def make(self, source: ArchiveSource) -> ArchivePosition | None:
        """Archive new edits and images; return None while a new archive waits for its first image.

        Raises:
            HdfsError, OSError: the archive or the edits cannot be used.
        """
        if source.confirmations != self._confirmations:
            self._confirmations, self._image, self._image_branch = source.confirmations, source.image, self._branch
        follower = self._follower
        if follower is None:
            begun = self._begun.noted(source.storages)
            follower = self._follower = ArchiveFollower(self._archive, self._options, begun=begun)
        if source.replay_rate > 0:
            follower.options = replace(follower.options, replay_rate=source.replay_rate)
        if self._image is None and not self._branch and not self._archive.catalogue().records:
            follower.require_begun()
            # without an image, a later round could not determine the history of the first edits
            return None
        version = (source.storages[0] / VERSION).read_text()
        if self._spool is not None:
            self._update(self._spool, source, version)
        folders = source.edits if self._spool is None else (self._spool.folder,)
        segments = find_segments(folders, in_progress=True)
        # after a start-over, an image alone does not show whether its history is in the archive
        compared = source.started_over == self.started_over or segments or not self._archive.catalogue().records
        images = (self._image,) if self._image is not None and self._image.is_file() else ()
        found = FoundFiles(version, segments, images)
        try:
            position = follower.follow(found, self._image_branch)
        except OtherHistoryError:
            assert self._spool is not None
            # compare everything again to find where the histories diverge
            self._spool.begin(self._spool.oldest())
            follower.options = replace(follower.options, forks=True)
            return self.make(source)
        if not self._branch:
            self._begun.note(source.storages)
        self._branch = position.branch
        if compared:
            self.started_over = source.started_over
        if self._spool is not None:
            self._spool.archived(position.last_txid)
            follower.options = replace(follower.options, forks=False)
        self._prune()
        interval = _SEARCH_AGAIN_SECONDS if self.lost else _SEARCH_SECONDS
        if self._searched_at is None or time.monotonic() - self._searched_at >= interval:
            self._searched_at = time.monotonic()
            lost = follower.lost_objects()
            others = f" and {counted(len(lost) - 1, 'other object')}" if len(lost) > 1 else ""
            self.lost = f"{lost[0]}{others}" if lost else ""
        return position

    def forget_image(self) -> None:
        """Discard an image whose history is not yet known. The NameNode may lose the image's past before the next
        confirmation.
        """
        if not self._image_branch:
            self._image = None

    def _update(self, spool: JournalSpool, source: ArchiveSource, version: str) -> None:
        if spool.next_txid is None:
            begin = self._first_needed(source)
            spool.begin(min(begin, max(0, spool.newest())))
        elif source.started_over != self.started_over:
            # even equal txids may belong to another history
            spool.begin(spool.oldest())
        elif time.monotonic() - self._looked_at >= _LOOK_BACK_SECONDS:
            self._looked_at = time.monotonic()
            if spool.newest() < spool.finished_txid:
                spool.begin(spool.oldest())
        spool.update(parse_version(version.encode(), VERSION).layout_version)

    def _first_needed(self, source: ArchiveSource) -> int:
        """Return the first transaction to read from the journal. If possible, it is an archived transaction, which
        identifies the journal's history.
        """
        catalogue = self._archive.catalogue()
        views = [view_of(catalogue, name) for name in histories(catalogue)]
        firsts = [
            max((each.record.first for each in view.pieces if each.record.last_time), default=None) for view in views
        ]
        return min((each for each in firsts if each is not None), default=source.base_txid + 1)

    def _prune(self) -> None:
        due = self._pruned_at is None or time.monotonic() - self._pruned_at >= _PRUNE_SECONDS
        if self._settings.keep and not self._settings.immutable and due:
            self._pruned_at = time.monotonic()
            try:
                plan = prune(self._archive, self._settings.keep)
            except Exception as fault:
                # do not fail the round: its edits are archived, and the daemon would not report a single failed round
                self.pruning_error = _failed(ArchiveReport(), fault).error
                _LOG.warning("the retention rules were not applied: %s; next: %s", self.pruning_error, PRUNE_HINT)
                return
            self.pruning_error = ""
            if plan.remove:
                _LOG.info("removed from the archive: %d objects, %d bytes", len(plan.remove), plan.freed)


@dataclass(slots=True)
class _Outcome:
    """The last report, and the number of consecutive failures."""

    report: ArchiveReport = field(default_factory=ArchiveReport)
    failures: int = 0


def work(config: CheckpointConfig, inbox: Inbox) -> None:
    """Archive until the daemon ends this process."""
    settings, outcome = config.archive, _Outcome()
    rounds: Rounds | None = None
    with ExitStack() as resources:
        while not inbox.ended.wait(settings.period):
            try:
                rounds = rounds or resources.enter_context(_opened_rounds(config, inbox))
                if (source := inbox.source) is None:
                    continue
                position = rounds.make(source)
                # a round that only waits for an image does not prove that a fault is gone
                if position is not None or not outcome.failures:
                    report = replace(_as_report(position), started_over=rounds.started_over)
                    _report(outcome, replace(report, pruning_error=rounds.pruning_error, lost=rounds.lost))
            except Exception as fault:
                outcome.failures += 1
                if outcome.failures > _TOLERATED:
                    if rounds is not None:
                        rounds.forget_image()
                    _report(outcome, _failed(outcome.report, fault))
                inbox.ended.wait(min(_MAX_WAIT_SECONDS, settings.period * 2.0 ** min(outcome.failures, 16)))


@contextmanager
def _opened_rounds(config: CheckpointConfig, inbox: Inbox) -> Iterator[Rounds]:
    settings = config.archive
    key_file = Path(settings.key_file) if settings.key_file else None
    with (
        open_archive(settings.directory, key_file, immutable=settings.immutable) as archive,
        _opened_spool(config, inbox) as spool,
    ):
        yield Rounds(archive, settings, spool)


def _report(outcome: _Outcome, report: ArchiveReport) -> None:
    if not report.error:
        outcome.failures = 0
    if report != outcome.report or report.complete or report.error:
        print(report.to_line(), flush=True)
    outcome.report = report


def _as_report(position: ArchivePosition | None) -> ArchiveReport:
    if position is None:
        return ArchiveReport()
    complete = position.restorable_txid == position.last_txid
    return ArchiveReport(
        position.branch, position.last_txid, position.restorable_txid, position.missing, complete=complete
    )


def _failed(last: ArchiveReport, fault: Exception) -> ArchiveReport:
    known = as_hdfs_error(fault)
    if known is None:
        # fsspec file systems raise errors of many types
        known = HdfsError(without_password(f"{type(fault).__name__}: {fault}"))
    return replace(last, complete=False, error=known.message, hint=known.hint or _HINT)


@contextmanager
def _opened_spool(config: CheckpointConfig, inbox: Inbox) -> Iterator[JournalSpool | None]:
    """Yield a spool of the shared journal; None if the edits are files."""
    if not config.shared_edits or config.shared_edits_directory is not None:
        yield None
        return
    use_client(config.web.tls)
    if config.kerberos is not None and PROCESS.login is None:
        log_in(config.kerberos.login)
    while inbox.source is None:
        if inbox.ended.wait(config.archive.period):
            yield None
            return
    version = (inbox.source.storages[0] / VERSION).read_bytes()
    journal = open_edit_source(config)
    journal.open(parse_version(version, VERSION))
    try:
        with TemporaryDirectory(prefix="spool-") as folder:
            spool = JournalSpool(journal, Path(folder))
            try:
                yield spool
            finally:
                spool.close()
    finally:
        journal.close()


def remove_scratch() -> None:
    """Remove this process's temporary folder, which a killed daemon cannot remove."""
    if (scratch := Path(gettempdir())).name.startswith(SCRATCH_PREFIX):
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    lower_session_priority(os.getpid(), _NICE)
    os.umask(0o077)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    config = pickle.load(sys.stdin.buffer)
    try:
        work(config, Inbox(sys.stdin.buffer))
    finally:
        remove_scratch()


if __name__ == "__main__":
    main()
