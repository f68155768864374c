"""From whom a backup node takes edits: of its own namespace and layout, by the newest epoch (BackupNode, fence)."""

from __future__ import annotations

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import RemoteError, UnregisteredNodeError
from hadoop_rpc.journal_protocol import JournalInfo

_INCORRECT_VERSION = "org.apache.hadoop.hdfs.server.common.IncorrectVersionException"
_FENCED = "org.apache.hadoop.hdfs.server.protocol.FencedException"


class WriterCheck:
    """The namespace whose edits are taken, and the epoch of who may write them; whoever uses it holds a lock."""

    def __init__(self, info: StorageInfo) -> None:
        self._info = JournalInfo.of(info)
        self._epoch = 0

    def use(self, info: StorageInfo) -> None:
        """Go by a new VERSION."""
        self._info = JournalInfo.of(info)

    def check(self, info: JournalInfo, epoch: int) -> None:
        """Refuse edits that are not of this namespace and epoch.

        Raises:
            RemoteError: they are of another layout, namespace or epoch.
        """
        self.check_info(info)
        if epoch != self._epoch:
            raise RemoteError(f"the writer's epoch is {epoch}, this node takes {self._epoch}", class_name=_FENCED)

    def check_info(self, info: JournalInfo) -> None:
        """Refuse another layout or namespace, as `check` does."""
        ours = self._info
        if info.layout_version != ours.layout_version:
            problem = f"layout version {info.layout_version} of the edits is not {ours.layout_version}"
            raise RemoteError(problem, class_name=_INCORRECT_VERSION)
        if info != ours:
            theirs = f"namespace {info.namespace_id} of cluster {info.cluster_id}"
            raise UnregisteredNodeError(
                f"these are edits of {theirs}, this node backs up {ours.namespace_id} of {ours.cluster_id}"
            )

    def fence(self, epoch: int) -> int:
        """Take edits of a newer epoch only; returns the one before.

        Raises:
            RemoteError: the epoch is not newer.
        """
        if epoch <= self._epoch:
            raise RemoteError(f"epoch {epoch} is not newer than {self._epoch}", class_name=_FENCED)
        before, self._epoch = self._epoch, epoch
        return before
