"""Keeps a namespace in step with the shared edits between checkpoints, and saves it when one is due.

The namespace is not loaded, following, held at a rolling upgrade's begin, or being saved. Who works on it holds one
lock.

- Not loaded: before the first tail, and after any fault that leaves it unsure (an edit that does not fit, another
  VERSION, another past). The next tail loads the newest image.
- Following: each tail asks whether the past is still the cluster's, then applies what there is. A gap puts the past
  in doubt before it is an alarm: segments that are missing may have been purged in another past.
- Held: a rolling upgrade began, and nothing is applied until its rollback image is saved.
- Lost: what is here is not of the cluster's past. It is set aside and the active's image is taken; the same image
  once more only after growing waits.

No image is made of what was not compared (`_assure(deep=True)`), and none is made of nothing new. A fault of a tail
is an alarm until a later one goes well; the namespace stays where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from checkpointer.past.provenance import ProvenanceStore, held_images, image_md5
from checkpointer.past.start_over import LostPast, StartOverLimiter
from checkpointer.past.watch import PastWatch
from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.image_source import ImageSource, OtherImages, gap_alarm
from checkpointer.roles.standby.log_roller import LagWatch, LogRoller
from checkpointer.roles.standby.namenodes import JournalWitness, NameNodes
from checkpointer.roles.standby.tailer import EditTailer
from checkpointer.roles.standby.version import ActiveVersion, VersionAction, VersionWatch, decide_version_action
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from checkpointer.storage.usable_images import ImageCopy
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.loaded_image import next_layout
from engine.merge import MergeResult, Observer, SilentObserver
from engine.txn_runs import ImageId, TxnRecorder
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import explained, told
from hadoop_common.recurring_fault import RecurringFault
from hadoop_common.storage_info import StorageInfo
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from journal.errors import TransactionGapError
from servlets.node_state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_REPORT = "Report this with the daemon's log."
_SLICE_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyDetails(RoleDetails):
    """What a standby tells besides.

    Attributes:
        tailed_at: when edits were last read.
        rolling_upgrade: whether one is in progress; `rollback_image_due`: whether it waits for its image.
        open_segment_fault: why the open segment could not be read, "" where it could or is not to be.
        journal: where edits are read.
        lost_past: the last time that this node started over, None for never.
    """

    tailed_at: float | None
    rolling_upgrade: bool
    rollback_image_due: bool
    open_segment_fault: str
    journal: str
    lost_past: LostPast | None


class JournalFollower:
    """The warm namespace of a standby; tail and checkpoint exclude each other, any thread may look.

    Args:
        source: the shared edits; closed with this.
        storage: where images lie; its lock is held.
        images: where an image comes from when ours does not lead on.
        on_start_over: called when what was here was set aside, and an image of the active taken instead.
        clock: monotonic seconds, for when to ask for a roll.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        source: EditSource,
        storage: StorageDirectories,
        nodes: NameNodes,
        images: ImageSource,
        *,
        on_start_over: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._storage = storage
        self._nodes = nodes
        self._images = images
        self._others = OtherImages(storage, nodes, images)
        self._rebootstrap = config.rebootstrap
        recorder = TxnRecorder()
        self._warm = WarmNamespace(config.merge_settings, recorder=recorder)
        self.past = PastWatch(
            recorder,
            ProvenanceStore(storage.current_folders),
            lambda: held_images(storage.current_folders()),
            lambda last: JournalWitness(source, nodes, last),
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
        self._roller = LogRoller(nodes, config.log_roll_period, location=source.location, clock=clock)
        self._lag = LagWatch(config.lag_alarm, clock=clock)
        self._version = VersionWatch(nodes, storage.storage_info, self._rolling, self._take_over, clock=clock)
        # Held by the thread that reads or changes the namespace.
        self._working = threading.Lock()
        self._closing = threading.Event()
        self._fault = RecurringFault(_LOG, "edits are followed again", unit="tails", clock=clock)
        self._open_fault = RecurringFault(_LOG, "the open segment is read again", unit="tails", clock=clock)
        self._tailed_at: float | None = None

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Go by new settings from the next step on."""
        self._tailer.in_progress = config.tail_in_progress
        self._roller.period, self._lag.threshold = config.log_roll_period, config.lag_alarm
        self._images.config, self._rebootstrap = config, config.rebootstrap
        self._warm.settings = replace(config.merge_settings, layout_version=self._warm.settings.layout_version)

    def close(self) -> None:
        """End a tail that runs at a safe point, and let go of the edits and of the namespace."""
        self._closing.set()
        self._source.close()
        with self._working:
            self._warm.close()

    # ---- observation ---------------------------------------------------------------------------------------

    @property
    def applied_txid(self) -> int:
        """Newest transaction in the namespace, -1 before the first load."""
        return self._tailer.applied_txid

    @property
    def rollback_due(self) -> bool:
        """Whether a rolling upgrade waits for an image of the namespace as it is."""
        return self._tailer.rollback_due

    @property
    def upgrading(self) -> bool:
        """Whether a rolling upgrade was in progress at `applied_txid`."""
        return self._tailer.upgrading

    def alarms(self) -> list[str]:
        """Why edits are not followed, none come although there are some, or our VERSION is not the cluster's."""
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
            tailing_lag_seconds=None if tailed_at is None else round(max(0.0, time.time() - tailed_at), 3),
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
        """Apply new edits, and ask for a roll where none come; True where a rollback image has to be made at once.

        A fault is an alarm until a later tail goes well. While a checkpoint runs there is nothing to do.

        Args:
            may_roll: asked before a roll; an active that takes an image at the same time is slow in both.
        """
        self._version.check()
        followed = self._follow()
        # Not under the lock: a NameNode that does not answer must not hold up a checkpoint.
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
        """See whether edits wait for too long; where they cannot be followed NameNodes tell that there are some."""
        if not followed:
            self._roller.look(self.applied_txid)
        active = self._roller.active_txid if self._roller.period > 0 else -1
        self._lag.note(self.applied_txid, source=self._tailer.source_txid, active=active)

    def doubt_version(self, reason: str) -> None:
        """Have the next tail ask the active whether our VERSION is still its own."""
        self._version.doubt(reason)

    def checkpoint(self, observer: Observer) -> MergeResult:
        """Catch up and save: the rollback image where one is due, else everything there is.

        Raises:
            CheckpointError, ImageFormatError, JournalError: nothing was written.
        """
        with self._exclusive(observer.cancelled):
            self._catch_up(observer)
            if self._assure(observer, deep=True):
                self._catch_up(observer)
                self._assure(observer, deep=True)
            rollback = self._tailer.rollback_due
            newest = self._storage.latest_image().txid
            if not rollback and self._warm.last_txid <= newest:
                raise CheckpointError(f"no finalized edits after txid {newest}", hint="Roll the active's edit log.")
            result = self._warm.save(self._storage.current_folders(), rollback=rollback, observer=observer)
            self.past.saved(ImageId(result.txid, result.saved.md5))
            if rollback:
                self._tailer.rollback_made()
        return result

    def _follow(self) -> bool | None:
        """Whether edits could be read and applied, as far as there are any; None where it was not tried, or ended."""
        if not self._working.acquire(blocking=False):
            return None
        observer = _ClosingObserver(self._closing)
        try:
            try:
                self._catch_up(observer)
            except TransactionGapError as gap:
                if not self._rebootstrap:
                    raise
                self._others.bridge(gap, self._closing.is_set)
                self._catch_up(observer)
        except CheckpointCancelledError:
            return None
        except (HdfsError, OSError) as fault:
            if self._closing.is_set():
                return None
            self._raise_alarm(self._explained(fault), fault)
            return False
        except Exception as fault:
            self._raise_alarm(f"edits are not followed: {type(fault).__name__}: {fault}", fault)
            return False
        finally:
            self._working.release()
        return True

    def _catch_up(self, observer: Observer) -> None:
        if not self._storage.is_formatted():
            self._start_over("there is no image here", observer)
        # An image that is ahead of the namespace was put there by someone else.
        elif not self._warm.usable or self._storage.latest_image().txid > self._warm.last_txid:
            self._load(observer)
        self._assure(observer, deep=False)
        try:
            self._tailer.catch_up(observer)
        except TransactionGapError:
            # Where the past is another one by now, the segments between were written and purged there.
            self.past.doubt()
            if not self._assure(observer, deep=False):
                raise
            self._tailer.catch_up(observer)
        self._tailed_at = time.time()
        self._fault.ended()
        if fault := self._tailer.open_fault:
            text = f"the open segment is left for later: {fault}"
            self._open_fault.occurred(text, level=logging.WARNING, txid=self.applied_txid)
        else:
            # It may have been finalized instead of read.
            self._open_fault.forget()

    def _load(self, observer: Observer) -> None:
        """Load the newest image, in the layout of VERSION where that is newer; where it is damaged, an older one."""
        image = self._storage.verified_image()
        try:
            self._load_image(image, observer)
        except (UnsupportedLayoutError, UnsupportedCodecError):
            raise
        except ImageFormatError as error:
            self._storage.exclude(image, error)
            self._load(observer)

    def _load_image(self, image: ImageCopy, observer: Observer) -> None:
        layout = next_layout(image.path, self._storage.storage_info().layout_version)
        self._warm.settings = replace(self._warm.settings, layout_version=layout)
        self._tailer.load(image, observer)
        self.past.loaded(ImageId(image.txid, image_md5(image.path)))

    # ---- the past ------------------------------------------------------------------------------------------

    def _assure(self, observer: Observer, *, deep: bool) -> bool:
        """Go on only with what is of the cluster's present past; whether this node started over for that.

        Where that cannot be told now, edits are followed all the same: all is compared before an image is made.

        Args:
            deep: whether an image is to be made of it.

        Raises:
            StorageError: it cannot be told, or this node has to start over and cannot.
        """
        began = False
        if not self._nodes.addresses:
            # Nobody gets images of this node.
            return False
        while not (verdict := self.past.check(deep=deep)).holds:
            if not verdict.lost and not deep:
                _LOG.debug("whether the edits are those that were applied is not known: %s", verdict.reason)
                return began
            if verdict.lost and self._storage.exclude_damaged():
                # nothing is concluded from a damaged file
                self._load(observer)
                continue
            if began or not verdict.lost:
                raise StorageError(
                    f"{verdict.reason}: nothing is merged or offered until that is settled",
                    hint="Check that a NameNode is active, and that the shared edits are its own.",
                )
            self._start_over(verdict.cause("the NameNode"), observer)
            began = True
        if not began:
            self._start_over_limiter.reset()
        return began

    def _start_over(self, reason: str, observer: Observer) -> None:
        """Set aside what is here, and take the image of the active, as `hdfs namenode -bootstrapStandby` does.

        Raises:
            StorageError: no NameNode is active, it is of another namespace, or this did not help a short while ago.
            HdfsError: its image cannot be had.
        """
        active = self._nodes.active_version()
        if active is None:
            raise StorageError(
                f"{reason}: this node will start over once a NameNode is active",
                hint="See by their logs and by the failover controllers why no NameNode is active.",
            )
        self._start_over_limiter.check(active.image_txid, reason)
        decide_version_action(
            self._storage.storage_info(), active.info, rolling=True, namenode=f"NameNode {active.address}"
        )
        aside = self._others.start_over(active, observer.cancelled)
        self._start_over_limiter.started_over(active.image_txid)
        self._storage.write_version(active.info)
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
        """Wait for whoever works on the namespace, which may take long when an image is fetched or loaded.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
        """
        while not self._working.acquire(timeout=_SLICE_SECONDS):
            if cancelled():
                raise CheckpointCancelledError("cancelled while edits were followed")
        try:
            yield
        finally:
            self._working.release()

    def _explained(self, fault: Exception) -> str:
        if isinstance(fault, TransactionGapError):
            return gap_alarm(fault, self._source.location, self._nodes.image_txids())
        return f"edits are not followed: {told(fault)}"

    def _raise_alarm(self, text: str, fault: Exception) -> None:
        known = explained(fault)
        hint, bug = (_REPORT, fault) if known is None else (known.hint, None)
        self._fault.occurred(text, hint=hint, bug=bug, txid=self.applied_txid, phase="replay")

    def _take_over(self, move: VersionAction, active: ActiveVersion) -> None:
        with self._exclusive(self._closing.is_set):
            aside = self._others.take_over(move, active, self._closing.is_set)
            if move is VersionAction.FETCH:
                self._note_start_over("the NameNode was upgraded, or rolled back", active, aside)
            # The next tail loads the newest image, in the new layout.
            self._warm.close()

    # ---- rolling upgrade -----------------------------------------------------------------------------------

    def _rolling(self, theirs: StorageInfo) -> bool:
        """Whether one goes on while the active has this VERSION: releases that do not tell write VERSION, also that of
        the shared edits, when it is finalized. Where those have none the edits tell, once they are read.
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


class _ClosingObserver(SilentObserver):
    """Ends a tail when the follower is closed."""

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing

    def cancelled(self) -> bool:
        return self._closing.is_set()
