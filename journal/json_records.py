"""A transaction as a line of a JSON journal, in the tutorial form: `{"OP":"MKDIR","txid":5,"PATH":"/a",...}`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from journal.edits_text import check_txid
from journal.errors import EditsTextError
from journal.json_codec import BAD_JSON, field_from_json, fields_to_json
from journal.operation import EditOp, OpField
from journal.ops import (
    AddOp,
    AppendOp,
    CloseOp,
    ConcatDeleteOp,
    DeleteOp,
    MkdirOp,
    PermissionStatus,
    RenameOldOp,
    RenameOp,
    SymlinkOp,
    TimesOp,
    TruncateOp,
    by_name,
)

_OP, _TXID, _LAYOUT = "OP", "txid", "layoutVersion"
_PREFIX = "OP_"
_ALIASES = {"CREATE": "ADD", "RM": "DELETE"}

_CLIENT = {"client_name": "json-journal", "client_machine": ""}
_FILE = {
    "replication": 3,  # dfs.replication
    "mtime": 0,
    "block_size": 134217728,  # dfs.blocksize
    "permissions": PermissionStatus("hdfs", "supergroup", 0o644),
}
# Default values of fields that a hand-written record may omit, although the operation does not define a default.
_LEFT_OUT: dict[type[EditOp], dict[str, Any]] = {
    AddOp: {**_FILE, **_CLIENT},
    AppendOp: {**_CLIENT, "new_block": False},
    CloseOp: _FILE,
    ConcatDeleteOp: {"timestamp": 0},
    DeleteOp: {"timestamp": 0},
    MkdirOp: {"timestamp": 0, "permissions": PermissionStatus("hdfs", "supergroup", 0o755)},
    RenameOldOp: {"timestamp": 0},
    RenameOp: {"timestamp": 0},
    SymlinkOp: {"mtime": 0, "permissions": PermissionStatus("hdfs", "supergroup", 0o777)},
    TimesOp: {"mtime": -1, "atime": -1},
    TruncateOp: {**_CLIENT, "timestamp": 0},
}
_MAKES_AN_INODE = (AddOp, MkdirOp, SymlinkOp)
_ATIME_FOLLOWS = (AddOp, CloseOp, SymlinkOp)


class JsonRecord(NamedTuple):
    """An operation, and the layout version that its line names."""

    op: EditOp
    layout_version: int | None


def encode_record(op: EditOp, layout_version: int | None = None) -> str:
    """Return one line of ASCII without its line feed, with every field of `op`; bytes are hexadecimal.

    Args:
        layout_version: layout version in which `op` is encoded. The first record of a file names it for all records.
    """
    members: dict[str, Any] = {_OP: op.name.removeprefix(_PREFIX), _TXID: op.txid}
    if layout_version is not None:
        members[_LAYOUT] = layout_version
    members.update((name.upper(), value) for name, value in fields_to_json(op).items())
    return json.dumps(members, separators=(",", ":"))


def decode_record(line: str) -> JsonRecord:
    """Parse a line; ignore the case of names and their underscores. Names of operations may omit `OP_`.

    CREATE means OP_ADD, and RM means OP_DELETE. Missing fields receive their default values. Fields without a default
    receive values that depend only on the record. Inode ids are 16385 + txid; a NameNode cannot have assigned this id
    before, because each assignment requires a transaction. Times are 0, or -1 (unchanged) in TIMES. The owner is
    hdfs:supergroup, with mode 0755 for directories, 0644 for files and 0777 for links. Replication and block size are
    Hadoop's defaults.

    Raises:
        EditsTextError: the line is not a transaction.
    """
    txid = None
    try:
        members = _distinct(
            (_folded(name), value) for name, value in json.loads(line, object_pairs_hook=_distinct).items()
        )
        txid = check_txid(_taken(members, _TXID))
        layout_version = members.pop(_folded(_LAYOUT), None)
        if layout_version is not None and type(layout_version) is not int:
            raise TypeError(f"{_LAYOUT} is {str(layout_version)[:40]!r}")
        op = _operation(_class_of(_taken(members, _OP)), txid, members)
    except BAD_JSON as error:
        raise EditsTextError(f"not a transaction in JSON: {error!r}", txid=txid) from None
    return JsonRecord(op, layout_version)


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name[:40]!r} appears twice")
        members[name] = value
    return members


def _taken(members: dict[str, Any], name: str) -> Any:
    try:
        return members.pop(_folded(name))
    except KeyError:
        raise ValueError(f"{name} is missing") from None


def _class_of(name: str) -> type[EditOp]:
    bare = name.upper().removeprefix(_PREFIX)
    return by_name(_PREFIX + _ALIASES.get(bare, bare))


def _operation(cls: type[EditOp], txid: int, members: dict[str, Any]) -> EditOp:
    fields = {_folded(item.name): item for item in cls.fields}
    values: dict[str, Any] = {}
    for name, value in members.items():
        if name not in fields:
            raise ValueError(f"{cls.name} has no {name[:40]!r}")
        item = fields[name]
        values[item.name] = field_from_json(item, value)
    missing = [item for item in cls.fields if item.name not in values and not item.has_default]
    for item in missing:
        values[item.name] = _left_out(cls, txid, item, values)
    return cls(txid=txid, **values)


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _left_out(cls: type[EditOp], txid: int, item: OpField, values: dict[str, Any]) -> Any:
    if item.name == "inode_id" and cls in _MAKES_AN_INODE:
        return ROOT_INODE_ID + txid
    if item.name == "atime" and cls in _ATIME_FOLLOWS:
        return values["mtime"]
    try:
        return _LEFT_OUT[cls][item.name]
    except KeyError:
        raise ValueError(f"{cls.name} needs {item.name.upper()}") from None
