"""Ids and generation stamps of new blocks (SequentialBlockIdGenerator, SequentialBlockGroupIdGenerator)."""

from __future__ import annotations

from engine.namespace import Namespace
from journal import ops
from namenode_stub.names.transactions import Transactions

_IDS_OF_A_GROUP = 16  # HdfsServerConstants.MAX_BLOCKS_IN_GROUP
_NO_GROUP = -(1 << 63)


def new_block(transactions: Transactions, row: int) -> tuple[int, int]:
    """Allocate the id and generation stamp of a block for the file in `row`, or of a block group for an erasure-coded
    file.
    """
    info = transactions.namespace.info
    block_id = info.lastAllocatedBlockId + 1
    if transactions.namespace.table.ec_policy[row] >= 0:
        last = _NO_GROUP
        if info.HasField("lastAllocatedStripedBlockId"):
            last = info.lastAllocatedStripedBlockId - (1 << 64)
        block_id = last // _IDS_OF_A_GROUP * _IDS_OF_A_GROUP + _IDS_OF_A_GROUP
    transactions.perform(ops.AllocateBlockIdOp(block_id=block_id))
    return block_id, new_genstamp(transactions)


def new_genstamp(transactions: Transactions) -> int:
    """Allocate a generation stamp."""
    genstamp = transactions.namespace.info.genstampV2 + 1
    transactions.perform(ops.SetGenstampV2Op(genstamp=genstamp))
    return genstamp


def full_block(namespace: Namespace, row: int) -> int:
    """Return the capacity in bytes of a block of the file in `row`, or of a block group of an erasure-coded file."""
    table = namespace.table
    coded = int(table.ec_policy[row])
    policy = namespace.erasure_coding.by_id().get(coded)
    return int(table.block_size[row]) * (1 if policy is None else policy.data_units)
