"""Times and paths in the operations of an edit log."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from journal.operation import EditOp
from journal.ops import AddOp, DeleteOp, RenameOldOp, RenameOp, by_name

MAX_MILLIS: Final = 253402300799999  # last millisecond of the year 9999, where SQL's timestamps end

# OP_TIMES contains a time that a client set, and token renewals contain a future time.
CLOCKS: Final = {
    "OP_ADD": "mtime",
    "OP_CLOSE": "mtime",
    "OP_TRUNCATE": "timestamp",
    "OP_CONCAT_DELETE": "timestamp",
    "OP_RENAME_OLD": "timestamp",
    "OP_RENAME": "timestamp",
    "OP_DELETE": "timestamp",
    "OP_MKDIR": "timestamp",
    "OP_SYMLINK": "mtime",
    "OP_CREATE_SNAPSHOT": "mtime",
    "OP_DELETE_SNAPSHOT": "mtime",
    "OP_RENAME_SNAPSHOT": "mtime",
    "OP_GET_DELEGATION_TOKEN": "token.issue_date",
    "OP_ROLLING_UPGRADE_START": "time",
    "OP_ROLLING_UPGRADE_FINALIZE": "time",
}
"""Fields with the time at which the NameNode logged an operation."""
_TIMES: Final = {by_name(name).opcode: attrgetter(path) for name, path in CLOCKS.items()}
TIMED: Final = frozenset(_TIMES)
"""Opcodes of the operations that may contain a time."""
PATHS: Final = ("path", "src", "dst", "trg", "snapshot_root")
"""Fields with a path."""
PATH_LISTS: Final = ("srcs",)
"""Fields with several paths."""
SPREADING: Final = frozenset(each.opcode for each in (DeleteOp, RenameOldOp, RenameOp))
"""Opcodes of the operations that delete or rename their paths, and thus affect everything below these paths."""


def op_time(op: EditOp) -> int | None:
    """Return the time at which `op` was logged, in ms since 1970; None if unknown.

    An OP_ADD with blocks is an append of a Hadoop release before 2.7, and contains the file's old times.
    """
    getter = _TIMES.get(op.opcode)
    if getter is None or (isinstance(op, AddOp) and op.blocks):
        return None
    milliseconds: int = getter(op)
    return milliseconds if 0 < milliseconds <= MAX_MILLIS else None


def op_paths(op: EditOp) -> Iterator[str]:
    """Yield the paths in `op`, unchanged."""
    for name in PATHS:
        if isinstance(path := getattr(op, name, None), str):
            yield path
    for name in PATH_LISTS:
        yield from getattr(op, name, ())


def spreads(op: EditOp) -> bool:
    """Return whether `op` deletes or renames its paths, and thus affects everything below these paths."""
    return op.opcode in SPREADING


def clean_path(path: str) -> str:
    """Return a path without empty components."""
    return "/" + "/".join(part for part in path.split("/") if part)


def covers(above: str, path: str) -> bool:
    """Return whether `path` is `above` or below it; both must be clean."""
    return path == above or path.startswith(above.rstrip("/") + "/")
