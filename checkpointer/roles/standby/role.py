"""The standby role, which follows the shared edits, makes images, and uploads them to the NameNodes.

Two tasks exclude each other: the tail, which applies new edits, and the checkpoint, which saves the namespace
(`JournalFollower`). The role writes only to this node's directories, and only reads the shared edits. Therefore, a
failover of the NameNodes does not affect the role. Every NameNode that accepts images receives them.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

from checkpointer.roles.checkpoint_end import purge, report_result
from checkpointer.roles.role import Job, Progress
from checkpointer.roles.standby.bootstrap import bootstrap, repair_versions
from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.follower import JournalFollower, StandbyDetails
from checkpointer.roles.standby.image_fetcher import ImageFetcher
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.open_edit_source import open_edit_source
from checkpointer.roles.standby.tailer import TailPace
from checkpointer.roles.stored_role import StoredRole
from checkpointer.set_back.proof import refuse, require_whole
from checkpointer.set_back.provenance import image_md5
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore, revise
from checkpointer.storage.rollback_images import latest_rollback_image, started_at
from checkpointer.storage.usable_images import ImageCopy
from checkpointer.transfer.upload_target import Upload
from checkpointer.transfer.uploader import Uploader, UploadPolicy
from engine.merge import MergeResult, Observer
from engine.txn_runs import ImageId
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import StorageError
from hadoop_common.names import ImageKind
from hadoop_common.port_limits import Refusals
from hadoop_common.transfer_counter import TransferCounter
from hadoop_rpc.errors import RpcError
from journal.operation import EditOp
from journal.segment_file import EditLogSegment
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


class StandbyRole(StoredRole):
    """Role that makes checkpoints from the edits that the active NameNode shares in a directory or a journal
    (`CheckpointRole`).

    A tail job applies new edits to a namespace that remains in memory.

    Args:
        config: settings from the cluster's configuration files.
        source: the shared edits; None means the edits in `config`.
        clock: monotonic seconds, for the times of the next offer of an image and the next roll request.
        jitter: numbers from 0 to 1 that spread the retries of several standbys.
    """

    name = "standby"

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        source: EditSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._storage = StorageDirectories(
            config.image_directories, permission=config.storage_permission, retries=config.restore_directories
        )
        self._nodes = NameNodes.of(config)
        self._source = source or open_edit_source(config)
        self.counter = TransferCounter()
        self.refusals = Refusals()
        self._uploader = Uploader(
            config.namenode_http_addresses,
            UploadPolicy.of(config),
            accepts_images=self._nodes.accepts_images,
            confirm=self._confirm,
            count=self.counter.add_sent,
            clock=clock,
            jitter=jitter,
        )
        # addresses and txids of fetched images, until the uploading thread reads them
        self._fetched: deque[tuple[str, int]] = deque()
        self._images = ImageFetcher(
            self._storage,
            config,
            count=self.counter.add_received,
            fetched=lambda address, txid: self._fetched.append((address, txid)),
            clock=clock,
        )
        self._follower = JournalFollower(
            config,
            self._source,
            self._storage,
            self._nodes,
            self._images,
            on_start_over=self._forget_offers,
            clock=clock,
        )
        self._clock = clock
        self._pace = self._paced(config)
        # set when our state was set aside, so that the upload of its image stops
        self._started_over = False
        # txid of the rollback image for which a delay was logged, and the reason
        self._postponed: tuple[int, str] | None = None

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def open(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Lock the storage, fetch VERSION and an image into new storage, and repair the leftovers of a killed run.

        Raises:
            StorageError: the storage is in use, is damaged, or does not belong to the journal, or no NameNode sent an
                image.
            CheckpointCancelledError: `cancelled()` became true during the fetch of an image.
        """
        self._storage.lock()
        try:
            repair_versions(self._storage)
            if not self._storage.is_formatted():
                addresses = self._config.namenode_http_addresses
                bootstrap(self._storage, self._source, self._nodes.version_at, self._images, addresses, cancelled)
                self._note_fetched()
            self._source.open(self.storage_info())
            self._storage.clean_leftovers()
            restore(self._storage)
        except BaseException:
            self._source.close()
            self._storage.release()
            raise
        if not self.targets:
            _LOG.warning("no other NameNode is configured; images remain on this host")

    def close(self) -> None:
        """Stop a running tail, and release the namespace and the storage."""
        self._nodes.close()
        self._follower.close()
        self._storage.release()

    def jobs(self) -> list[Job]:
        return [Job("tail", self._pace.period, self._tail_when_due)]

    def reconfigure(self, config: CheckpointConfig) -> None:
        self._config = config
        self._pace = self._paced(config)
        self._storage.retries = config.restore_directories
        self._uploader.policy = UploadPolicy.of(config)
        self._nodes.retries = config.roll_retries
        self._follower.reconfigure(config)

    # ---- contents -----------------------------------------------------------------------------------------

    def segments(self) -> list[EditLogSegment]:
        """Return the segments of the shared directory; an empty list for a journal, which serves its edits without
        this node.

        Raises:
            StorageError: the shared directory cannot be read.
        """
        return self._source.files()

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        for segment in sorted(self._source.present(first, last), key=lambda each: each.first):
            for op in segment.read(first) if segment.first <= last and first <= last else ():
                if op.txid > last:
                    return
                yield op
                first = op.txid + 1

    @property
    def warm_namespace(self) -> WarmNamespace:
        return self._follower.namespace

    # ---- observation ---------------------------------------------------------------------------------------

    def alarms(self) -> list[str]:
        return self._follower.alarms()

    def details(self) -> StandbyDetails:
        return self._follower.details()

    def progress(self) -> Progress:
        """Return our newest image, and the newest transaction that is finalized or that we have applied.

        Raises:
            HdfsError: the storage or the journal cannot be read.
        """
        image = self._usable_image()
        applied = self._follower.applied_txid
        if image is None:
            return Progress(-1, max(applied, self._source.finalized_txid()), None)
        urgent = f"a rolling upgrade waits for fsimage_rollback_{applied}" if self._follower.rollback_due else ""
        newest = max(image.txid, applied, self._source.finalized_txid())
        return Progress(image.txid, newest, image.written_at, urgent)

    # ---- work ----------------------------------------------------------------------------------------------

    def tail(self) -> bool:
        """Follow the edits (`JournalFollower.tail`); return True if a rollback image is due now."""
        if not self._config.standby_checkpoints:
            return False
        return self._follower.tail(may_roll=lambda: not self._uploader.busy)

    def _tail_when_due(self) -> bool:
        pace = self._pace
        if not pace.begin():
            return False
        applied = self._follower.applied_txid
        rollback_due = self.tail()
        pace.end(found=self._follower.applied_txid != applied)
        return rollback_due

    def _paced(self, config: CheckpointConfig) -> TailPace:
        nodes = len(self._source.journal_nodes() or ())
        return TailPace(config.tail_period, config.tail_backoff, nodes=nodes, clock=self._clock)

    def prepare(self) -> None:
        """Drop failed storage directories, but never the last remaining directory; retry dropped directories if
        configured.

        Also find the end of the finalized edits, unless each query of the edit source finds it.

        Raises:
            HdfsError: the end of the edits cannot be found.
        """
        revise(self._storage, restore_dropped=self._config.restore_directories)
        image = self._usable_image()
        if image is not None:
            self._source.update_finalized(image.txid + 1)

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Do nothing, because a job tails the edits."""

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        """Save a new image with all present edits, or the rollback image if it is due, and purge old images.

        Raises:
            CheckpointError, ImageFormatError, JournalError: no image could be made; nothing was written.
        """
        self._storage.require_space()
        result = self._follower.checkpoint(observer)
        report_result(result, self._storage.drop)
        purge(self.image_folders(), [], self._config, rollback=result.rollback)
        return result

    def save_aside(self, observer: Observer) -> list[Path]:
        return self._follower.save_aside(observer)

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        """Offer the pending rollback image of a rolling upgrade, then the newest image, to each NameNode that is due.

        Raises:
            CheckpointCancelledError: `cancelled()` became true.
            StorageError: an image does not belong to the cluster's past, or the check is impossible now. The image was
                not offered.
        """
        self._note_fetched()
        self._started_over = False
        info = self.storage_info()

        def stopped() -> bool:
            return cancelled() or self._started_over

        rollback = latest_rollback_image(self.image_folders()) if self._follower.upgrading else None
        refused: StorageError | None = None
        if rollback is not None and self._is_awaited(rollback):
            kind = ImageKind.ROLLBACK
            try:
                path, txid = rollback.path, rollback.txid
                yield from self._watched(
                    self._uploader.offer(path, txid, info, stopped, kind=kind, force=force, began=began)
                )
            except StorageError as error:
                # Offer the newest image in any case.
                refused = error
        image = self._storage.latest_image()
        yield from self._watched(self._uploader.offer(image.path, image.txid, info, stopped, force=force, began=began))
        if refused is not None:
            raise refused

    def _is_awaited(self, rollback: ImageCopy) -> bool:
        """Return whether the active NameNode is in the rolling upgrade for which the rollback image was made."""
        try:
            upgrade = self._nodes.rolling_upgrade()
        except RpcError as error:
            # Each poll repeats the query until a NameNode answers.
            postponed = (rollback.txid, str(error))
            level = logging.DEBUG if self._postponed == postponed else logging.WARNING
            _LOG.log(level, "the rollback image at txid %d will be offered later: %s", *postponed)
            self._postponed = postponed
            return False
        self._postponed = None
        if upgrade is None or upgrade.finalized:
            return False
        return started_at(rollback.path) == upgrade.start_time

    def _confirm(self, image: Path, txid: int) -> None:
        """Check immediately before an upload that an image belongs to the cluster's present past.

        Raises:
            StorageError: the image does not belong to that past, or is damaged.
            TransferError: the check cannot be completed now.
        """
        self._storage.refuse_unfinished()
        verdict = self._follower.past.confirm(ImageId(txid, image_md5(image)))
        if verdict.holds:
            return
        if verdict.lost:
            require_whole(image, txid)
        # The next tail handles the verdict.
        self._follower.past.doubt()
        refuse(verdict, txid, self._source.location)

    def _forget_offers(self) -> None:
        self._started_over = True
        self._uploader.forget()

    def _watched(self, uploads: Iterator[Upload]) -> Iterator[Upload]:
        """Yield the results; if a NameNode forbids an upload, require a check of our VERSION, because the NameNode may
        have been upgraded.
        """
        for upload in uploads:
            if upload.status == HTTPStatus.FORBIDDEN:
                self._follower.doubt_version(f"{upload.address} refused an image")
            yield upload

    def _note_fetched(self) -> None:
        """Record that the NameNodes already have the images that they sent."""
        while self._fetched:
            self._uploader.holds(*self._fetched.popleft())
