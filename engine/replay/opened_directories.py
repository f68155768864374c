"""What compiled look-ups know of directories of the base image: where their children stand, and tables of names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.errors import ImageStorageError
from image_format.room import Growing, Room

_DIRECTORIES = 1 << 8
_COLUMNS = 6
_NAMED = 1 << 14
_NO_NAMES = np.zeros(0, np.uint32)
_NO_ROOM = -1


class OpenedDirectories:
    """Arrays that `engine.replay.kernels.base_children` works on, and how much of them is used.

    Attributes:
        opened: see `kernels.state.opened_of`; named: see `kernels.state.named_of`.
        named_wanted: places that a table of names lacked, 0 for none, negative if there are to be no new tables.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.opened: npt.NDArray[np.int64] = room.zeros((_DIRECTORIES, _COLUMNS), np.int64)
        self.opened_used = 0
        self._named_room = Growing(room, np.uint32, _NAMED)
        self.named: npt.NDArray[np.uint32] = self._named_room.array
        self.named_used = self.named_wanted = 0

    def grow_opened(self) -> None:
        """Make room for as many directories again where it is full; raises as `Room.zeros`."""
        if self.opened_used == self.opened.shape[0]:
            wider = self._room.zeros((2 * self.opened_used, _COLUMNS), np.int64)
            wider[: self.opened_used] = self.opened
            self.opened = wider

    def grow_named(self) -> None:
        """Make room for a table of names that found none."""
        if self.named_wanted <= 0:
            return
        self.named = _NO_NAMES
        try:
            self._named_room.grow(self.named_used, self.named_used + self.named_wanted)
            self.named_wanted = 0
        except (ImageStorageError, MemoryError):
            # Names are found without tables as well, so there are no new ones from here on.
            self.named_wanted = _NO_ROOM
        finally:
            self.named = self._named_room.array
