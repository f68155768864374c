"""Columns of the `edits` table: a row for each transaction."""

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
        Column("opcode", pa.int32(), "Number of the operation.", "FSEditLogOpCodes", nullable=False),
        Column(
            "path",
            pa.string(),
            "Affected path: source of a rename, target of a concat, snapshottable directory.",
            f"{_OP}.*.{{path,src,trg,snapshotRoot}}",
        ),
        Column("target", pa.string(), "Target of a rename, concat or symlink.", f"{_OP}.*.{{dst,trg,value}}"),
        Column(
            "inode_id",
            pa.int64(),
            "Id of the new inode; null for operations that do not create an inode.",
            f"{_OP}.*.inodeId",
        ),
        Column(
            "time",
            TIMESTAMP,
            "Time of logging, if the operation contains this time; the times in OP_TIMES come from a client.",
            f"{_OP}.*.{{mtime,timestamp}}",
            "time, UTC",
        ),
        Column(
            "approximate_time",
            TIMESTAMP,
            "`time`, or the time of the nearest earlier transaction in the segment, or of the first transaction "
            "with a time.",
            "",
            "time, UTC",
        ),
        Column("owner", pa.string(), "New user of the inode; null for no change.", f"{_OP}.*.permissions"),
        Column("group", pa.string(), "New group of the inode; null for no change.", f"{_OP}.*.permissions"),
        Column(
            "permission",
            pa.int32(),
            "New mode bits of the inode, including the sticky bit, e.g. 0o1777.",
            f"{_OP}.*.permissions.mode",
            "mode",
        ),
        Column(
            "client_name",
            pa.string(),
            "Client that holds the lease after the operation.",
            f"{_OP}.AddCloseOp.clientName",
        ),
        Column("client_machine", pa.string(), "Machine of that client.", f"{_OP}.AddCloseOp.clientMachine"),
        Column(
            "length",
            pa.int64(),
            "Sum of the block sizes in the operation; for OP_CLOSE the length of the file.",
            f"{_OP}.*.blocks",
            "bytes",
        ),
        Column("block_count", pa.int32(), "Number of blocks in the operation.", f"{_OP}.*.blocks"),
        Column("replication", pa.int32(), "New replication factor.", f"{_OP}.*.replication"),
        Column("rpc_client_id", pa.binary(), "Client of the call, 16 bytes; null if unknown.", f"{_OP}.rpcClientId"),
        Column("rpc_call_id", pa.int32(), "Number of the call.", f"{_OP}.rpcCallId"),
        Column("fields", pa.string(), "All fields as JSON (`edits dump --format json`), without secrets.", _OP),
        Column("segment", pa.string(), "Name of the segment's file.", "", nullable=False),
    ),
)
