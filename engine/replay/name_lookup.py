"""Finds names of coming operations in the base image, piece by piece; see `kernels.names_ahead`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.replay.base_arrays import base_arrays, new_state, point_to
from engine.replay.kernels import state
from engine.replay.kernels.base_children import PATHS_OF_ONE, UNREAD
from engine.replay.kernels.frames import NO_END
from engine.replay.kernels.names_ahead import look_up_names
from engine.replay.opened_directories import OpenedDirectories
from image_format.index import ImageIndex
from image_format.room import Room
from journal.segment import SegmentCursor

_FOUND_COLUMNS = 6
_SEEN_COLUMNS = 4
_MOST_SEEN = 1 << 16

Found = npt.NDArray[np.int64]
"""Rows of `kernels.state.found_ahead_of`."""
NOTHING_FOUND: Found = np.zeros((0, _FOUND_COLUMNS), np.int64)


@dataclass(frozen=True, slots=True)
class Piece:
    """What the names of operations in a row lead to.

    Attributes:
        first, behind: the operations, counted from where the look-up began.
    """

    first: int
    behind: int
    found: Found


class NameLookup:
    """Looks names up in one base image; it takes no part in the replay, and may work beside it.

    Args:
        index: of the base image.
        room: for its arrays.

    Raises:
        ImageStorageError, MemoryError: see `Room.zeros`.
    """

    def __init__(self, index: ImageIndex, room: Room) -> None:
        self._index = index
        self._state = new_state()
        self._directories = OpenedDirectories(room)
        count = index.arrays.directory_ids.size
        self._opened_at: npt.NDArray[np.int32] = room.zeros(count + 1, np.int32)
        self._unread: npt.NDArray[np.int64] = np.zeros((UNREAD, 2), np.int64)
        places = min(1 << (2 * count).bit_length(), _MOST_SEEN)
        self._seen: npt.NDArray[np.int64] = room.zeros((places, _SEEN_COLUMNS), np.int64)
        fixed: dict[str, npt.NDArray[Any]] = {
            "opened_at": self._opened_at,
            "unread": self._unread,
            "seen_paths": self._seen,
        }
        for name, array in {**base_arrays(index), **fixed}.items():
            point_to(self._state, name, array)

    def begin(self, cursor: SegmentCursor) -> None:
        """Begin a segment where a cursor is; paths that were seen stand in the bytes of another one."""
        self._buffer = np.frombuffer(cursor.buffer, np.uint8)
        self._position = cursor.position
        self._last_txid = NO_END if cursor.last_txid is None else cursor.last_txid
        self._seen[:] = 0
        self._behind = 0
        self._ended = False

    def end(self) -> None:
        """Let go of the segment."""
        del self._buffer

    def next_piece(self, begin: int, most: int) -> Piece | None:
        """What the names of at most so many operations lead to; None at the end and before what is damaged.

        Args:
            begin: operations before this one are passed over.

        Raises:
            ImageStorageError, MemoryError: there is no room for more directories.
        """
        found = np.empty((most * PATHS_OF_ONE, _FOUND_COLUMNS), np.int64)
        first, paths = max(begin, self._behind), 0
        while not self._ended and self._behind < first + most:
            self._point(found[paths:])
            skipped = max(first - self._behind, 0)
            limit = first + most - max(first, self._behind)
            self._position, walked, count, more, status = look_up_names(
                self._state, self._buffer, self._position, skipped, limit, self._last_txid
            )
            self._behind += walked + count
            paths += more
            self._ended = status == state.UNUSUAL
            self._grow()
        return Piece(first, self._behind, found[:paths]) if self._behind > first else None

    def _point(self, found: Found) -> None:
        kept, numbers = self._directories, self._state
        numbers[state.OPENED_USED] = kept.opened_used
        numbers[state.NAMED_USED] = kept.named_used
        numbers[state.NAMED_WANTED] = kept.named_wanted
        point_to(numbers, "opened", kept.opened)
        point_to(numbers, "named", kept.named)
        point_to(numbers, "found_ahead", found)

    def _grow(self) -> None:
        """Take up what a run used, and make the room that it lacked."""
        kept, numbers = self._directories, self._state
        kept.opened_used = int(numbers[state.OPENED_USED])
        kept.named_used = int(numbers[state.NAMED_USED])
        kept.named_wanted = int(numbers[state.NAMED_WANTED])
        kept.grow_named()
        kept.grow_opened()
