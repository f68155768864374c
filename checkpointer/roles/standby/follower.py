"""Follower of the shared edits, which keeps a namespace up to date between checkpoints and saves it for a checkpoint.

The namespace is in one of these states: not loaded, following, held at the start of a rolling upgrade, lost, or being
saved. One lock protects the namespace.

- Not loaded: before the first tail, and after a fault that makes the namespace unreliable (an edit that cannot be
  applied, another VERSION, another past). The next tail loads the newest image.
- Following: each tail checks that the past is still the cluster's, then applies new edits. A gap first causes a check
  of the past, because the missing segments may have been purged in another past. If the past is unchanged, or if every
  copy of an edit is damaged, an alarm is raised until the active NameNode has an image that replaces these edits. The
  follower then fetches this image.
- Held: a rolling upgrade has begun, and the follower applies no edits until the rollback image is saved.
- Lost: our state does not belong to the cluster's past. The follower sets our state aside and loads the active
  NameNode's image instead. It fetches the same image again only after increasing delays. It also replaces our state if
  every image of this node is damaged.

The follower makes every image from a verified namespace (`_assure(deep=True)`) with new edits. A failed tail does not
change the namespace, and raises an alarm until a later tail succeeds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.image_fetcher import ImageFetcher, ImageReplacement, gap_alarm
from checkpointer.roles.standby.lag_watch import LagWatch
from checkpointer.roles.standby.log_roller import LogRoller
from checkpointer.roles.standby.namenodes import JournalWitness, NameNodes
from checkpointer.roles.standby.save_aside import save_aside
from checkpointer.roles.standby.tailer import EditTailer
from checkpointer.roles.standby.version import ActiveVersion, VersionAction, VersionWatch
from checkpointer.set_back.proof import DAMAGE_HINT
from checkpointer.set_back.provenance import ProvenanceStore, held_images, image_md5
from checkpointer.set_back.start_over import LostPast, StartOverLimiter
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lost_pasts import LOST_PAST, NOT_COMPARED
from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from checkpointer.storage.usable_images import ImageCopy, all_damaged
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.merge import MergeResult, Observer
from engine.observer import CancellableObserver
from engine.txn_runs import ImageId, TxnRecorder
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.moment_age import MomentAge
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from journal.errors import JournalError, TransactionGapError, is_damage
from node_state.state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_REPORT = "Report this problem and include the daemon's log."
_NO_EDITS_HINT = (
    "No action is needed: the daemon continues with the next finalized segment. To include the edits in the active "
    "NameNode's open segment now, run `hdfs dfsadmin -rollEdits` with the nameservice's configuration, which sends "
    "the command to the active NameNode, and repeat the request."
)
_SLICE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyDetails(RoleDetails):
    """Details of a standby.

    Attributes:
        tailed_at: time when edits were last read.
        rolling_upgrade: whether a rolling upgrade is in progress; `rollback_image_due`: whether its image is still
            pending.
        open_segment_fault: reason why the open segment could not be read, "" if it was read or is not needed.
        journal: location of the journal from which the node reads edits.
        lost_past: record of the last time that this node started over; None if it has never started over.
    """

    tailed_at: float | None
    rolling_upgrade: bool
    rollback_image_due: bool
    open_segment_fault: str
    journal: str
    lost_past: LostPast | None


class JournalFollower:
    """Follower that maintains the warm namespace of a standby. A tail and a checkpoint exclude each other; any thread
    may read.

    Args:
        source: the shared edits, which the follower closes.
        storage: locked storage of the images.
        images: fetches an image if edits cannot be applied to our image.
        on_start_over: called after the active NameNode's image has replaced our state, which was set aside.
        clock: monotonic seconds, for the times of roll requests and comparisons of the past.

    Attributes:
        namespace: the warm namespace; other threads may only read it (`WarmNamespace.reading`).
    """

    def __init__(
        self,
        config: CheckpointConfig,
        source: EditSource,
        storage: StorageDirectories,
        nodes: NameNodes,
        images: ImageFetcher,
        *,
        on_start_over: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._storage = storage
        self._nodes = nodes
        self._images = images
        self._replacement = ImageReplacement(storage, nodes, images)
        self._rebootstrap = config.rebootstrap
        recorder = TxnRecorder()
        self.namespace = self._warm = WarmNamespace(
            config.merge_settings, recorder=recorder, keeps_sums=config.keeps_sums
        )
        self.past = PastWatch(
            recorder,
            ProvenanceStore(storage.current_folders),
            lambda: held_images(storage.current_folders()),
            lambda last: JournalWitness(source, nodes, last),
            nodes.active_image_txid,
            clock=clock,
        )
        self._on_start_over = on_start_over
        self._start_over_limiter = StartOverLimiter(clock)
        self._lost: LostPast | None = None
        self._tailer = EditTailer(
            self._warm,
            source,
            in_progress=config.tail_in_progress,
            has_rollback_image=self._has_rollback_image,
            upgrade_finalized=self._upgrade_finalized,
        )
        self._roller = LogRoller(nodes, config.roll_after, location=source.location, clock=clock)
        self._lag = LagWatch(config.lag_alarm, clock=clock)
        self._version = VersionWatch(nodes, storage.storage_info, self._rolling, self._take_over, clock=clock)
        # held by the thread that reads or changes the namespace
        self._working = threading.Lock()
        self._closing = threading.Event()
        self._fault = RecurringFault(_LOG, "edits are read and applied again", unit="tails", clock=clock)
        self._open_fault = RecurringFault(_LOG, "the open segment is read again", unit="tails", clock=clock)
        self._tailed_at: float | None = None
        self._tail_age = MomentAge(time.monotonic, time.time)

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings from the next step on."""
        self._tailer.in_progress = config.tail_in_progress
        self._roller.period, self._lag.threshold = config.roll_after, config.lag_alarm
        self._images.config, self._rebootstrap = config, config.rebootstrap
        self._warm.settings = config.merge_settings

    def close(self) -> None:
        """Stop a running tail at a safe point, and release the edits and the namespace."""
        self._closing.set()
        self._source.close()
        with self._working:
            self._warm.close()

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def applied_txid(self) -> int:
        """Newest transaction in the namespace, or -1 if the namespace was never loaded."""
        return self._tailer.applied_txid

    @property
    def rollback_due(self) -> bool:
        """Whether a rolling upgrade requires an image of the present namespace."""
        return self._tailer.rollback_due

    @property
    def upgrading(self) -> bool:
        """Whether a rolling upgrade was in progress at `applied_txid`."""
        return self._tailer.upgrading

    def alarms(self) -> list[str]:
        """Return the reasons why edits are not applied or do not arrive, or why our VERSION is not the VERSION of the
        cluster.
        """
        alarms = (self._fault.alarm, self._roller.alarm, self._lag.alarm, self._version.alarm)
        return [alarm for alarm in alarms if alarm]

    def details(self) -> StandbyDetails:
        tailer, tailed_at = self._tailer, self._tailed_at
        newest = max(tailer.source_txid, self._roller.active_txid)
        return StandbyDetails(
            applied_txid=tailer.applied_txid,
            source_txid=tailer.source_txid,
            active_txid=self._roller.active_txid,
            tailed_at=tailed_at,
            tailing_lag_seconds=None if tailed_at is None else round(self._tail_age.of(tailed_at), 3),
            tailing_lag_transactions=max(0, newest - tailer.applied_txid),
            rolling_upgrade=tailer.upgrading,
            rollback_image_due=tailer.rollback_due,
            open_segment_fault=tailer.open_fault,
            journal=self._source.location,
            lost_past=self._lost,
            journal_nodes=self._source.journal_nodes(),
        )

    # ---- work ----------------------------------------------------------------------------------------------

    def tail(self, *, may_roll: Callable[[], bool]) -> bool:
        """Apply new edits, and request a roll if no edits arrive; return True if a rollback image is due now.

        A fault raises an alarm until a later tail succeeds. During a checkpoint, the method does nothing.

        Args:
            may_roll: returns whether a roll may be requested now. During an image transfer to the active NameNode, a
                roll would be slow and would slow the transfer down.
        """
        self._version.check()
        followed = self._follow()
        # The lock is not held, because a silent NameNode must not delay a checkpoint.
        if (
            followed
            and not self.rollback_due
            and may_roll()
            and self._roller.check(self.applied_txid, self._closing.is_set)
        ):
            followed = self._follow()
        if followed is not None:
            self._measure(followed)
        return self.rollback_due

    def _measure(self, followed: bool) -> None:
        """Check whether edits wait too long. If edits cannot be read, query the NameNodes' newest transactions."""
        if not followed:
            self._roller.update_active(self.applied_txid)
        active = self._roller.active_txid if self._roller.period > 0 else -1
        self._lag.note(self.applied_txid, source=self._tailer.source_txid, active=active)

    def doubt_version(self, reason: str) -> None:
        """Require a check in the next tail that the active NameNode's VERSION still equals ours."""
        self._version.doubt(reason)

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Catch up, and save the rollback image if it is due, otherwise an image with all present edits.

        Raises:
            CheckpointError, ImageFormatError, JournalError: no image could be made; nothing was written.
        """
        with self._exclusive(observer.cancelled):
            self._catch_up(observer)
            if self._assure(observer, deep=True):
                self._catch_up(observer)
                self._assure(observer, deep=True)
            rollback = self._tailer.rollback_due
            newest = self._storage.latest_image().txid
            if not rollback and self._warm.last_txid <= newest:
                raise CheckpointError(f"no finalized edits after txid {newest}", hint=_NO_EDITS_HINT)
            result = self._warm.save(self._storage.current_folders(), rollback=rollback, observer=observer)
            self.past.saved(ImageId(result.txid, result.saved.md5))
            if rollback:
                self._tailer.rollback_made()
        return result

    def save_aside(self, observer: Observer) -> list[Path]:
        """Save the namespace in memory without new edits (`checkpointer.roles.standby.save_aside`).

        Raises:
            CheckpointError, StorageError: no image could be made.
        """
        with self._exclusive(observer.cancelled):
            return save_aside(self._warm, self._storage, observer)

    def _follow(self) -> bool | None:
        """Apply present edits. Return whether they could be read and applied; None if this was not attempted or was
        cancelled.
        """
        if not self._working.acquire(blocking=False):
            return None
        observer = CancellableObserver(self._closing.is_set)
        try:
            # otherwise, readers would receive wrong responses until the next save; the load below reports the fault
            with suppress(ImageFormatError):
                self._warm.check_image()
            try:
                self._catch_up(observer)
            except JournalError as fault:
                # a newer image of the active NameNode makes missing and damaged edits unnecessary
                if not self._rebootstrap or not (isinstance(fault, TransactionGapError) or is_damage(fault)):
                    raise
                self._replacement.bridge(fault, self._tailer.applied_txid, self._closing.is_set)
                self._catch_up(observer)
        except CheckpointCancelledError:
            return None
        except (HdfsError, OSError) as fault:
            if self._closing.is_set():
                return None
            self._raise_alarm(self._describe(fault), fault)
            return False
        except Exception as fault:
            self._raise_alarm(f"edits are not read or applied: {type(fault).__name__}: {fault}", fault)
            return False
        finally:
            self._working.release()
        return True

    def _catch_up(self, observer: Observer) -> None:
        if observer.cancelled():
            raise CheckpointCancelledError("cancelled before new edits were applied")
        self._warm.rebase()
        if (begun := self._storage.unfinished_start_over()) is not None:
            self._start_over(begun.cause, observer, folder=begun.parent)
        elif not self._storage.is_formatted():
            self._start_over("this node has no image", observer)
        else:
            self._load_or_replace(observer)
        self._assure(observer, deep=False)
        try:
            self._tailer.catch_up(observer)
        except TransactionGapError:
            # If the past has changed, the missing segments may have been written and purged in the new past.
            self.past.doubt(gap=True)
            if not self._assure(observer, deep=False):
                raise
            self._tailer.catch_up(observer)
        self._tailed_at = self._tail_age.now()
        self._fault.ended()
        if fault := self._tailer.open_fault:
            text = f"the open segment will be read later: {fault}"
            self._open_fault.occurred(text, level=logging.WARNING, txid=self.applied_txid)
        else:
            # The segment may have been finalized before it was read.
            self._open_fault.forget()

    def _load_or_replace(self, observer: Observer) -> None:
        """Load an image if none is loaded, or if another program wrote a newer image. If every image of this node is
        damaged, set them all aside and load the active NameNode's image.

        A damaged image remains if the process is killed while it replaces the only image with an image of the same
        name.
        """
        try:
            if not self._warm.usable or self._storage.latest_image().txid > self._warm.last_txid:
                self._load(observer)
        except (ImageFormatError, StorageError) as error:
            # in this order, because the second check reads whole images
            if self._nodes.active_version() is None or not all_damaged(self._storage.current_folders()):
                raise
            self._start_over(f"no image of this node is intact: {error.message}", observer, folder=NOT_COMPARED)

    def _load(self, observer: Observer) -> None:
        """Load the newest undamaged image; if the layout in VERSION is newer, convert the namespace to it."""
        image = self._storage.verified_image()
        try:
            self._load_image(image, observer)
        except (UnsupportedLayoutError, UnsupportedCodecError):
            raise
        except ImageFormatError as error:
            self._storage.exclude(image, error)
            self._load(observer)

    def _load_image(self, image: ImageCopy, observer: Observer) -> None:
        self._tailer.load(image, observer, self._storage.storage_info().layout_version)
        self.past.loaded(ImageId(image.txid, image_md5(image.path)))

    # ---- the past ------------------------------------------------------------------------------------------

    def _assure(self, observer: Observer, *, deep: bool) -> bool:
        """Ensure that the namespace belongs to the cluster's present past; return whether this node started over.

        If the past is unknown, the follower still applies edits, because it compares everything before it makes an
        image.

        Args:
            deep: whether an image is about to be made.

        Raises:
            StorageError: the check cannot be completed now, or this node must start over but cannot.
        """
        started_over = False
        if not self._nodes.addresses:
            # This node does not upload images.
            return False
        while not (verdict := self.past.check(deep=deep)).holds:
            if not verdict.lost and not deep:
                _LOG.debug("it is not known whether the edits match the edits that were applied: %s", verdict.reason)
                return started_over
            if verdict.lost and self._storage.exclude_damaged():
                # a damaged file proves nothing
                self._load(observer)
                continue
            if started_over or not verdict.lost:
                raise StorageError(
                    f"{verdict.reason}; nothing is merged or offered until this is resolved",
                    hint=DAMAGE_HINT
                    if verdict.damaged
                    else "Check that a NameNode is active, and that the shared edits belong to that NameNode.",
                )
            # if every image is damaged, the files do not show the state that the NameNode lost
            folder = verdict.folder if self._storage.has_image() else NOT_COMPARED
            self._start_over(verdict.cause("the NameNode"), observer, folder=folder)
            started_over = True
        if not started_over:
            self._start_over_limiter.reset()
        return started_over

    def _start_over(self, reason: str, observer: Observer, *, folder: str = LOST_PAST) -> None:
        """Set aside our state below `folder`, and fetch the active NameNode's image, as `hdfs namenode
        -bootstrapStandby` does.

        Raises:
            StorageError: no NameNode is active, the active NameNode has another namespace, or this node recently
                started over without success.
            HdfsError: the active NameNode's image could not be fetched.
        """
        active = self._replacement.begin(self._nodes.active_version(), cause=reason, folder=folder)
        self._start_over_limiter.check(active.image_txid, reason)
        aside, info = self._replacement.start_over(active, observer.cancelled, cause=reason, folder=folder)
        self._start_over_limiter.started_over(active.image_txid)
        self._storage.write_version(info)
        self._note_start_over(reason, active, aside)
        self._load(observer)

    def _note_start_over(self, reason: str, active: ActiveVersion, aside: Sequence[Path]) -> None:
        self._lost = LostPast.of(reason, aside)
        _LOG.warning(
            "%s; %s (txid %d of %s)",
            reason,
            self._lost.sentence(),
            active.image_txid,
            active.address,
            extra={"txid": active.image_txid, "phase": "fetch", "target": active.address},
        )
        self._warm.close()
        self.past.forget()
        self._roller.forget()
        self._on_start_over()

    @contextmanager
    def _exclusive(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Hold the namespace's lock; the wait may be long while another thread fetches or loads an image.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
        while not self._working.acquire(timeout=_SLICE_SECONDS):
            if cancelled():
                raise CheckpointCancelledError("cancelled while another thread read and applied the edits")
        try:
            yield
        finally:
            self._working.release()

    def _describe(self, fault: Exception) -> str:
        if isinstance(fault, TransactionGapError):
            return gap_alarm(fault, self._source.location, self._nodes.image_txids())
        return f"edits are not read or applied: {error_text(fault)}"

    def _raise_alarm(self, text: str, fault: Exception) -> None:
        known = as_hdfs_error(fault)
        hint, bug = (_REPORT, fault) if known is None else (known.hint, None)
        self._fault.occurred(text, hint=hint, bug=bug, txid=self.applied_txid, phase="replay")

    def _take_over(self, move: VersionAction, active: ActiveVersion) -> None:
        with self._exclusive(self._closing.is_set):
            cause = "the NameNode was upgraded or rolled back"
            aside = self._replacement.take_over(move, active, self._closing.is_set, cause=cause)
            if move is VersionAction.FETCH:
                self._note_start_over(cause, active, aside)
            # The next tail loads the newest image, in the new layout.
            self._warm.close()

    # ---- rolling upgrade -----------------------------------------------------------------------------------

    def _rolling(self, theirs: StorageInfo) -> bool:
        """Return whether a rolling upgrade is in progress while the active NameNode has this VERSION.

        When releases that do not report the upgrade finalize it, they also write VERSION in the shared edits. If the
        shared edits have no VERSION, only the edits show the finalization.
        """
        shared = self._source.version()
        if shared is not None:
            return shared != theirs
        return self._tailed_at is None or self._tailer.upgrading

    def _has_rollback_image(self, start_txid: int) -> bool:
        newest = latest_rollback_image(self._storage.current_folders())
        return newest is not None and newest.txid >= start_txid

    def _upgrade_finalized(self, txid: int) -> None:
        _LOG.info("the rolling upgrade was finalized at txid %d", txid, extra={"txid": txid, "phase": "replay"})
        self._version.doubt(f"the rolling upgrade was finalized at txid {txid}")
        for warning in promote_rollback_images(self._storage.current_folders(), txid):
            _LOG.warning("%s", warning)
