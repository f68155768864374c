"""Decides whether a client can truncate a file, and which block changes (FSDirTruncateOp)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.namespace import Namespace
from engine.namespace.diffs import CURRENT_STATE, FileDiff
from hadoop_common.block import Block
from image_format.kernels.inode import FILE
from journal import ops
from namenode_stub.names.block_ids import new_block, new_genstamp
from namenode_stub.names.paths import existing_for_change
from namenode_stub.names.storage_policies import is_copied
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import NotThereError, UnsupportedRequestError


@dataclass(frozen=True, slots=True)
class Truncation:
    """The new length of a file, and the generation stamp of its last block."""

    length: int
    genstamp: int


def truncatable(namespace: Namespace, path: str) -> int:
    """Return the row of a file that can be truncated; raise NotThereError or UnsupportedRequestError otherwise."""
    row, table = existing_for_change(namespace, path), namespace.table
    if table.kind[row] != FILE:
        raise NotThereError(f"Path is not a file: {path}")
    if table.ec_policy[row] >= 0:
        raise UnsupportedRequestError(f"Cannot truncate file with striped block {path}")
    if is_copied(int(table.policy[row])):
        raise UnsupportedRequestError(f"Cannot truncate lazy persist file {path}")
    return row


def block_to_recover(transactions: Transactions, row: int, length: int) -> ops.Block | None:
    """Return the block to truncate, as the operation stores it; None if the new end is between blocks.

    The result is the same block with a new generation stamp, or a new block if a snapshot still needs the old block.

    Args:
        length: new length in bytes, less than the current length.
    """
    namespace, kept = transactions.namespace, 0
    for block in namespace.table.file_blocks(row):
        if kept >= length:
            break
        kept, last = kept + block.num_bytes, block
    if kept == length:
        return None
    if namespace.info.HasField("rollingUpgradeStartTime") or _is_kept_by_snapshot(namespace, row, last):
        block_id, genstamp = new_block(transactions, row)
        return ops.Block(block_id, 0, genstamp)
    return ops.Block(last.block_id, last.num_bytes, new_genstamp(transactions))


def _is_kept_by_snapshot(namespace: Namespace, row: int, block: Block) -> bool:
    """Return whether a snapshot still needs a block of a truncated file (INodeFile.isBlockInLatestSnapshot)."""
    recorder = namespace.recorder
    latest = recorder.lookup.latest(row)
    diffs = recorder.diffs.of_file(row)
    items = [] if diffs is None else diffs.items
    hub = namespace.tree.references.hub(row)
    moved_into = None if hub is None else hub.dst_snapshot
    if recorder.lookup.in_latest(row, latest) and (moved_into in (None, CURRENT_STATE) or moved_into < latest):
        # if the file was truncated after the snapshot, the latest diff contains its blocks at the snapshot
        size = items[-1].file_size if items and items[-1].snapshot_id >= latest else None
        held = items[-1].blocks if size is not None else None
        if held is None:
            blocks = namespace.table.file_blocks(row)
            fresh = FileDiff(latest, sum(each.num_bytes for each in blocks) if size is None else size)
            fresh.set_blocks(blocks)
            held = fresh.blocks
    else:
        held = next((diff.blocks for diff in reversed(items) if diff.blocks is not None), None)
    return any(kept.block_id == block.block_id for kept in held or ())
