"""What a checkpoint still owes to the NameNode once it is saved: the image, if it wants it, and endCheckpoint."""

from __future__ import annotations

import logging

from checkpointer.roles.backup.namenode_link import NamenodeLink
from hadoop_common.storage_info import StorageInfo
from hadoop_common.trouble import Trouble, with_next
from hadoop_rpc.errors import RpcConnectionError, RpcError
from hadoop_rpc.namenode_protocol import CheckpointCommand

__all__ = ["CheckpointEnd"]

_LOG = logging.getLogger(__name__)


class CheckpointEnd:
    """The checkpoint that was started last; one thread at a time."""

    def __init__(self) -> None:
        self._command: CheckpointCommand | None = None
        self._unended = Trouble(_LOG, "the NameNode takes the end of checkpoints again", unit="attempts")

    def started(self, command: CheckpointCommand) -> None:
        """A checkpoint was started; one that was not ended before needs no end any more."""
        self._command = command

    @property
    def wants_image(self) -> bool:
        """False where the NameNode said that it does not take the image."""
        return self._command is None or self._command.need_to_return_image

    def end(self, link: NamenodeLink, ours: StorageInfo, settled_txid: int) -> None:
        """Tell the NameNode, if it has the image up to `settled_txid` and that is what it waits for.

        While it cannot be reached that is left for the next time; where it refuses nothing is left to do.
        """
        if self._command is None or settled_txid < self._command.signature.current_segment_txid - 1:
            return
        try:
            link.end_checkpoint(ours, self._command.signature)
        except RpcConnectionError as error:
            self._unended.met(f"the checkpoint is not ended at the NameNode yet: {error}", level=logging.WARNING)
            return
        except RpcError as error:
            _LOG.error("the NameNode does not end the checkpoint: %s", with_next(error))
        self._unended.over()
        self._command = None
