"""A backup node's checkpoints: the NameNode begins a segment, all before it becomes an image, and it gets that."""

from __future__ import annotations

import logging
from collections.abc import Callable

from checkpointer.backup.ending import CheckpointEnd
from checkpointer.backup.folders import FailedFolders
from checkpointer.backup.follower import Follower
from checkpointer.backup.keeper import StepKeeper
from checkpointer.backup.namenode_link import NamenodeLink
from checkpointer.backup.receiver import JournalReceiver
from checkpointer.config import CheckpointConfig
from checkpointer.errors import RoleGaveUpError
from checkpointer.history import lacks_image
from checkpointer.observer import Observer
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.lookup import ImageCopy
from checkpointer.storage.retention import enforce_retention
from checkpointer.warm import MergeResult, WarmNamespace
from hadoop_rpc.errors import RpcError
from hadoop_rpc.namenode_protocol import CheckpointSignature

__all__ = ["BackupCheckpoints"]

_LOG = logging.getLogger(__name__)


class BackupCheckpoints:
    """Makes one checkpoint at a time; who calls sees to it that nobody else works on namespace and storage.

    Args:
        failed: told of directories that did not take an image.
        streaming: False where no stream of edits comes, so that all of them are fetched.
    """

    def __init__(
        self,
        storage: StorageDirectories,
        namespace: WarmNamespace,
        link: NamenodeLink,
        receiver: JournalReceiver,
        follower: Follower,
        keeper: StepKeeper,
        failed: FailedFolders,
        *,
        streaming: bool,
    ) -> None:
        self._storage = storage
        self._namespace = namespace
        self._link = link
        self._receiver = receiver
        self._follower = follower
        self._keeper = keeper
        self._failed = failed
        self._streaming = streaming
        self._ending = CheckpointEnd()
        # The image that this process made of what this NameNode had; others may be of a past that it has lost.
        self._made_txid = -1

    def make(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        """Let the NameNode begin a segment, and make an image of all before it.

        Raises:
            RoleGaveUpError: the NameNode wants this node to stop.
            HdfsError: nothing was written.
        """
        if not self._link.registered:
            self._link.register(self._storage.storage_info())
        signature = self._start()
        try:
            if not self._receiver.take_namespace() and self._streaming:
                self._link.registered = False
            self._keeper.adopt(signature)
            if not self._streaming:
                self._keeper.check_past()
            self._follower.reach(signature.current_segment_txid - 1, observer)
            return self._save(observer, config)
        finally:
            self._keeper.resume()

    def _start(self) -> CheckpointSignature:
        self._receiver.freeze_at_next_segment()
        try:
            command = self._link.start_checkpoint(self._storage.storage_info())
        except BaseException:
            self._receiver.thaw()
            self._keeper.resume()
            raise
        if command is None:
            self._receiver.thaw()
            raise RoleGaveUpError(
                f"the NameNode at {self._link.address} wants this backup node to stop",
                hint="Its log says why; mostly the storage here is of a newer upgrade than the NameNode's.",
            )
        self._ending.started(command)
        return command.signature

    def _save(self, observer: Observer, config: CheckpointConfig) -> MergeResult:
        folders = self._storage.current_folders()
        result = self._namespace.save(folders, observer=observer)
        self._made_txid = result.txid
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

    # ---- what the NameNode gets ----------------------------------------------------------------------------

    def offers(self, image: ImageCopy, settled_txid: int, holds: Callable[[int], None]) -> bool:
        """Whether `image` is to be offered; `holds` is called with its txid where the NameNode does not need it.

        Args:
            settled_txid: newest image that it is known to need no more.

        Raises:
            StorageError: the image is of a past that the NameNode has lost.
        """
        if image.txid <= settled_txid:
            return True
        try:
            lacking = lacks_image(
                image.txid, self._link.newest_image_txid, self._link.manifest, f"the NameNode at {self._link.address}"
            )
        except RpcError as error:
            _LOG.info("whether the NameNode needs the image at txid %d is not known: %s", image.txid, error)
            # One that lay here before may be of a past that the NameNode has lost.
            return image.txid == self._made_txid
        if not (lacking and self._ending.wants_image):
            holds(image.txid)
        return True

    def end(self, settled_txid: int) -> None:
        """End the checkpoint at the NameNode, once it has the image up to `settled_txid` that it waits for."""
        self._ending.end(self._link, self._storage.storage_info(), settled_txid)
