"""The live namespace: each change is checked, applied and logged under one lock, and durable before it returns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checkpointer.errors import CheckpointError
from checkpointer.namespace import ROOT_ROW, Namespace
from checkpointer.replay import apply
from image_format.inode_table import DIRECTORY, FILE, NO_ROW
from journal import ops
from journal.edit_log_writer import EditLogWriter

__all__ = ["ActiveNamespace", "FileStatus", "OperationRefusedError"]

_BLOCK_SIZE = 128 << 20
_KINDS = {FILE: "FILE", DIRECTORY: "DIRECTORY"}


class OperationRefusedError(CheckpointError):
    """A client asked for something the namespace does not allow; nothing was logged."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a client sees of one inode; times in ms since the epoch, length in bytes."""

    path: str
    id: int
    type: str
    owner: str
    group: str
    permission: str
    mtime: int
    atime: int
    replication: int
    length: int
    block_size: int
    blocks: tuple[tuple[int, int, int], ...]
    open: bool


class ActiveNamespace:
    """Client operations on a namespace, as an active NameNode serves them.

    Args:
        namespace: loaded and up to date; this object changes it from now on.
        log: writer whose next txid follows the namespace's last one.
    """

    def __init__(self, namespace: Namespace, log: EditLogWriter) -> None:
        self._namespace = namespace
        self._log = log
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
        """Apply, then log: an operation that does not fit is refused before a byte of it is written."""
        op.txid = self._log.last_txid + 1
        try:
            apply(self._namespace, op)
        except CheckpointError as error:
            raise OperationRefusedError(error.message, hint=error.hint) from error
        return self._log.write(op)

    def _commit(self, txid: int) -> None:
        """Wait for the disk outside the lock, so that others go on meanwhile."""
        self._log.sync(txid)

    def _permissions(self, mode: int, user: str, group: str) -> ops.PermissionStatus:
        return ops.PermissionStatus(user, group, mode)

    def _next_inode_id(self) -> int:
        return self._namespace.last_inode_id + 1

    def _existing(self, path: str) -> int:
        row = self._find(path)
        if row == NO_ROW:
            raise OperationRefusedError(f"{path} does not exist")
        return row

    def _find(self, path: str) -> int:
        if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
            raise OperationRefusedError(f"{path!r} is not a normalized absolute path")
        if any(part in (".", "..") for part in path.split("/")):
            raise OperationRefusedError(f"{path!r} has a component that is no name")
        return self._namespace.tree.find(path)

    def mkdirs(self, path: str, *, mode: int = 0o755, user: str = "hdfs", group: str = "supergroup") -> bool:
        """Make a directory and those above it; False where it exists already."""
        txid = 0
        with self._lock:
            if self._find(path) != NO_ROW:
                if self._namespace.table.kind[self._find(path)] != DIRECTORY:
                    raise OperationRefusedError(f"{path} is a file")
                return False
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts) + 1):
                prefix = "/" + "/".join(parts[:depth])
                if self._find(prefix) == NO_ROW:
                    txid = self._perform(
                        ops.MkdirOp(
                            inode_id=self._next_inode_id(),
                            path=prefix,
                            timestamp=_now(),
                            permissions=self._permissions(mode, user, group),
                        )
                    )
        self._commit(txid)
        return True

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
        with self._lock:
            if self._find(path) != NO_ROW and not overwrite:
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
                    permissions=self._namespace.permission_status(int(table.permission[row])),
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
            row = self._find(path)
            if row == NO_ROW:
                return False
            if row == ROOT_ROW:
                raise OperationRefusedError("the root cannot be deleted")
            if not recursive and next(self._namespace.tree.children(row), None) is not None:
                raise OperationRefusedError(f"{path} is not empty")
            txid = self._perform(ops.DeleteOp(path=path, timestamp=_now()))
        self._commit(txid)
        return True

    def set_permission(self, path: str, mode: int) -> None:
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
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.TimesOp(path=path, mtime=mtime, atime=atime))
        self._commit(txid)

    def set_replication(self, path: str, replication: int) -> bool:
        """False for a directory."""
        with self._lock:
            if self._namespace.table.kind[self._existing(path)] != FILE:
                return False
            txid = self._perform(ops.SetReplicationOp(path=path, replication=replication))
        self._commit(txid)
        return True

    def set_quota(self, path: str, ns_quota: int, ds_quota: int) -> None:
        with self._lock:
            self._existing(path)
            txid = self._perform(ops.SetQuotaOp(src=path, ns_quota=ns_quota, ds_quota=ds_quota))
        self._commit(txid)

    def roll(self) -> int:
        """End the segment and start the next; returns the new segment's first txid."""
        with self._lock:
            self._log.roll()
            # The two markers are transactions too.
            self._namespace.last_txid = self._log.last_txid
            return self._log.segment_first_txid

    # ---- views ---------------------------------------------------------------------------------------------

    def status(self, path: str) -> FileStatus:
        with self._lock:
            return self._status(self._existing(path))

    def list(self, path: str) -> list[FileStatus]:
        """Children of a directory by name, or the file itself."""
        with self._lock:
            row = self._existing(path)
            if self._namespace.table.kind[row] != DIRECTORY:
                return [self._status(row)]
            return [self._status(child) for _, child in sorted(self._namespace.tree.children(row))]

    def walk(self) -> Iterator[dict[str, Any]]:
        """Every inode as plain values, parents first and siblings by name: what two namespaces are compared by."""
        with self._lock:
            rows = [ROOT_ROW]
            while rows:
                row = rows.pop()
                status = self._status(row)
                yield {name: getattr(status, name) for name in FileStatus.__slots__}
                if self._namespace.table.kind[row] == DIRECTORY:
                    children = sorted(self._namespace.tree.children(row), reverse=True)
                    rows.extend(child for _, child in children)

    def _status(self, row: int) -> FileStatus:
        table = self._namespace.table
        status = self._namespace.permission_status(int(table.permission[row]))
        blocks = tuple(tuple(block) for block in table.file_blocks(row))
        return FileStatus(
            path=self._namespace.tree.path(row),
            id=int(table.id[row]),
            type=_KINDS.get(int(table.kind[row]), "SYMLINK"),
            owner=status.user,
            group=status.group,
            permission=f"{status.mode:o}",
            mtime=int(table.mtime[row]),
            atime=int(table.atime[row]),
            replication=max(0, int(table.replication[row])),
            length=sum(block[1] for block in blocks),
            block_size=int(table.block_size[row]),
            blocks=blocks,  # type: ignore[arg-type]
            open=table.is_under_construction(row),
        )


def _now() -> int:
    return int(time.time() * 1000)
