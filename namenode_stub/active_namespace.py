"""The live namespace: each change is checked, applied and logged under one lock, and durable before it returns."""

from __future__ import annotations

import threading
import time

from checkpointer.errors import CheckpointError, NamespaceError, ReplayError
from checkpointer.namespace import ROOT_ROW, Namespace
from checkpointer.replay import apply
from image_format.inode_table import DIRECTORY, NO_ROW
from journal import ops
from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError, OpEncodingError
from namenode_stub.fail_stop import FailStop
from namenode_stub.file_status import FileStatus, file_status, listing, permission_status, walk

__all__ = ["ActiveNamespace", "OperationRefusedError"]

_BLOCK_SIZE = 128 << 20
_MAX_MODE = 0o1777
_MAX_REPLICATION = 512


class OperationRefusedError(CheckpointError):
    """A client asked for something the namespace does not allow; nothing was logged."""


class ActiveNamespace:
    """Client operations on a namespace, as an active NameNode serves them; any thread may call them.

    A change is encoded first, then applied, then logged, so that one that is refused leaves no trace. Where a fault
    comes after the namespace began to change, `fail_stop` trips and nothing is served any more: what is in memory
    may then differ from the log, and the log is right.

    Args:
        namespace: loaded and up to date; this object changes it from now on.
        log: writer whose next txid follows the namespace's last one.
        layout_version: layout of the log's segments.
        fail_stop: shared with whoever else may find that service has to end.

    Raises (every operation):
        OperationRefusedError: the namespace does not allow it; nothing changed.
        NotServingError: `fail_stop` tripped, now or earlier; the change is not acknowledged.
    """

    def __init__(
        self, namespace: Namespace, log: EditLogWriter, layout_version: int, fail_stop: FailStop | None = None
    ) -> None:
        self._namespace = namespace
        self._log = log
        self._layout_version = layout_version
        self._fail_stop = fail_stop or FailStop()
        self._lock = threading.RLock()

    @property
    def log(self) -> EditLogWriter:
        return self._log

    @property
    def last_txid(self) -> int:
        with self._lock:
            return self._namespace.last_txid

    # ---- changes -------------------------------------------------------------------------------------------

    def _perform(self, op: ops.EditOp) -> int:
        """Encode, apply, log: an operation that does not fit is refused before a byte of it is written."""
        self._fail_stop.check()
        op.txid = self._log.last_txid + 1
        try:
            encode_op(op, self._layout_version)
        except OpEncodingError as error:
            raise OperationRefusedError(error.message, hint=error.hint) from error
        try:
            apply(self._namespace, op)
        except Exception as error:
            # Handlers check what an operation needs before they change anything; any other fault may come after.
            if isinstance(error, ReplayError) and isinstance(error.__cause__, NamespaceError):
                raise OperationRefusedError(error.message, hint=error.hint) from error
            raise self._fail_stop.trip(f"{op.name} at txid {op.txid} may be applied in part: {error}") from error
        try:
            return self._log.write(op)
        except Exception as error:
            raise self._fail_stop.trip(f"{op.name} at txid {op.txid} was not logged: {error}") from error

    def _commit(self, txid: int) -> None:
        """Wait for the disk outside the lock, so that others go on meanwhile."""
        try:
            self._log.sync(txid)
        except JournalError as error:
            raise self._fail_stop.trip(f"the edit log failed: {error.message}") from error
        self._fail_stop.check()

    def _permissions(self, mode: int, user: str, group: str) -> ops.PermissionStatus:
        _check_mode(mode)
        return ops.PermissionStatus(user, group, mode)

    def _next_inode_id(self) -> int:
        return self._namespace.last_inode_id + 1

    def _existing(self, path: str) -> int:
        row = self._find(path)
        if row == NO_ROW:
            raise OperationRefusedError(f"{path} does not exist")
        return row

    def _find(self, path: str) -> int:
        self._fail_stop.check()
        if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
            raise OperationRefusedError(f"{path!a} is not a normalized absolute path")
        if any(part in (".", "..") for part in path.split("/")):
            raise OperationRefusedError(f"{path!a} has a component that is no name")
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise OperationRefusedError(f"{path!a} has a lone surrogate, which a name cannot hold") from error
        return self._namespace.tree.find(path)

    def _is_directory(self, row: int) -> bool:
        return bool(self._namespace.table.kind[row] == DIRECTORY)

    def mkdirs(self, path: str, *, mode: int = 0o755, user: str = "hdfs", group: str = "supergroup") -> bool:
        """Make a directory and those above it; False where it exists already."""
        with self._lock:
            # That it exists is an answer too, so it has to be as durable as if it were made now.
            txid = self._log.last_txid
            missing = self._missing(path)
            permissions = self._permissions(mode, user, group)
            for prefix in missing:
                txid = self._perform(
                    ops.MkdirOp(inode_id=self._next_inode_id(), path=prefix, timestamp=_now(), permissions=permissions)
                )
        self._commit(txid)
        return bool(missing)

    def _missing(self, path: str) -> list[str]:
        """Directories to make for `path`, from the top."""
        missing: list[str] = []
        while (row := self._find(path)) == NO_ROW:
            missing.append(path)
            path = path.rpartition("/")[0] or "/"
        if not self._is_directory(row):
            raise OperationRefusedError(f"{path} is a file")
        return missing[::-1]

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
        """Open a new file for write."""
        _check_replication(replication)
        with self._lock:
            row = self._find(path)
            if row != NO_ROW and (not overwrite or self._is_directory(row)):
                raise OperationRefusedError(f"{path} exists")
            now = _now()
            txid = self._perform(
                ops.AddOp(
                    inode_id=self._next_inode_id(),
                    path=path,
                    replication=replication,
                    mtime=now,
                    atime=now,
                    block_size=_BLOCK_SIZE,
                    permissions=self._permissions(mode, user, group),
                    client_name=client,
                    client_machine="127.0.0.1",
                    overwrite=overwrite,
                )
            )
        self._commit(txid)

    def add_block(self, path: str) -> int:
        """Allocate the next block of an open file, whose last one must be full; returns the block's id."""
        with self._lock:
            row = self._existing(path)
            if not self._namespace.table.is_under_construction(row):
                raise OperationRefusedError(f"{path} is not open for write")
            old = self._namespace.table.file_blocks(row)
            block_id = self._namespace.info.lastAllocatedBlockId + 1
            genstamp = self._namespace.info.genstampV2 + 1
            self._perform(ops.AllocateBlockIdOp(block_id=block_id))
            self._perform(ops.SetGenstampV2Op(genstamp=genstamp))
            previous = [ops.Block(old[-1].block_id, _BLOCK_SIZE, old[-1].genstamp)] if old else []
            blocks = (*previous, ops.Block(block_id, 0, genstamp))
            txid = self._perform(ops.AddBlockOp(path=path, blocks=blocks))
        self._commit(txid)
        return block_id

    def complete(self, path: str, length: int = 0) -> None:
        """Close a file; `length` is that of its last block."""
        if not 0 <= length <= _BLOCK_SIZE:
            raise OperationRefusedError(f"length {length} is not within 0 and the block size {_BLOCK_SIZE}")
        with self._lock:
            table = self._namespace.table
            row = self._existing(path)
            if not table.is_under_construction(row):
                raise OperationRefusedError(f"{path} is not open for write")
            blocks = [ops.Block(*block) for block in table.file_blocks(row)]
            if blocks:
                blocks[-1] = blocks[-1]._replace(num_bytes=length)
            txid = self._perform(
                ops.CloseOp(
                    path=path,
                    replication=int(table.replication[row]),
                    mtime=_now(),
                    atime=int(table.atime[row]),
                    block_size=int(table.block_size[row]),
                    blocks=tuple(blocks),
                    permissions=permission_status(self._namespace, row),
                )
            )
        self._commit(txid)

    def rename(self, src: str, dst: str, *, overwrite: bool = False) -> None:
        with self._lock:
            self._existing(src)
            self._find(dst)
            options = bytes([ops.RENAME_OVERWRITE if overwrite else 0])
            txid = self._perform(ops.RenameOp(src=src, dst=dst, timestamp=_now(), options=options))
        self._commit(txid)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Remove a file or directory; False where there is none."""
        with self._lock:
            txid = self._log.last_txid
            row = self._find(path)
            if row == ROOT_ROW:
                raise OperationRefusedError("the root cannot be deleted")
            if row != NO_ROW:
                if not recursive and next(self._namespace.tree.children(row), None) is not None:
                    raise OperationRefusedError(f"{path} is not empty")
                txid = self._perform(ops.DeleteOp(path=path, timestamp=_now()))
        self._commit(txid)
        return row != NO_ROW

    def set_permission(self, path: str, mode: int) -> None:
        _check_mode(mode)
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.SetPermissionsOp(src=path, mode=mode))
        self._commit(txid)

    def set_owner(self, path: str, user: str = "", group: str = "") -> None:
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.SetOwnerOp(src=path, username=user or None, groupname=group or None))
        self._commit(txid)

    def set_times(self, path: str, mtime: int = -1, atime: int = -1) -> None:
        """Set times in ms since the epoch; -1 leaves one as it is."""
        if min(mtime, atime) < -1:
            raise OperationRefusedError(f"times {mtime} and {atime} must not be before 1970")
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.TimesOp(path=path, mtime=mtime, atime=atime))
        self._commit(txid)

    def set_replication(self, path: str, replication: int) -> bool:
        """False for a directory."""
        _check_replication(replication)
        with self._lock:
            if self._is_directory(self._existing(path)):
                return False
            txid = self._perform(ops.SetReplicationOp(path=path, replication=replication))
        self._commit(txid)
        return True

    def set_quota(self, path: str, ns_quota: int, ds_quota: int) -> None:
        """Limit a directory to so many names and bytes; -1 clears a limit."""
        if ns_quota < -1 or ns_quota == 0 or ds_quota < -1:
            raise OperationRefusedError(f"quotas {ns_quota} and {ds_quota} must be positive, or -1 for none")
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.SetQuotaOp(src=path, ns_quota=ns_quota, ds_quota=ds_quota))
        self._commit(txid)

    def roll(self) -> int:
        """End the segment and start the next; returns the new segment's first txid."""
        with self._lock:
            self._fail_stop.check()
            try:
                self._log.roll()
            except JournalError as error:
                raise self._fail_stop.trip(f"the edit log could not be rolled: {error.message}") from error
            # The two markers are transactions too.
            self._namespace.last_txid = self._log.last_txid
            first = self._log.segment_first_txid
        self._fail_stop.check()
        return first

    # ---- views ---------------------------------------------------------------------------------------------

    def status(self, path: str) -> FileStatus:
        with self._lock:
            return file_status(self._namespace, self._existing(path))

    def listing(self, path: str) -> list[FileStatus]:
        """Children of a directory by name, or the file itself."""
        with self._lock:
            return listing(self._namespace, self._existing(path))

    def walk(self) -> list[FileStatus]:
        """Every inode, parents first and siblings by name: what two namespaces are compared by.

        The lock is held while the list is made and no longer, however slowly the caller passes it on.
        """
        with self._lock:
            return walk(self._namespace, self._existing("/"))


def _check_mode(mode: int) -> None:
    if not 0 <= mode <= _MAX_MODE:
        raise OperationRefusedError(f"mode {mode:o} is not within 0 and {_MAX_MODE:o}")


def _check_replication(replication: int) -> None:
    if not 1 <= replication <= _MAX_REPLICATION:
        raise OperationRefusedError(f"replication {replication} is not within 1 and {_MAX_REPLICATION}")


def _now() -> int:
    return int(time.time() * 1000)
