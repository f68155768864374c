"""Checkpoints of a backup node: the NameNode begins a segment, and receives an image with all earlier edits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from checkpointer.errors import RoleGaveUpError, TransferError
from checkpointer.roles.backup.folders import FailedFolders
from checkpointer.roles.backup.follower import BackupFollower
from checkpointer.roles.backup.namenode_link import NamenodeLink, NoBackupNodesError
from checkpointer.roles.backup.receiver import JournalReceiver
from checkpointer.roles.backup.stream_upkeep import StreamUpkeep
from checkpointer.roles.checkpoint_end import purge, report_result
from checkpointer.set_back.proof import DAMAGE_HINT, refuse, require_whole
from checkpointer.set_back.provenance import image_md5
from checkpointer.set_back.watch import PastWatch
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.usable_images import ImageCopy
from engine.observer import Observer
from engine.txn_runs import ImageId
from engine.warm_namespace import MergeResult, WarmNamespace
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.names import image_name
from hadoop_common.recurring_fault import RecurringFault, with_next
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RemoteError, RpcConnectionError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointCommand, CheckpointSignature
from journal.errors import is_damage
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)


class _CheckpointEnd:
    """The NameNode's expectations after the last started checkpoint: an endCheckpoint call, and in most cases an
    image.
    """

    def __init__(self) -> None:
        self._command: CheckpointCommand | None = None
        self._unended = RecurringFault(_LOG, "the NameNode accepts the end of checkpoints again", unit="attempts")

    def started(self, command: CheckpointCommand) -> None:
        """Record a started checkpoint, which replaces an unfinished checkpoint."""
        self._command = command

    @property
    def wants_image(self) -> bool:
        """Whether the NameNode accepts the image; False only if the NameNode has declined it."""
        return self._command is None or self._command.need_to_return_image

    def end(self, link: NamenodeLink, ours: StorageInfo, settled_txid: int) -> None:
        """End the checkpoint at the NameNode if the NameNode has received the expected image.

        If the NameNode is unreachable, a later call retries. A refused call is not retried.
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


