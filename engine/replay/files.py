"""Creation and writing of files: ADD, CLOSE, APPEND, TRUNCATE, CONCAT_DELETE, REASSIGN_LEASE."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import NamespaceError
from engine.namespace import Namespace
from engine.namespace.diffs import CURRENT_STATE
from engine.namespace.erasure_coding import REPLICATION_POLICY_ID
from engine.replay.blocks import set_blocks
from engine.replay.features import inherit_default_acl, new_xattrs, replace_acl
from engine.replay.structure import remove
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import FILE, UNDER_CONSTRUCTION
from image_format.layout import LayoutVersion
from image_format.storage_policies import known_policies, policy_since
from journal.ops import AddOp, AppendOp, Block, CloseOp, ConcatDeleteOp, ReassignLeaseOp, TruncateOp

_STRIPED = 1
# A file's header has four bits for the storage policy id.
MAX_POLICY = 15
# Largest block size in INodeFile.HeaderFormat, in bytes.
_MAX_BLOCK_SIZE = (1 << 48) - 1


def require_policy(namespace: Namespace, policy_id: int) -> None:
    """Raise UnsupportedNamespaceError for a storage policy that only newer layouts support."""
    since = policy_since(policy_id, namespace.base.layout_version)
    if since is not None:
        namespace.require(since, f"storage policy {policy_id}")


def _checked_policy(namespace: Namespace, path: str, policy_id: int) -> int:
    """Return the storage policy id of a new file.

    Raises:
        NamespaceError: the id does not fit into the record, or Hadoop 2.7 stops because it does not know the policy.
        UnsupportedNamespaceError: see `require_policy`. For layouts of Hadoop 3, `Compaction` raises this error
            instead, because kernels create these files.
    """
    if not namespace.hadoop3:
        require_policy(namespace, policy_id)
    known = namespace.hadoop3 or policy_id in known_policies(namespace.base.layout_version)
    if not 0 <= policy_id <= MAX_POLICY or not known:
        raise NamespaceError(f"{path} cannot have storage policy {policy_id}")
    return policy_id


def _checked_block_size(path: str, size: int) -> int:
    """Return the block size as INodeFile.HeaderFormat stores it: 0 becomes 1; raise NamespaceError above 48 bits."""
    if not 0 <= size <= _MAX_BLOCK_SIZE:
        raise NamespaceError(f"{path} cannot have blocks of {size} bytes")
    return max(size, 1)


def _checked_blocks(path: str, blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the blocks of ADD or CLOSE; raise NamespaceError for a negative length, as Block.readFields does."""
    for block in blocks:
        if block.num_bytes < 0:
            raise NamespaceError(f"block {block.block_id} of {path} cannot have {block.num_bytes} bytes")
    return blocks


def _open_for_write(namespace: Namespace, row: int, client_name: str, client_machine: str, path: str = "") -> None:
    table = namespace.table
    namespace.tree.touch(row)
    table.flags[row] |= UNDER_CONSTRUCTION
    table.client_name[row] = table.intern(client_name)
    table.client_machine[row] = table.intern(client_machine)
    namespace.leases.add(row, path)


def _create(namespace: Namespace, op: AddOp) -> int:
    table, tree = namespace.table, namespace.tree
    parent, name = tree.paths.find_parent(op.path)
    tree.paths.check_new_name(parent, name)
    row = tree.add(parent, name, op.inode_id, FILE)
    namespace.use_inode_id(op.inode_id)
    table.permission[row] = namespace.permission(op.permissions)
    table.mtime[row] = table.atime[row] = op.mtime
    table.block_size[row] = _checked_block_size(op.path, op.block_size)
    table.policy[row] = _checked_policy(namespace, op.path, op.storage_policy_id)
    if op.erasure_coding_policy_id == REPLICATION_POLICY_ID:
        table.replication[row] = namespace.rules.clamp_replication(op.replication)
    else:
        namespace.require(LayoutVersion.ERASURE_CODING, "a striped file")
        if not namespace.erasure_coding.knows(op.erasure_coding_policy_id):
            raise NamespaceError(f"{op.path} has an unknown erasure coding policy {op.erasure_coding_policy_id}")
        table.ec_policy[row] = op.erasure_coding_policy_id
        table.block_type[row] = _STRIPED
    namespace.recorder.add_child(parent, name, row, namespace.recorder.lookup.latest_below(parent))
    inherit_default_acl(namespace, parent, row)
    if op.acl_entries is not None:
        replace_acl(namespace, row, op.acl_entries)
    if op.xattrs:
        new_xattrs(namespace, row, op.xattrs)
    _open_for_write(namespace, row, op.client_name, op.client_machine, op.path)
    return row


