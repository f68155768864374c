"""Notes of kernels: changes to snapshot diffs that kernels leave to Python, in the order of the operations.

A kernel changes rows and links immediately, as if there were no snapshots, and notes the changes of `DiffRecorder` to
the diffs. Python does not read diffs while kernels run; `apply_notes` updates the diffs afterwards. Kernels
read the state of diffs from the rows: `newest`, `born` and the `COPIED` mark always include all notes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.namespace.diff_recorder import DiffRecorder
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff
from engine.namespace.reclaim_files import FileReclaimer
from image_format.inode_table import InodeTable

KEEP, CREATE, LEAVE, DELETE, MOVE = range(5)
"""Kinds of notes: the first change of an inode since a snapshot; a name added to or removed from a directory; deletion
or move of a file that a snapshot contains.
"""

NOTE_DTYPE = np.dtype(
    [
        ("kind", "i8"),
        ("row", "i8"),  # row of the inode
        # The next three fields are not set for `KEEP`: row of the directory, and the name in it; see
        # `InodeTable.names`.
        ("directory", "i8"),
        ("name_offset", "i8"),
        ("name_length", "i8"),
        ("latest", "i8"),  # id of the newest snapshot for which the change is recorded, plus one
        ("amount", "i8"),  # `KEEP`: bytes of a file, `growth` of a directory; `MOVE`: `latest` of the new place
        ("kept", "i8"),  # `KEEP` only: number of the copy of the unchanged row, or -1
    ]
)
KernelNotes = list[list[int]]


def note_numbers(notes: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return notes as rows of integers, which can be converted to lists much faster than records."""
    return notes.view(np.int64).reshape(notes.size, len(NOTE_DTYPE.names or ()))


def apply_notes(
    table: InodeTable,
    recorder: DiffRecorder,
    reclaim: FileReclaimer,
    notes: KernelNotes,
    copies: npt.NDArray[Any],
    newest: dict[int, DirectoryDiff],
) -> None:
    """Apply notes to the diffs.

    Args:
        newest: the newest diffs of directories that earlier notes changed, by row; this function adds to them.
        reclaim: truncates blocks of deleted files that snapshots do not need.
    """
    # A memory view of the arena returns names as bytes faster than an array does.
    names, diffs = table.names.data, recorder.diffs
    for kind, row, directory, offset, length, latest, amount, kept in notes:
        if kind == KEEP:
            # The cached diff is no longer the newest.
            newest.pop(row, None)
            recorder.keep(row, latest - 1, amount, None if kept < 0 else copies[kept])
            continue
        name = names[offset : offset + length].tobytes()
        # Usually, few directories receive many names.
        diff = newest.get(directory)
        if diff is None:
            diff = newest[directory] = diffs.newest(directory)
        if kind == CREATE:
            diff.created[name] = None
        elif kind == MOVE:
            recorder.leave_name(row, directory, name, latest - 1, amount - 1 if amount > 0 else CURRENT_STATE)
        else:
            diff.delete(name, row)
            if kind == DELETE:
                reclaim.delete_kept(row)