@dataclass(eq=False)
class BackupCheckpoints:
    """Checkpoints of a backup node, made one at a time; the caller ensures that no other thread uses the namespace or
    the storage.

    Args:
        failed: collector of directories that could not store an image.
    """

    storage: StorageDirectories
    namespace: WarmNamespace
    link: NamenodeLink
    receiver: JournalReceiver
    follower: BackupFollower
    upkeep: StreamUpkeep
    failed: FailedFolders
    past: PastWatch
    _ending: _CheckpointEnd = field(init=False, default_factory=_CheckpointEnd)

    def make(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        """Request that the NameNode begin a segment, and make an image with all earlier edits.

        Raises:
            RoleGaveUpError: the NameNode requires this node to stop.
            HdfsError: no image could be made; nothing was written.
        """
        if not self.link.registered:
            try:
                self.link.register(self.storage.storage_info())
            except NoBackupNodesError as error:
                self.upkeep.note(error)
            self.upkeep.take_version()
        signature = self._start()
        try:
            if not self.receiver.take_namespace():
                self.link.registered = False
            self.upkeep.adopt(signature)
            self.upkeep.check_past()
            target = signature.current_segment_txid - 1
            self._reach(target, observer)
            self._assure(target, observer)
            return self._save(observer, config)
        finally:
            self.upkeep.resume()

    def _start(self) -> CheckpointSignature:
        self.receiver.freeze_at_next_segment()
        try:
            if not self.link.registered:
                # A NameNode that cannot register us cannot start a checkpoint for us either.
                return self.link.roll()
            command = self.link.start_checkpoint(self.storage.storage_info())
        except BaseException as error:
            if isinstance(error, RemoteError):
                # The NameNode was restarted or rolled back, and rejects our registration.
                self.link.registered = False
            self.receiver.thaw()
            self.upkeep.resume()
            raise
        if command is None:
            self.receiver.thaw()
            raise RoleGaveUpError(
                f"the NameNode at {self.link.address} requires this backup node to stop",
                hint="See the NameNode's log; usually this node's storage belongs to a newer upgrade than the "
                "NameNode's.",
            )
        self._ending.started(command)
        return command.signature

    def _reach(self, target: int, observer: Observer) -> None:
        """Apply all edits up to `target`. If the NameNode's copy of a segment is damaged, continue from the NameNode's
        image if this image makes the segment unnecessary.

        Raises:
            HdfsError: see `BackupFollower.reach`.
        """
        reach = partial(self.follower.reach, target, observer)
        try:
            self.upkeep.on_intact_image(reach)
        except TransferError as fault:
            cause, applied = fault.__cause__, self.namespace.last_txid
            if cause is None or not is_damage(cause) or not self.namespace.usable:
                raise
            newest = self.link.newest_image_txid()
            if newest <= applied:
                raise
            verdict = self.past.check(deep=True)
            if verdict.lost:
                self.upkeep.start_over(verdict)
            elif verdict.holds:
                _LOG.warning("%s; the NameNode's image at txid %d replaces this node's namespace", fault, newest)
                self.follower.replace_namespace(observer)
            else:
                raise
            reach()

    def _assure(self, target: int, observer: Observer) -> None:
        """Check that the namespace belongs to the NameNode's present past; otherwise start over from the NameNode's
        image.

        Raises:
            StorageError: the check cannot be completed now.
            HdfsError: see `BackupFollower.reach`.
        """
        verdict = self.past.check(deep=True)
        started_over = verdict.lost
        if started_over:
            self.upkeep.start_over(verdict)
        recovered = verdict.holds and self._is_superseded()
        if recovered:
            self.follower.replace_namespace(observer)
        if started_over or recovered:
            self.follower.reach(target, observer)
            verdict = self.past.check(deep=True)
        if not verdict.holds:
            raise StorageError(
                f"{verdict.reason}; no image is made",
                hint=DAMAGE_HINT if verdict.damaged else "The daemon retries; check that the NameNode is up.",
            )
        if not started_over:
            self.upkeep.reset_start_over_limit()

    def _is_superseded(self) -> bool:
        """Return whether the NameNode may have been restarted after our newest image, and has a newer image, or another
        image at the same txid.

        `namenode -recover` saves an image without transactions that could not be read or applied, but the segments
        still contain these transactions. Therefore, only the NameNode's image shows its namespace.
        """
        newest = self.link.newest_image_txid()
        if not self.past.is_superseded(self._own_image(newest), newest):
            return False
        _LOG.info("the NameNode may have been restarted; its image at txid %d replaces this node's namespace", newest)
        return True

    def _own_image(self, txid: int) -> ImageId:
        """Return our image at `txid` even if it cannot be loaded, or else our newest usable image."""
        for folder in self.storage.current_folders():
            with suppress(HdfsError):
                return ImageId(txid, image_md5(folder / image_name(txid)))
        ours = self.storage.latest_image()
        return ImageId(ours.txid, image_md5(ours.path))

    def _save(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        folders = self.storage.current_folders()
        result = self.namespace.save(folders, observer=observer)
        self.past.saved(ImageId(result.txid, result.saved.md5))
        report_result(result, self.failed.note)
        purge(folders, folders, config)
        self.namespace.rebase()
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
            newest = self.link.newest_image_txid()
        except RpcError as error:
            # each poll asks again, and the upkeep of the stream reports a NameNode that does not answer
            _LOG.debug("it is not known whether the NameNode needs the image at txid %d: %s", image.txid, error)
            return
        if newest >= image.txid or not self._ending.wants_image:
            holds(image.txid)

    def confirm(self, image: Path, txid: int) -> None:
        """Check immediately before an upload that an image belongs to the NameNode's present past.

        Raises:
            StorageError: the image does not belong to that past; the next checkpoint starts over.
            TransferError: the check cannot be completed now.
        """
        verdict = self.past.confirm(ImageId(txid, image_md5(image)))
        if not verdict.holds:
            if verdict.lost:
                require_whole(image, txid)
            self.past.doubt()
            refuse(verdict, txid, self.link.address)

    def end(self, settled_txid: int) -> None:
        """End the checkpoint at the NameNode if the images up to `settled_txid` include the expected image."""
        self._ending.end(self.link, self.storage.storage_info(), settled_txid)
