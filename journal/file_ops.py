"""Operations on files and directories (FSEditLogOp): create, write, close, rename, delete."""

from __future__ import annotations

from dataclasses import dataclass

from image_format.storage_policies import POLICIES_SINCE
from journal.attribute_kinds import ACL_ENTRIES, XATTRS
from journal.compound_kinds import BLOCK_ARRAY, COMPACT_BLOCKS, PERMISSION_STATUS, TIMESTAMP_TWICE, TRUNCATE_BLOCK
from journal.kinds import BOOL, BYTE, CLIENT_ID, INT, LONG, RENAME_OPTIONS, SHORT, STR, STR_LIST
from journal.operation import EditOp, XmlConstant, field, operation
from journal.values import AclEntry, Block, PermissionStatus, XAttr

NO_CALL_ID = -2  # RpcConstants.INVALID_CALL_ID: the operation has no RPC for the retry cache
RENAME_OVERWRITE = 1  # Options.Rename.OVERWRITE
LENGTH = XmlConstant("LENGTH", "0")
_FILE_XML = ("inode_id", "path", "replication", "mtime", "atime", "block_size")


@dataclass(slots=True, kw_only=True, repr=False)
class RetryCacheOp(EditOp):
    """Base class of operations with an entry in the retry cache; its fields follow all other fields (writeRpcIds)."""

    rpc_client_id: bytes = field(CLIENT_ID, xml="RPC_CLIENTID", default=b"")
    rpc_call_id: int = field(INT, xml="RPC_CALLID", default=NO_CALL_ID)


@operation(
    0,
    "OP_ADD",
    xml=(
        LENGTH,
        *_FILE_XML,
        "client_name",
        "client_machine",
        "overwrite",
        "blocks",
        "permissions",
        "acl_entries",
        "erasure_coding_policy_id",
        "rpc_client_id",
        "rpc_call_id",
    ),
)
class AddOp(RetryCacheOp):
    """A new file, or the old form of append if the path exists and is closed. Times are in ms."""

    inode_id: int = field(LONG, xml="INODEID")
    path: str = field(STR, xml="PATH")
    replication: int = field(SHORT, xml="REPLICATION")
    mtime: int = field(LONG, xml="MTIME")
    atime: int = field(LONG, xml="ATIME")
    block_size: int = field(LONG, xml="BLOCKSIZE")
    blocks: tuple[Block, ...] = field(BLOCK_ARRAY, xml="BLOCK", default=())
    permissions: PermissionStatus = field(PERMISSION_STATUS, xml="PERMISSION_STATUS")
    acl_entries: tuple[AclEntry, ...] | None = field(ACL_ENTRIES, xml="ENTRY", default=None)
    xattrs: tuple[XAttr, ...] = field(XATTRS, since=-57, default=())
    client_name: str = field(STR, xml="CLIENT_NAME")
    client_machine: str = field(STR, xml="CLIENT_MACHINE")
    overwrite: bool = field(BOOL, xml="OVERWRITE", since=-58, default=False)
    storage_policy_id: int = field(BYTE, since=-60, default=0, values_since=POLICIES_SINCE)
    erasure_coding_policy_id: int = field(BYTE, xml="ERASURE_CODING_POLICY_ID", since=-64, default=0)


@operation(
    9,
    "OP_CLOSE",
    xml=(
        LENGTH,
        *_FILE_XML,
        XmlConstant("CLIENT_NAME", ""),
        XmlConstant("CLIENT_MACHINE", ""),
        XmlConstant("OVERWRITE", "false"),
        "blocks",
        "permissions",
    ),
)
class CloseOp(EditOp):
    """The closing of a file, with its full block list. Hadoop writes 0 for the inode id."""

    inode_id: int = field(LONG, xml="INODEID", default=0)
    path: str = field(STR, xml="PATH")
    replication: int = field(SHORT, xml="REPLICATION")
    mtime: int = field(LONG, xml="MTIME")
    atime: int = field(LONG, xml="ATIME")
    block_size: int = field(LONG, xml="BLOCKSIZE")
    blocks: tuple[Block, ...] = field(BLOCK_ARRAY, xml="BLOCK", default=())
    permissions: PermissionStatus = field(PERMISSION_STATUS, xml="PERMISSION_STATUS")


@operation(47, "OP_APPEND", since=-62)
class AppendOp(RetryCacheOp):
    """The opening of a closed file for append; with `new_block`, the last block stays unchanged."""

    path: str = field(STR, xml="PATH")
    client_name: str = field(STR, xml="CLIENT_NAME")
    client_machine: str = field(STR, xml="CLIENT_MACHINE")
    new_block: bool = field(BOOL, xml="NEWBLOCK")


