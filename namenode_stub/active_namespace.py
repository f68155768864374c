"""The live namespace of an active NameNode: operations by kind over one edit log, with simpler forms for HTTP."""

from __future__ import annotations

from engine.loaded_image import LoadedImage
from journal.edit_log_writer import EditLogWriter
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.fail_stop import FailStop
from namenode_stub.file_status import FileStatus, file_status, listing, walk
from namenode_stub.names.attributes import Attributes
from namenode_stub.names.caching import Caching
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.directories import TreeOperations
from namenode_stub.names.files import Files
from namenode_stub.names.new_inode import CreateModes
from namenode_stub.names.paths import existing
from namenode_stub.names.snapshot_diff import SnapshotDiffs
from namenode_stub.names.snapshot_operations import SnapshotOperations
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import OperationRefusedError

__all__ = ["ActiveNamespace", "OperationRefusedError"]


class ActiveNamespace:
    """Thread-safe client operations on the namespace of an active NameNode.

    The attributes provide the operations of ClientProtocol; the methods are simpler forms of some of them for the HTTP
    API.

    Args:
        loaded: the namespace, up to date, with its base image; only this object changes it from now on.
        log: writer whose next transaction id follows the namespace's last transaction id.
        layout_version: layout of the log's segments.
        fail_stop: shared with other parts that may end the service.
        streams: further receivers of the edits.
        list_limit: maximum number of children in one page of a listing (dfs.ls.limit).
        min_block_size: minimum block size of a new file, in bytes (dfs.namenode.fs-limits.min-block-size).

    Raises (every operation):
        OperationRefusedError: the namespace does not allow the operation; nothing changed.
        NotServingError: `fail_stop` tripped, now or earlier; the client receives no acknowledgement of the change.
    """

    def __init__(
        self,
        loaded: LoadedImage,
        log: EditLogWriter,
        layout_version: int,
        fail_stop: FailStop,
        streams: BackupStreams,
        *,
        list_limit: int,
        min_block_size: int,
    ) -> None:
        self.transactions = Transactions(loaded, log, layout_version, fail_stop, streams, list_limit)
        self.directories = TreeOperations(self.transactions)
        self.files = Files(self.transactions, min_block_size)
        self.attributes = Attributes(self.transactions)
        self.snapshots = SnapshotOperations(self.transactions)
        self.caching = Caching(self.transactions)
        self.snapshot_diffs = SnapshotDiffs(self.transactions)
        self.storage_policies = self.files.storage_policies
        self.erasure_coding = self.files.erasure_coding

    # ---- changes -------------------------------------------------------------------------------------------

    def mkdirs(self, path: str, *, mode: int = 0o755, user: str = "hdfs", group: str = "supergroup") -> bool:
        """Create a directory and its missing parents; return False if it already exists."""
        return self.directories.mkdirs(path, CreateModes(mode), ClientCall(user, group))

    def create(
        self,
        path: str,
        *,
        mode: int = 0o644,
        user: str = "hdfs",
        group: str = "supergroup",
        replication: int = 3,
        overwrite: bool = False,
        client: str = "DFSClient_stub",
    ) -> None:
        """Open a new file for writing."""
        caller = ClientCall(user, group)
        self.files.create(path, CreateModes(mode), caller, holder=client, replication=replication, overwrite=overwrite)

    def rename(self, src: str, dst: str, *, overwrite: bool = False) -> None:
        self.directories.rename(src, dst, overwrite=overwrite)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Delete a file or directory; return False if it does not exist."""
        return self.directories.delete(path, recursive=recursive)

    # ---- views ---------------------------------------------------------------------------------------------

    def status(self, path: str) -> FileStatus:
        with self.transactions.view() as namespace:
            return file_status(namespace, existing(namespace, path))

    def listing(self, path: str) -> list[FileStatus]:
        """Return the children of a directory by name, or the file itself."""
        with self.transactions.view() as namespace:
            return listing(namespace, existing(namespace, path))

    def walk(self) -> list[FileStatus]:
        """Return every inode, parents first and siblings by name, to compare namespaces.

        The method holds the lock only while it makes the list.
        """
        with self.transactions.view() as namespace:
            return walk(namespace, existing(namespace, "/"))
