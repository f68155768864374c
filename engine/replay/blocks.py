"""Changes of files' block lists by ADD, CLOSE, UPDATE_BLOCKS and ADD_BLOCK."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import NamespaceError
from engine.namespace import Namespace
from hadoop_common.quantities import counted
from journal.ops import AddBlockOp, AllocateBlockIdOp, Block, SetGenstampV1Op, SetGenstampV2Op, UpdateBlocksOp


def set_blocks(namespace: Namespace, row: int, new: Sequence[Block], *, completes: bool = False) -> None:
    """Set the block list of a file to the list of an operation (FSEditLogLoader.updateBlocks).

    Args:
        completes: whether the last block becomes complete; all other blocks are always complete.

    Raises:
        NamespaceError: the lists differ in more than lengths, generation stamps and blocks at the end.
    """
    table = namespace.table
    old_count = int(table.block_count[row])
    if not old_count and not new:
        return
    old = table.file_blocks(row)
    for index, (have, want) in enumerate(zip(old, new, strict=False)):
        last_of_both = old_count == len(new) and index == old_count - 1
        if have.block_id != want.block_id or (have.genstamp != want.genstamp and not last_of_both):
            raise NamespaceError(
                f"block {index} of {namespace.tree.path(row)} is {have.block_id}_{have.genstamp}, but the operation "
                f"has {want.block_id}_{want.genstamp}"
            )
        namespace.recorder.set_block(row, index, want.num_bytes, want.genstamp)
        namespace.see_generation_stamp(want.genstamp)
    if old_count <= len(new) and table.is_under_construction(row) and (completes or old_count < len(new)):
        namespace.recorder.convert_block(row, old_count - 1)
    if len(new) < old_count:
        if not table.is_under_construction(row) or len(new) != old_count - 1:
            raise NamespaceError(
                f"{namespace.tree.path(row)} has {counted(old_count, 'block')}, but the operation has {len(new)}"
            )
        table.truncate_blocks(row, len(new))
    elif len(new) > old_count:
        table.extend_blocks(row, [(b.block_id, b.num_bytes, b.genstamp) for b in new[old_count:]])
        namespace.recorder.set_last_block_complete(row, complete=completes)
        for block in new[old_count:]:
            namespace.see_generation_stamp(block.genstamp)


def update_blocks(namespace: Namespace, op: UpdateBlocksOp) -> None:
    row = namespace.file(op.path)
    namespace.tree.touch(row)
    set_blocks(namespace, row, op.blocks)


def add_block(namespace: Namespace, op: AddBlockOp) -> None:
    row = namespace.file(op.path)
    table = namespace.table
    namespace.tree.touch(row)
    if len(op.blocks) not in (1, 2):
        raise NamespaceError(
            f"the operation has {counted(len(op.blocks), 'block')} for {op.path} instead of one or two"
        )
    *before, added = op.blocks
    old = table.file_blocks(row)
    if before:
        penultimate = before[0]
        if not old or (old[-1].block_id, old[-1].genstamp) != (penultimate.block_id, penultimate.genstamp):
            raise NamespaceError(f"last block of {op.path} is not {penultimate.block_id}_{penultimate.genstamp}")
        namespace.recorder.set_block(row, len(old) - 1, penultimate.num_bytes, penultimate.genstamp)
        namespace.recorder.convert_block(row, len(old) - 1)
        namespace.see_generation_stamp(penultimate.genstamp)
    elif old:
        raise NamespaceError(f"{op.path} has {counted(len(old), 'block')}, but the operation adds the first block")
    table.extend_blocks(row, [(added.block_id, added.num_bytes, added.genstamp)])
    namespace.recorder.set_last_block_complete(row, complete=False)
    namespace.see_generation_stamp(added.genstamp)


def allocate_block_id(namespace: Namespace, op: AllocateBlockIdOp) -> None:
    namespace.allocate_block_id(op.block_id)


def set_genstamp_v1(namespace: Namespace, op: SetGenstampV1Op) -> None:
    namespace.info.genstampV1 = op.genstamp


def set_genstamp_v2(namespace: Namespace, op: SetGenstampV2Op) -> None:
    namespace.set_generation_stamp(op.genstamp)
