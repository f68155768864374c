"""Columns of the `under_construction` table: files that are open for write."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_ENTRY = "fsimage.proto FilesUnderConstructionSection.FileUnderConstructionEntry"
_FILE = "fsimage.proto INodeSection.INodeFile"

UNDER_CONSTRUCTION = Table(
    "under_construction",
    "Files that are open for write, a row each: those with a lease entry, those whose record says so, or both. One "
    "of the two alone is normal only for a file that a snapshot holds and that was deleted while open.",
    (
        Column("inode_id", pa.int64(), "Id of the file.", f"{_ENTRY}.inodeId", nullable=False),
        Column("path", pa.string(), "Path in the lease entry; null without one.", f"{_ENTRY}.fullPath"),
        Column(
            "client_name",
            pa.string(),
            "Client that holds the lease; null where the record does not say that the file is open.",
            f"{_FILE}.fileUC.clientName",
        ),
        Column("client_machine", pa.string(), "Machine of that client.", f"{_FILE}.fileUC.clientMachine"),
        Column("mtime", TIMESTAMP, "Last modification.", f"{_FILE}.modificationTime", "time, UTC"),
        Column(
            "length",
            pa.int64(),
            "Sum of the blocks' sizes as last committed, deleted ones left out.",
            f"{_FILE}.blocks",
            "bytes",
        ),
        Column("block_count", pa.int32(), "Number of blocks.", f"{_FILE}.blocks"),
        Column("block_ids", pa.list_(pa.int64()), "Ids of the blocks in order.", f"{_FILE}.blocks"),
        Column("last_block_genstamp", pa.int64(), "Generation stamp of the last block.", f"{_FILE}.blocks"),
        Column("last_block_bytes", pa.int64(), "Committed size of the last block.", f"{_FILE}.blocks", "bytes"),
    ),
)
