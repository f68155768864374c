"""Offsets of the fields of operations, from their declarations (`journal.ops`), as constants for kernels.

An operation consists of its frame, followed by its fields (`journal.binary_codec`). Kernels walk over a field without a
fixed size, such as a path; the offsets here count from the end of that field.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from journal import kinds, ops
from journal.ops import EditOp
from journal.values import Block

FIRST_LAYOUT: Final = -60
"""Older edit logs encode operations in other forms, which the plain functions read."""
ERASURE_CODING: Final = next(field.since or 0 for field in ops.AddOp.fields if field.name == "erasure_coding_policy_id")
"""The first layout in which OP_ADD contains the id of an erasure coding policy."""
SNAPSHOT_TIMES: Final = next(field.since or 0 for field in ops.CreateSnapshotOp.fields if field.name == "mtime")
"""The first layout in which operations on snapshots contain a time."""

_SIZES = {kinds.BYTE: 1, kinds.BOOL: 1, kinds.SHORT: 2, kinds.MODE: 2, kinds.INT: 4, kinds.LONG: 8}
COUNT: Final = _SIZES[kinds.INT]
"""Size in bytes of the count that precedes an array or a byte string."""


def _behind(kind: type[EditOp], walked: str = "", layout: int = FIRST_LAYOUT) -> Any:
    """Return a named tuple of offsets after the `walked` field, or from the first field.

    The last offset belongs to a field without a fixed size, or is `end`.
    """
    names = [field.name for field in kind.fields]
    offsets: dict[str, int] = {}
    at = 0
    for field in kind.fields[names.index(walked) + 1 if walked else 0 :]:
        if field.present_in(layout):
            offsets[field.name] = at
            if field.kind not in _SIZES:
                break
            at += _SIZES[field.kind]
    else:
        offsets["end"] = at
    return namedtuple(kind.name, offsets)(**offsets)


ADD_HEAD = _behind(ops.AddOp)
ADD = _behind(ops.AddOp, "path")
ADD_TAIL = _behind(ops.AddOp, "client_machine", ERASURE_CODING)
ADD_TAIL_WITHOUT_EC = _behind(ops.AddOp, "client_machine", ERASURE_CODING + 1)
CLOSE_HEAD = _behind(ops.CloseOp)
CLOSE = _behind(ops.CloseOp, "path")
MKDIR_HEAD = _behind(ops.MkdirOp)
MKDIR = _behind(ops.MkdirOp, "path")
DELETE = _behind(ops.DeleteOp, "path")
RENAME_OLD = _behind(ops.RenameOldOp, "dst")
RENAME = _behind(ops.RenameOp, "dst")
TIMES = _behind(ops.TimesOp, "path")
SET_REPLICATION = _behind(ops.SetReplicationOp, "path")
SET_PERMISSIONS = _behind(ops.SetPermissionsOp, "src")
CREATE_SNAPSHOT = _behind(ops.CreateSnapshotOp, "snapshot_name", SNAPSHOT_TIMES)
DELETE_SNAPSHOT = _behind(ops.DeleteSnapshotOp, "snapshot_name", SNAPSHOT_TIMES)
RENAME_SNAPSHOT = _behind(ops.RenameSnapshotOp, "snapshot_new_name", SNAPSHOT_TIMES)
ALLOCATE_BLOCK_ID = _behind(ops.AllocateBlockIdOp)
SET_GENSTAMP_V2 = _behind(ops.SetGenstampV2Op)

BLOCK_SIZE: Final = _SIZES[kinds.LONG] * len(Block._fields)
BLOCK: Any = Block(*range(0, BLOCK_SIZE, _SIZES[kinds.LONG]))
"""Offsets in an element of `blocks` of ADD and CLOSE, three longs (`compound_kinds.BLOCK_ARRAY`)."""

_ANYWHERE = (
    ops.DeleteOp,
    ops.RenameOldOp,
    ops.RenameOp,
    ops.SetOwnerOp,
    ops.SetPermissionsOp,
    ops.SetReplicationOp,
    ops.TimesOp,
)
_WITH_TARGET = ops.RenameOldOp, ops.RenameOp


def _by_opcode(*kinds_of: type[EditOp]) -> npt.NDArray[np.bool_]:
    marks = np.zeros(256, np.bool_)
    marks[[kind.opcode for kind in kinds_of]] = True
    return marks


PATH_FIRST: Final = _by_opcode(*_ANYWHERE)
"""Whether an operation begins with a path that may be anywhere in the tree, by opcode.

Paths of new files are close together.
"""
TARGET_NEXT: Final = _by_opcode(*_WITH_TARGET)
"""Whether the path of a target follows, by opcode."""
