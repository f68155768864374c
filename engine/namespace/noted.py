"""What kernels noted for snapshots: changes of diffs that they leave to Python, in the order in which they came.

A kernel changes rows and links at once, as if there were no snapshots, and notes what `History` would have done to the
diffs. Python does not read diffs while kernels run; `apply_notes` brings the diffs up to date afterwards. Kernels read
their state from the rows: `newest`, `born` and the mark `COPIED` are always as if all notes were applied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.namespace.diffs import CURRENT_STATE
from engine.namespace.history import History
from engine.namespace.reclaim_files import FileReclaimer
from image_format.inode_table import InodeTable

KEEP, CREATE, LEAVE, DELETE, MOVE = range(5)
"""What happened: an inode is as it was at a snapshot no more; a name came to a directory, or left it; a file that a
snapshot has was deleted, or moved elsewhere."""

NOTE_DTYPE = np.dtype(
    [
        ("kind", "i8"),
        ("row", "i8"),  # of the inode
        # The next three are not set for `KEEP`: row of the directory, and the name in it, see `InodeTable.names`.
        ("directory", "i8"),
        ("name_offset", "i8"),
        ("name_length", "i8"),
        ("latest", "i8"),  # id of the newest snapshot that the change is recorded for, plus one
        ("amount", "i8"),  # `KEEP`: bytes of a file, `growth` of a directory; `MOVE`: `latest` of the new place
        ("kept", "i8"),  # `KEEP` alone: number of the copy of the row as it was, -1 without one
    ]
)
KernelNotes = list[tuple[int, int, int, int, int, int, int, int]]


def apply_notes(
    table: InodeTable, history: History, reclaim: FileReclaimer, notes: KernelNotes, copies: npt.NDArray[Any]
) -> None:
    """Apply notes to the diffs.

    Args:
        reclaim: cuts the blocks of deleted files that no snapshot needs.
        notes: items of `NOTE_DTYPE`.
        copies: the rows that they refer to.
    """
    # Each name is needed as bytes; a view of the arena gives them quicker than an array does.
    names, diffs = table.names.data, history.diffs
    created: dict[int, dict[bytes, int | None]] = {}
    for kind, row, directory, offset, length, latest, amount, kept in notes:
        if kind == KEEP:
            # what its newest diff was until now
            created.pop(row, None)
            history.keep(row, latest - 1, amount, None if kept < 0 else copies[kept])
            continue
        name = bytes(names[offset : offset + length])
        if kind == CREATE:
            # A few directories get many names.
            if directory not in created:
                created[directory] = diffs.to_create(directory)
            created[directory][name] = None
        elif kind == MOVE:
            history.leave_name(row, directory, name, latest - 1, amount - 1 if amount > 0 else CURRENT_STATE)
        else:
            diffs.delete(directory, name, row)
            if kind == DELETE:
                reclaim.delete_kept(row)