@operation(33, "OP_ADD_BLOCK")
class AddBlockOp(RetryCacheOp):
    """A new block: `blocks` contains the previous block, if any, with its final length, and the new block."""

    path: str = field(STR, xml="PATH")
    blocks: tuple[Block, ...] = field(COMPACT_BLOCKS, xml="BLOCK")


@operation(25, "OP_UPDATE_BLOCKS")
class UpdateBlocksOp(RetryCacheOp):
    """The complete block list of a file under construction."""

    path: str = field(STR, xml="PATH")
    blocks: tuple[Block, ...] = field(COMPACT_BLOCKS, xml="BLOCK")


@operation(46, "OP_TRUNCATE", since=-61)
class TruncateOp(EditOp):
    """The truncation of a file to `new_length` bytes; `truncate_block` is set if the new end is within a block."""

    src: str = field(STR, xml="SRC")
    client_name: str = field(STR, xml="CLIENTNAME")
    client_machine: str = field(STR, xml="CLIENTMACHINE")
    new_length: int = field(LONG, xml="NEWLENGTH")
    timestamp: int = field(LONG, xml="TIMESTAMP")
    truncate_block: Block | None = field(TRUNCATE_BLOCK, xml="BLOCK", default=None)


@operation(16, "OP_CONCAT_DELETE", xml=(LENGTH, "trg", "timestamp", "srcs", "rpc_client_id", "rpc_call_id"))
class ConcatDeleteOp(RetryCacheOp):
    """A concatenation: the blocks of `srcs` are appended to `trg`, and the sources are deleted."""

    trg: str = field(STR, xml="TRG")
    srcs: tuple[str, ...] = field(STR_LIST, xml="SOURCES")
    timestamp: int = field(LONG, xml="TIMESTAMP")


@operation(1, "OP_RENAME_OLD", xml=(LENGTH, "src", "dst", "timestamp", "rpc_client_id", "rpc_call_id"))
class RenameOldOp(RetryCacheOp):
    """A rename without options, which moves the source into an existing directory."""

    src: str = field(STR, xml="SRC")
    dst: str = field(STR, xml="DST")
    timestamp: int = field(LONG, xml="TIMESTAMP")


@operation(15, "OP_RENAME", xml=(LENGTH, "src", "dst", "timestamp", "options", "rpc_client_id", "rpc_call_id"))
class RenameOp(RetryCacheOp):
    """A rename with options: one byte per option, such as RENAME_OVERWRITE."""

    src: str = field(STR, xml="SRC")
    dst: str = field(STR, xml="DST")
    timestamp: int = field(LONG, xml="TIMESTAMP")
    options: bytes = field(RENAME_OPTIONS, xml="OPTIONS", default=b"")


@operation(2, "OP_DELETE", xml=(LENGTH, "path", "timestamp", "rpc_client_id", "rpc_call_id"))
class DeleteOp(RetryCacheOp):
    """The deletion of a file or a whole directory."""

    path: str = field(STR, xml="PATH")
    timestamp: int = field(LONG, xml="TIMESTAMP")


@operation(3, "OP_MKDIR", xml=(LENGTH, "inode_id", "path", "timestamp", "permissions", "acl_entries", "xattrs"))
class MkdirOp(EditOp):
    """A new directory. `atime` is None if the record repeats `timestamp` in its place, as Hadoop does."""

    inode_id: int = field(LONG, xml="INODEID")
    path: str = field(STR, xml="PATH")
    timestamp: int = field(LONG, xml="TIMESTAMP", part=TIMESTAMP_TWICE)
    atime: int | None = field(LONG, part=TIMESTAMP_TWICE, default=None)
    permissions: PermissionStatus = field(PERMISSION_STATUS, xml="PERMISSION_STATUS")
    acl_entries: tuple[AclEntry, ...] | None = field(ACL_ENTRIES, xml="ENTRY", default=None)
    xattrs: tuple[XAttr, ...] = field(XATTRS, xml="XATTR", since=-57, default=())


@operation(
    17,
    "OP_SYMLINK",
    xml=(LENGTH, "inode_id", "path", "target", "mtime", "atime", "permissions", "rpc_client_id", "rpc_call_id"),
)
class SymlinkOp(RetryCacheOp):
    """A new symbolic link to `target`."""

    inode_id: int = field(LONG, xml="INODEID")
    path: str = field(STR, xml="PATH")
    target: str = field(STR, xml="VALUE")
    mtime: int = field(LONG, xml="MTIME")
    atime: int = field(LONG, xml="ATIME")
    permissions: PermissionStatus = field(PERMISSION_STATUS, xml="PERMISSION_STATUS")