def _reopen(namespace: Namespace, row: int, op: AddOp | AppendOp, *, new_block: bool) -> None:
    """Open a closed file to append to it (FSNamesystem.prepareFileForAppend)."""
    namespace.recorder.record(row)
    _open_for_write(namespace, row, op.client_name, op.client_machine, op.path)
    blocks = namespace.table.file_blocks(row)
    namespace.recorder.set_last_block_complete(row, complete=False)
    if not new_block and blocks and blocks[-1].num_bytes != namespace.table.block_size[row]:
        namespace.recorder.convert_block(row, len(blocks) - 1)
    elif blocks:
        namespace.recorder.set_last_block_complete(row, complete=True)


def add(namespace: Namespace, op: AddOp) -> None:
    table = namespace.table
    row = namespace.existing_or_none(op.path)
    if row != NO_ROW and table.kind[row] != FILE:
        raise NamespaceError(f"{op.path} is not a file")
    if row != NO_ROW and op.overwrite:
        namespace.leases.removed(row, op.path)
        remove(namespace, row, op.mtime)
        row = NO_ROW
    if row == NO_ROW:
        row = _create(namespace, op)
    elif not table.is_under_construction(row):
        _reopen(namespace, row, op, new_block=False)
    namespace.tree.touch(row)
    table.atime[row] = op.atime
    table.mtime[row] = op.mtime
    set_blocks(namespace, row, _checked_blocks(op.path, op.blocks))


def close(namespace: Namespace, op: CloseOp) -> None:
    table = namespace.table
    row = namespace.file(op.path)
    if not table.is_under_construction(row):
        raise NamespaceError(f"{op.path} is not open for writing")
    namespace.tree.touch(row)
    table.atime[row] = op.atime
    table.mtime[row] = op.mtime
    set_blocks(namespace, row, _checked_blocks(op.path, op.blocks), completes=True)
    table.flags[row] &= ~UNDER_CONSTRUCTION & 0xFF
    namespace.leases.closed(row, op.path)


def append(namespace: Namespace, op: AppendOp) -> None:
    row = namespace.file(op.path)
    if namespace.table.is_under_construction(row):
        namespace.ignore()
        return
    _reopen(namespace, row, op, new_block=op.new_block)


def truncate(namespace: Namespace, op: TruncateOp) -> None:
    table = namespace.table
    row = namespace.file(op.src)
    namespace.recorder.record(row, with_blocks=True)
    kept, size = 0, 0
    blocks = table.file_blocks(row)
    while kept < len(blocks) and size < op.new_length:
        size += blocks[kept].num_bytes
        kept += 1
    table.truncate_blocks(row, kept)
    table.mtime[row] = op.timestamp
    if size == op.new_length:
        return
    if not kept or op.truncate_block is None:
        raise NamespaceError(f"{op.src} cannot be truncated to {op.new_length} bytes without a block to recover")
    if table.is_under_construction(row):
        raise NamespaceError(f"{op.src} is open for writing")
    if table.block_type[row] == _STRIPED:
        # Both ways of a truncate make a block under construction, and Hadoop refuses a striped block without locations.
        raise NamespaceError(f"{op.src} is erasure-coded, so its last block cannot be truncated")
    _open_for_write(namespace, row, op.client_name, op.client_machine)
    namespace.see_generation_stamp(op.truncate_block.genstamp)
    last = blocks[kept - 1]
    copies = op.truncate_block.block_id != last.block_id
    if not copies and _needs_copy(namespace, row, last.block_id):
        # The NameNode found no snapshot with this block, but its replay finds a snapshot and copies. Known reasons: a
        # fault of Hadoop 2.7 (docs/support.md), and an upgrade, because only renames by Hadoop 3 record blocks in the
        # snapshot.
        namespace.recorder.detach_block(row, kept - 1)
        copies = True
    length = last.num_bytes - (size - op.new_length)
    if copies:
        # The new block replaces the last block immediately; otherwise, only CLOSE changes the last block.
        table.truncate_blocks(row, kept - 1)
        table.extend_blocks(row, [(op.truncate_block.block_id, length, op.truncate_block.genstamp)])
    elif length == table.block_size[row]:
        # BlockManager.convertLastBlockToUnderConstruction does not open a full block, so FSDirTruncateOp stops
        raise NamespaceError(
            f"block {last.block_id} of {op.src} would keep its full length, so there is no block to recover"
        )
    else:
        namespace.recorder.convert_block(row, kept - 1)


