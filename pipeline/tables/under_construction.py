"""Columns of the `under_construction` table: files open for write."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_ENTRY = "fsimage.proto FilesUnderConstructionSection.FileUnderConstructionEntry"
_FILE = "fsimage.proto INodeSection.INodeFile"

UNDER_CONSTRUCTION = Table(
    "under_construction",
    "Files open for write, a row each: with a lease entry, with the feature in their record, or both. Only one of the "
    "two is normal only for a file in a snapshot that was deleted while open.",
    (
        Column("inode_id", pa.int64(), "Id of the file.", f"{_ENTRY}.inodeId", nullable=False),
        Column("path", pa.string(), "Path in the lease entry; null without one.", f"{_ENTRY}.fullPath"),
        Column(
            "client_name",
            pa.string(),
            "Client that holds the lease; null without the feature in the record.",
            f"{_FILE}.fileUC.clientName",
        ),
        Column("client_machine", pa.string(), "Machine of that client.", f"{_FILE}.fileUC.clientMachine"),
        Column("mtime", TIMESTAMP, "Last modification.", f"{_FILE}.modificationTime", "time, UTC"),
        Column(
            "length",
            pa.int64(),
            "Sum of the last committed block sizes without deleted blocks.",
            f"{_FILE}.blocks",
            "bytes",
        ),
        Column("block_count", pa.int32(), "Number of blocks.", f"{_FILE}.blocks"),
        Column("block_ids", pa.list_(pa.int64()), "Ids of the blocks in order.", f"{_FILE}.blocks"),
        Column("last_block_genstamp", pa.int64(), "Generation stamp of the last block.", f"{_FILE}.blocks"),
        Column("last_block_bytes", pa.int64(), "Committed size of the last block.", f"{_FILE}.blocks", "bytes"),
    ),
)
