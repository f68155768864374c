"""File operations: create, complete, leases by client name (FSNamesystem.startFile, completeFile, LeaseManager)."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.namespace import Namespace
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import FILE
from journal import ops
from namenode_stub.file_status import permission_status
from namenode_stub.names.block_ids import full_block, new_block
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.directories import make_parents
from namenode_stub.names.erasure_coding import ErasureCoding
from namenode_stub.names.limits import check_modes, check_name, check_quotas
from namenode_stub.names.new_inode import CreateModes, group_for
from namenode_stub.names.paths import check_parent, existing, existing_for_change, find, find_for_change, parent_of
from namenode_stub.names.storage_policies import StoragePolicies
from namenode_stub.names.transactions import NamespaceOperations, Transactions, now
from namenode_stub.names.truncation import Truncation, block_to_recover, truncatable
from namenode_stub.refusals import (
    AlreadyThereError,
    BeingWrittenRefusalError,
    IllegalArgumentError,
    LeaseExpiredRefusalError,
    NoDataNodesError,
    NotThereError,
    OperationRefusedError,
)

BLOCK_SIZE = 128 << 20
MAX_REPLICATION = 512
MIN_BLOCK_SIZE = 1 << 20
_SOFT_LIMIT = 60.0  # seconds without renewal after which other clients may recover a lease
_MANY_HOLDERS = 4096
_NO_DATA = "The stub has no DataNodes and stores only names. Create files without content."


def check_replication(replication: int) -> None:
    """Check a replication factor; raise OperationRefusedError if it is not allowed."""
    if not 1 <= replication <= MAX_REPLICATION:
        raise OperationRefusedError(f"replication {replication} is not between 1 and {MAX_REPLICATION}")


def holder_of(namespace: Namespace, row: int) -> str:
    """Return the name of the client that writes the file in `row`."""
    return namespace.table.pooled(int(namespace.table.client_name[row]))


class Files(NamespaceOperations):
    """Changes to files; every method raises the same errors as `Transactions.change` and `perform`.

    Args:
        min_block_size: minimum block size of a new file, in bytes (dfs.namenode.fs-limits.min-block-size).
        clock: monotonic seconds.

    Attributes:
        storage_policies, erasure_coding: policies of new files.
    """

    def __init__(
        self,
        transactions: Transactions,
        min_block_size: int = MIN_BLOCK_SIZE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(transactions)
        self._min_block_size = min_block_size
        self.storage_policies = StoragePolicies(transactions)
        self.erasure_coding = ErasureCoding(transactions)
        self._clock = clock
        # as after a NameNode's restart, leases that were not renewed since the start expire as if they had been renewed
        # at the start
        self._started = clock()
        self._renewed: dict[str, float] = {}
        self._prune_at = _MANY_HOLDERS
        # truncations within a block, by inode id; a DataNode with the block would complete them
        self._cuts: dict[int, Truncation] = {}

    # ---- create ------------------------------------------------------------------------------------------------

    def create(
        self,
        path: str,
        modes: CreateModes,
        caller: ClientCall = LOCAL_CALL,
        *,
        holder: str,
        replication: int = 3,
        block_size: int = BLOCK_SIZE,
        overwrite: bool = False,
        must_exist: bool = False,
        create_parent: bool = False,
        storage_policy: str = "",
        erasure_coding: str = "",
        replicated: bool = False,
    ) -> int:
        """Open a new file for writing; return its inode id.

        Args:
            storage_policy, erasure_coding: names of policies that override the policies of the directory.
            replicated: disables erasure coding, even if the directory has a policy.
        """
        with self._transactions.change(f"create file {path}"):
            check_modes(modes.masked)
            check_replication(replication)
            if block_size < self._min_block_size:
                raise OperationRefusedError(
                    "Specified block size is less than configured minimum value "
                    f"(dfs.namenode.fs-limits.min-block-size): {block_size} < {self._min_block_size}"
                )
            if replicated and erasure_coding:
                raise IllegalArgumentError("SHOULD_REPLICATE flag and ecPolicyName are exclusive parameters.")
            with self._transactions.reading() as read:
                above = read.nearest(parent_of(path))
            storage = self.storage_policies.for_new_file(above.policy, storage_policy)
            coding = 0 if replicated else self.erasure_coding.for_new_file(above.coding, erasure_coding)
            self._check_target(path, holder, overwrite=overwrite, must_exist=must_exist)
            if create_parent:
                make_parents(self._transactions, path, modes, caller)
            check_parent(self._namespace, path)
            inode_id = self._namespace.last_inode_id + 1
            time = now()
            group, mode = group_for(self._namespace, caller, path), modes.at(self._namespace, path)
            self._transactions.perform(
                ops.AddOp(
                    inode_id=inode_id,
                    path=path,
                    # INodeFile.DEFAULT_REPL_FOR_STRIPED_BLOCKS
                    replication=1 if coding else replication,
                    mtime=time,
                    atime=time,
                    block_size=block_size,
                    permissions=ops.PermissionStatus(caller.user, group, mode),
                    client_name=holder,
                    client_machine=caller.machine,
                    overwrite=overwrite,
                    storage_policy_id=storage,
                    erasure_coding_policy_id=coding,
                ),
                caller,
            )
            self._renew(holder)
            return inode_id

    def _check_target(self, path: str, holder: str, *, overwrite: bool, must_exist: bool) -> None:
        check_name(path)
        namespace = self._namespace
        row = find_for_change(namespace, path)
        if row == NO_ROW:
            if must_exist:
                raise NotThereError(f"Can't overwrite non-existent {path}")
            parent = find(namespace, parent_of(path))
            if parent != NO_ROW:
                check_quotas(namespace, parent, 1)
            return
        if namespace.table.kind[row] != FILE:
            raise AlreadyThereError(f"{path} already exists as a directory or a link")
        if overwrite:
            return
        if namespace.table.is_under_construction(row):
            self._recover_lease(row, path, holder)
        raise AlreadyThereError(f"{path} already exists")

    def _recover_lease(self, row: int, path: str, client: str, *, force: bool = False) -> None:
        """Close the file of a writer with an expired lease (FSNamesystem.recoverLeaseInternal)."""
        holder = holder_of(self._namespace, row)
        if not force and holder == client:
            raise BeingWrittenRefusalError(f"{path} is already being written by {client}, which holds its lease")
        if not force and self._clock() - self._renewed.get(holder, self._started) < _SOFT_LIMIT:
            raise BeingWrittenRefusalError(f"Failed to create file {path} for {client}, since {holder} is writing it")
        if self._namespace.table.file_blocks(row):
            raise BeingWrittenRefusalError(f"the last block of {path} cannot be recovered: the stub has no DataNodes")
        self._close(row, path)

    # ---- writing -----------------------------------------------------------------------------------------------

    def refuse_data(self, path: str, holder: str) -> OperationRefusedError:
        """Return the error for a block request; raise another error if the client is not the file's writer."""
        with self._transactions.change(f"add block to {path}"):
            self._held(path, holder)
        return NoDataNodesError(f"{path} could only be written to 0 of the 1 minReplication nodes. {_NO_DATA}")

    def refuse_append(self, path: str) -> OperationRefusedError:
        """Return the error for an append."""
        with self._transactions.change(f"append to file {path}"):
            row = existing_for_change(self._namespace, path)
            if self._namespace.table.kind[row] != FILE:
                raise NotThereError(f"{path} is not a file")
        return NoDataNodesError(f"{path} cannot be appended to. {_NO_DATA}")

    def _held(self, path: str, holder: str, inode_id: int = 0) -> int:
        """Return the row of a file that the client is writing (FSNamesystem.checkLease)."""
        table = self._namespace.table
        row = find_for_change(self._namespace, path)
        what = f"No lease on {path} (inode {inode_id})"
        if row == NO_ROW or (inode_id and int(table.id[row]) != inode_id):
            raise LeaseExpiredRefusalError(f"{what}: File does not exist. [Lease. Holder: {holder}]")
        if table.kind[row] != FILE:
            raise LeaseExpiredRefusalError(f"{what}: it is not a regular file.")
        if not table.is_under_construction(row):
            raise LeaseExpiredRefusalError(f"{what}: File is not open for writing. [Lease. Holder: {holder}]")
        found = holder_of(self._namespace, row)
        if holder != found:
            raise LeaseExpiredRefusalError(f"Lease mismatch on {path} owned by {found} but is accessed by {holder}")
        return row

    def check_held(self, path: str, holder: str, inode_id: int = 0) -> None:
        """Check that a client is writing a file; raise LeaseExpiredRefusalError otherwise."""
        with self._transactions.change(f"fsync file {path}"):
            self._held(path, holder, inode_id)

    def complete(self, path: str, holder: str, inode_id: int = 0, *, last_block: int | None = None) -> bool:
        """Close a file that a client wrote; a file that the client has already closed is unchanged."""
        with self._transactions.change(f"complete file {path}"):
            try:
                row = self._held(path, holder, inode_id)
            except LeaseExpiredRefusalError:
                if self._is_closed(path, last_block):
                    return True
                raise
            self._close(row, path)
            return True

    def _is_closed(self, path: str, last_block: int | None) -> bool:
        table = self._namespace.table
        row = find(self._namespace, path)
        if row == NO_ROW or table.kind[row] != FILE or table.is_under_construction(row):
            return False
        blocks = table.file_blocks(row)
        return (blocks[-1].block_id if blocks else None) == last_block

    def _close(self, row: int, path: str, length: int = 0) -> None:
        table = self._namespace.table
        blocks = table.file_blocks(row)
        cut = self._cuts.pop(int(table.id[row]), None)
        if blocks:
            genstamp = blocks[-1].genstamp if cut is None else cut.genstamp
            blocks[-1] = blocks[-1]._replace(num_bytes=length, genstamp=genstamp)
        self._transactions.perform(
            ops.CloseOp(
                path=path,
                replication=int(table.replication[row]),
                mtime=now(),
                atime=int(table.atime[row]),
                block_size=int(table.block_size[row]),
                blocks=tuple(blocks),
                permissions=permission_status(self._namespace, row),
            )
        )

    # ---- truncate ----------------------------------------------------------------------------------------------

    def truncate(self, path: str, length: int, holder: str, caller: ClientCall = LOCAL_CALL) -> bool:
        """Truncate a file to `length` bytes (FSDirTruncateOp).

        Returns:
            Whether the truncation is complete. It is incomplete if the new end is within a block. In this case, the
            file is open, and its last block waits for a DataNode.
        """
        if length < 0:
            raise IllegalArgumentError(f"Cannot truncate to a negative file size: {length}.")
        with self._transactions.change(f"truncate for {path}"):
            row = truncatable(self._namespace, path)
            table = self._namespace.table
            cut = self._cuts.get(int(table.id[row]))
            if cut is not None and cut.length == length:
                return False
            if cut is not None:
                raise BeingWrittenRefusalError(f"Failed to TRUNCATE_FILE {path}: {path} is being truncated.")
            if table.is_under_construction(row):
                self._recover_lease(row, path, holder)
            blocks = table.file_blocks(row)
            size = sum(block.num_bytes for block in blocks)
            if length == size:
                return True
            if length > size:
                raise IllegalArgumentError(
                    f"Cannot truncate to a larger file size. Current size: {size}, truncate size: {length}."
                )
            target = block_to_recover(self._transactions, row, length)
            self._transactions.perform(
                ops.TruncateOp(
                    src=path,
                    client_name=holder,
                    client_machine=caller.machine,
                    new_length=length,
                    timestamp=now(),
                    truncate_block=target,
                )
            )
            if target is None:
                return True
            if len(self._cuts) >= self._prune_at:
                self._cuts = {held: cut for held, cut in self._cuts.items() if self._is_open(held)}
            self._cuts[int(table.id[row])] = Truncation(length, target.genstamp)
            self._renew(holder)
            return False

    def _is_open(self, inode_id: int) -> bool:
        row = self._namespace.tree.row(inode_id)
        return row != NO_ROW and self._namespace.table.is_under_construction(row)

    # ---- HTTP API: blocks without data, as there are no DataNodes ------------------------------------------------

    def add_block(self, path: str) -> int:
        """Allocate the next block of an open file, whose last block must be full; return the block id."""
        with self._transactions.change(f"add block to {path}"):
            namespace = self._namespace
            row = self._open(path)
            old = namespace.table.file_blocks(row)
            block_id, genstamp = new_block(self._transactions, row)
            size = full_block(self._namespace, row)
            previous = [ops.Block(old[-1].block_id, size, old[-1].genstamp)] if old else []
            blocks = (*previous, ops.Block(block_id, 0, genstamp))
            self._transactions.perform(ops.AddBlockOp(path=path, blocks=blocks))
            return block_id

    def close(self, path: str, length: int = 0) -> None:
        """Close an open file of any writer; `length` is the length of its last block."""
        with self._transactions.change(f"complete file {path}"):
            row = self._open(path)
            size = full_block(self._namespace, row)
            if not 0 <= length <= size:
                raise OperationRefusedError(f"length {length} is not between 0 and the block size {size}")
            self._close(row, path, length)

    def _open(self, path: str) -> int:
        row = existing(self._namespace, path)
        if not self._namespace.table.is_under_construction(row):
            raise OperationRefusedError(f"{path} is not open for writing")
        return row

    # ---- leases ------------------------------------------------------------------------------------------------

    def renew_lease(self, holder: str) -> None:
        """Record that a client is alive."""
        with self._transactions.view():
            self._renew(holder)

    def _renew(self, holder: str) -> None:
        time = self._clock()
        if len(self._renewed) >= self._prune_at:
            self._renewed = {name: at for name, at in self._renewed.items() if time - at < _SOFT_LIMIT}
            # twice the number of live leases, so that calls rarely scan all leases
            self._prune_at = max(_MANY_HOLDERS, 2 * len(self._renewed))
        self._renewed[holder] = time

    def recover_lease(self, path: str, client: str) -> bool:
        """Close a file that its writer left open; return whether the file is closed now."""
        with self._transactions.change(f"recover the lease of {path}"):
            row = existing_for_change(self._namespace, path)
            if self._namespace.table.kind[row] != FILE:
                raise NotThereError(f"{path} is not a file")
            if self._namespace.table.is_under_construction(row):
                self._recover_lease(row, path, client, force=True)
            return True
