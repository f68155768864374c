"""Checkpoints of a backup node: the NameNode begins a segment, and gets an image of all earlier edits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from checkpointer.errors import RoleGaveUpError
from checkpointer.past.proof import refuse, require_whole
from checkpointer.past.provenance import image_md5
from checkpointer.past.watch import PastWatch
from checkpointer.roles.backup.folders import FailedFolders
from checkpointer.roles.backup.follower import BackupFollower
from checkpointer.roles.backup.namenode_link import NamenodeLink, NoBackupNodesError
from checkpointer.roles.backup.receiver import JournalReceiver
from checkpointer.roles.backup.stream_upkeep import StreamUpkeep
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.retention import enforce_retention
from checkpointer.storage.usable_images import ImageCopy
from engine.observer import Observer
from engine.txn_runs import ImageId
from engine.warm_namespace import MergeResult, WarmNamespace
from hadoop_common.errors import StorageError
from hadoop_common.recurring_fault import RecurringFault, with_next
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RemoteError, RpcConnectionError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointCommand, CheckpointSignature
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


class _CheckpointEnd:
    """What the last started checkpoint still owes the NameNode: the image, if it wants one, and endCheckpoint."""

    def __init__(self) -> None:
        self._command: CheckpointCommand | None = None
        self._unended = RecurringFault(_LOG, "the NameNode accepts the end of checkpoints again", unit="attempts")

    def started(self, command: CheckpointCommand) -> None:
        """Note a started checkpoint, which replaces an unfinished one."""
        self._command = command

    @property
    def wants_image(self) -> bool:
        """False if the NameNode reported that it does not accept the image."""
        return self._command is None or self._command.need_to_return_image

    def end(self, link: NamenodeLink, ours: StorageInfo, settled_txid: int) -> None:
        """End the checkpoint at the NameNode if it has the image that it waits for.

        An unreachable NameNode is retried later. After a refusal nothing is left to do.
        """
        if self._command is None or settled_txid < self._command.signature.current_segment_txid - 1:
            return
        try:
            link.end_checkpoint(ours, self._command.signature)
        except RpcConnectionError as error:
            self._unended.occurred(
                f"the NameNode has not accepted the end of the checkpoint yet: {error}", level=logging.WARNING
            )
            return
        except RpcError as error:
            _LOG.error("the NameNode refuses to end the checkpoint: %s", with_next(error))
            self._unended.forget()
        else:
            self._unended.ended()
        self._command = None


class BackupCheckpoints:
    """Makes one checkpoint at a time; the caller makes sure that nobody else works on namespace and storage.

    Args:
        failed: collects directories that did not take an image.
        streaming: False if no stream of edits arrives, so that all edits are fetched.
    """

    def __init__(
        self,
        storage: StorageDirectories,
        namespace: WarmNamespace,
        link: NamenodeLink,
        receiver: JournalReceiver,
        follower: BackupFollower,
        upkeep: StreamUpkeep,
        failed: FailedFolders,
        past: PastWatch,
        *,
        streaming: bool,
    ) -> None:
        self._storage = storage
        self._namespace = namespace
        self._link = link
        self._receiver = receiver
        self._follower = follower
        self._upkeep = upkeep
        self._failed = failed
        self._past = past
        self._streaming = streaming
        self._ending = _CheckpointEnd()

    def make(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        """Let the NameNode begin a segment, and make an image of all earlier edits.

        Raises:
            RoleGaveUpError: the NameNode wants this node to stop.
            HdfsError: nothing was written.
        """
        if not self._link.registered:
            try:
                self._link.register(self._storage.storage_info())
            except NoBackupNodesError as error:
                self._upkeep.note(error)
            self._upkeep.take_version()
        signature = self._start()
        try:
            if not self._receiver.take_namespace() and self._streaming:
                self._link.registered = False
            self._upkeep.adopt(signature)
            self._upkeep.check_past()
            self._follower.reach(signature.current_segment_txid - 1, observer)
            self._assure(signature.current_segment_txid - 1, observer)
            return self._save(observer, config)
        finally:
            self._upkeep.resume()

    def _start(self) -> CheckpointSignature:
        self._receiver.freeze_at_next_segment()
        try:
            if not self._link.registered:
                # A NameNode that cannot register us cannot start a checkpoint for us either.
                return self._link.roll()
            command = self._link.start_checkpoint(self._storage.storage_info())
        except BaseException as error:
            if isinstance(error, RemoteError):
                # The NameNode was restarted or rolled back, and rejects our registration.
                self._link.registered = False
            self._receiver.thaw()
            self._upkeep.resume()
            raise
        if command is None:
            self._receiver.thaw()
            raise RoleGaveUpError(
                f"the NameNode at {self._link.address} wants this backup node to stop",
                hint="See the NameNode's log; usually the storage here belongs to a newer upgrade than the NameNode's.",
            )
        self._ending.started(command)
        return command.signature

    def _assure(self, target: int, observer: Observer) -> None:
        """Check that the namespace belongs to the NameNode's present past; start over from its image if not.

        Raises:
            StorageError: that is not known now.
            HdfsError: as `BackupFollower.reach`.
        """
        verdict = self._past.check(deep=True)
        started_over = verdict.lost
        if started_over:
            self._upkeep.start_over(verdict)
            self._follower.reach(target, observer)
            verdict = self._past.check(deep=True)
        if not verdict.holds:
            raise StorageError(
                f"{verdict.reason}: no image is made", hint="It will be retried; check that the NameNode is up."
            )
        if not started_over:
            self._upkeep.reset_start_over_limit()

    def _save(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        folders = self._storage.current_folders()
        result = self._namespace.save(folders, observer=observer)
        self._past.saved(ImageId(result.txid, result.saved.md5))
        for warning in result.warnings:
            _LOG.error("fsimage_%019d: %s", result.txid, warning)
        for failure in result.saved.failures:
            self._failed.note(failure.folder, failure.reason)
        for warning in enforce_retention(
            folders,
            folders,
            keep=config.images_retained,
            extra_edits=config.extra_edits_retained,
            max_segments=config.max_extra_segments,
        ):
            _LOG.warning("%s", warning)
        return result

    # ---- upload --------------------------------------------------------------------------------------------

    def settle_if_unneeded(self, image: ImageCopy, settled_txid: int, holds: Callable[[int], None]) -> None:
        """Call `holds` with the txid of `image` if the NameNode does not need that image.

        Args:
            settled_txid: newest image that the NameNode is known not to need.
        """
        if image.txid <= settled_txid:
            return
        try:
            newest = self._link.newest_image_txid()
        except RpcError as error:
            _LOG.info("it is not known whether the NameNode needs the image at txid %d: %s", image.txid, error)
            return
        if newest >= image.txid or not self._ending.wants_image:
            holds(image.txid)

    def confirm(self, image: Path, txid: int) -> None:
        """Check right before an upload that an image belongs to the NameNode's present past.

        Raises:
            StorageError: the image does not; the next checkpoint starts over.
            TransferError: that is not known now.
        """
        verdict = self._past.confirm(ImageId(txid, image_md5(image)))
        if not verdict.holds:
            if verdict.lost:
                require_whole(image, txid)
            self._past.doubt()
            refuse(verdict, txid, self._link.address)

    def end(self, settled_txid: int) -> None:
        """End the checkpoint at the NameNode once it has the image up to `settled_txid` that it waits for."""
        self._ending.end(self._link, self._storage.storage_info(), settled_txid)
