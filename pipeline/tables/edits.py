"""Columns of the `edits` table: a row a transaction."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_OP = "FSEditLogOp"

EDITS = Table(
    "edits",
    "The transactions of edit log segments, in order of their txids within a partition.",
    (
        Column("txid", pa.int64(), "Transaction id.", f"{_OP}.txid", nullable=False),
        Column("op", pa.string(), "Operation, e.g. OP_MKDIR.", "FSEditLogOpCodes", nullable=False),
        Column("opcode", pa.int32(), "Its number.", "FSEditLogOpCodes", nullable=False),
        Column(
            "path",
            pa.string(),
            "The path it concerns; source of a rename, target of a concat, root of snapshots.",
            f"{_OP}.*.{{path,src,trg,snapshotRoot}}",
        ),
        Column(
            "target",
            pa.string(),
            "Where a rename or concat leads to, or a symlink points.",
            f"{_OP}.*.{{dst,trg,value}}",
        ),
        Column("inode_id", pa.int64(), "Id of the inode it makes; null for all that make none.", f"{_OP}.*.inodeId"),
        Column(
            "time",
            TIMESTAMP,
            "When it happened, where the operation says so; OP_TIMES holds what a client chose and so has none.",
            f"{_OP}.*.{{mtime,timestamp}}",
            "time, UTC",
        ),
        Column(
            "approximate_time",
            TIMESTAMP,
            "`time`, else that of the nearest transaction before it in the segment, else of the first that has one.",
            "",
            "time, UTC",
        ),
        Column("owner", pa.string(), "User it gives to the inode; null where it leaves him.", f"{_OP}.*.permissions"),
        Column("group", pa.string(), "Group it gives to the inode; null where it leaves it.", f"{_OP}.*.permissions"),
        Column(
            "permission",
            pa.int32(),
            "Mode bits it gives to the inode, sticky bit included, e.g. 0o644.",
            f"{_OP}.*.permissions.mode",
            "mode",
        ),
        Column("client_name", pa.string(), "Client that holds the lease from now on.", f"{_OP}.AddCloseOp.clientName"),
        Column("client_machine", pa.string(), "Machine of that client.", f"{_OP}.AddCloseOp.clientMachine"),
        Column(
            "length",
            pa.int64(),
            "Sum of the sizes of the blocks it names; of OP_CLOSE the length of the file.",
            f"{_OP}.*.blocks",
            "bytes",
        ),
        Column("block_count", pa.int32(), "Number of blocks it names.", f"{_OP}.*.blocks"),
        Column("replication", pa.int32(), "Replication factor it sets.", f"{_OP}.*.replication"),
        Column(
            "rpc_client_id",
            pa.binary(),
            "Client of the call, 16 bytes; null where it came with none.",
            f"{_OP}.rpcClientId",
        ),
        Column("rpc_call_id", pa.int32(), "Number of the call.", f"{_OP}.rpcCallId"),
        Column("fields", pa.string(), "Every field as JSON (`edits dump --format json`), secrets left out.", _OP),
        Column("segment", pa.string(), "Name of the segment's file.", "", nullable=False),
    ),
)
