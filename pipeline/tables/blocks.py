"""Columns of the `blocks` table: a row for each block or block group of a file."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column, Table

_FILE = "fsimage.proto INodeSection.INodeFile"
_BLOCK = "hdfs.proto BlockProto"

BLOCKS = Table(
    "blocks",
    "The blocks of all file records, a row for each block or erasure-coded block group, including files only in "
    "snapshots. Blocks that exist only in a snapshot's diff are in `snapshot_diffs`.",
    (
        Column("inode_id", pa.int64(), "Id of the file.", "fsimage.proto INodeSection.INode.id", nullable=False),
        Column("index", pa.int32(), "Position in the file, from 0.", f"{_FILE}.blocks", nullable=False),
        Column(
            "block_id",
            pa.int64(),
            "Block id; negative for a block group and for the random ids of old releases.",
            f"{_BLOCK}.blockId",
            nullable=False,
        ),
        Column("genstamp", pa.int64(), "Generation stamp.", f"{_BLOCK}.genStamp", nullable=False),
        Column(
            "bytes",
            pa.int64(),
            "Size of the block, or of all data in a block group: the last committed size of a block under "
            "construction, 2^63-1 for a deleted block (BlockCommand.NO_ACK).",
            f"{_BLOCK}.numBytes",
            "bytes",
            nullable=False,
        ),
        Column(
            "striped", pa.bool_(), "Whether this is an erasure-coded block group.", f"{_FILE}.blockType", nullable=False
        ),
        Column(
            "replication",
            pa.int32(),
            "Replication factor of the file; 0 for an erasure-coded file.",
            f"{_FILE}.replication",
            nullable=False,
        ),
        Column(
            "ec_policy",
            pa.string(),
            "Erasure coding policy of the file, e.g. RS-6-3-1024k; null for a replicated file.",
            f"{_FILE}.erasureCodingPolicyID, ErasureCodingSection",
        ),
        Column(
            "raw_bytes",
            pa.int64(),
            "Space of the block with all replicas or its parity; null for a deleted block and for a policy that "
            "the image does not describe.",
            f"{_FILE}.replication, {_BLOCK}.numBytes, StripedBlockUtil.spaceConsumedByStripedBlock",
            "bytes",
        ),
        Column(
            "under_construction", pa.bool_(), "Whether the file is open for write.", f"{_FILE}.fileUC", nullable=False
        ),
    ),
)