def _needs_copy(namespace: Namespace, row: int, block_id: int) -> bool:
    """Return whether the replicas of a block must not change (FSDirTruncateOp.shouldCopyOnTruncate).

    Until an upgrade is finalized, a NameNode also copies; the operation then contains the new block's id.
    `rolling_upgrade_start` describes a rolling upgrade that only the image records.
    """
    if namespace.upgrade_started:
        return True
    diffs = namespace.recorder.diffs.of_file(row)
    return diffs is not None and diffs.newest_has(block_id)


def concat_delete(namespace: Namespace, op: ConcatDeleteOp) -> None:
    table, tree, recorder = namespace.table, namespace.tree, namespace.recorder
    target = namespace.file(op.trg)
    latest = recorder.lookup.latest(target)
    sources = [namespace.file(path) for path in op.srcs]
    _check_sources(namespace, op, target, sources, latest)
    above = int(table.parent[target])
    recorder.record(target)
    for added in [table.file_blocks(source) for source in sources]:
        table.extend_blocks(target, added)
    for source in dict.fromkeys(sources):
        directory, name = int(table.parent[source]), table.name(source)
        if namespace.hadoop3:
            hub = tree.references.hub(source)
            if recorder.lookup.in_latest(source, latest) or (hub is not None and hub.with_names):
                recorder.leads_to_removed = True
            # The copies of the source in snapshots have no blocks. If two files had the blocks, the deletion of either
            # file would remove them.
            table.truncate_blocks(source, 0)
            recorder.remove_child(directory, name, source, latest)
        else:
            # Hadoop 2.7 leaves the name in a created list, and then cannot load the image that it saves.
            recorder.remove_child(directory, name, source, CURRENT_STATE)
        recorder.diffs.remove(source)
        tree.references.forget(source)
        namespace.forget(source)
        tree.drop(source)
    table.mtime[target] = op.timestamp
    recorder.raise_mtime(above, op.timestamp, latest)


def _check_sources(namespace: Namespace, op: ConcatDeleteOp, target: int, sources: list[int], latest: int) -> None:
    """Raise NamespaceError if FSDirConcatOp.unprotectedConcat stops at a source.

    The NameNode's replay does not check whether snapshots contain a source. Its namespace may then differ from the
    image that it saves. In that image, snapshots contain an empty file, so the NameNode cannot load the image. Our
    image is healed.
    """
    if namespace.hadoop3:
        block_type = namespace.table.block_type
        if any(block_type[row] != block_type[target] for row in sources):
            # INodeFile.concatBlocks performs this check
            raise NamespaceError(f"{op.trg} and its sources are not all erasure-coded or all replicated")
        twice = len(set(sources)) < len(sources)
        if twice and any(
            namespace.recorder.lookup.in_latest(int(namespace.table.parent[row]), latest) for row in sources
        ):
            raise NamespaceError(f"a file is given twice as a source of {op.trg}")
        return
    hubs = (namespace.tree.references.hub(row) for row in sources)
    if any(hub is not None and hub.with_names for hub in hubs):
        # Hadoop 2.7 also stops at a file that snapshots contained under another name before, and does not log the
        # operation. Hadoop 2.10 logs this operation in the same layout.
        raise NamespaceError(f"a file that snapshots contain under another name cannot be a source of {op.trg}")


def reassign_lease(namespace: Namespace, op: ReassignLeaseOp) -> None:
    table = namespace.table
    row = namespace.file(op.path)
    if not table.is_under_construction(row):
        raise NamespaceError(f"{op.path} is not open for writing")
    namespace.tree.touch(row)
    table.client_name[row] = table.intern(op.new_holder)
    namespace.leases.add(row, op.path)
