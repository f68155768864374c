"""Finds where a section is cut into sub-sections while its bytes stream by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.codecs import Buffer
from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.records import BY_CHILDREN, BY_DIFF_LIST, BY_RECORD, DIFF_STATE, cut_records

_MODES = {"INODE": BY_RECORD, "INODE_DIR": BY_CHILDREN, "SNAPSHOT_DIFF": BY_DIFF_LIST}
_MAX_PREFIX = 10


class SectionCutter:
    """Finds where to cut a section while its bytes pass by.

    A slice is for `step` = ceil(inodes / target) inodes. INODE is cut after so many records, INODE_DIR as soon as so
    many children have passed, both as a NameNode does, SNAPSHOT_DIFF after the lists of so many inodes.

    Args:
        section: one of `sub_sections.CUTTABLE`.
        target: number of slices aimed at, positive.
        inodes: in the image.
        place: of the section, for errors.
    """

    def __init__(self, section: str, target: int, inodes: int, place: BufferOrigin | None = None) -> None:
        self._mode = _MODES[section]
        self._step = max(1, -(-inodes // target))
        self._place = place or BufferOrigin(section=section, base=None)
        self._progress = np.zeros(2, np.int64)
        self._state = np.zeros(DIFF_STATE, np.int64)
        self._found = np.empty(4096, np.int64)
        self._ends: list[int] = []
        self._rest = bytearray()
        self._size = 0

    def feed(self, chunk: Buffer) -> list[int]:
        """Take the next bytes of the section; returns where in them a slice ends, ascending.

        Raises:
            RecordError: they are no records of this section.
        """
        known = len(self._ends)
        view = memoryview(chunk)
        start = self._complete(view) if self._rest else 0
        if start < len(view):
            stop = self._walk(np.frombuffer(view, np.uint8)[start:], self._size + start) + start
            self._rest += view[stop:]
        before, self._size = self._size, self._size + len(view)
        return [end - before for end in self._ends[known:]]

    def finish(self) -> list[tuple[int, int]]:
        """Slices as (offset, length) from the section's start, none of them empty.

        Raises:
            RecordError: the section ends within a record, or within the list of an inode's diffs.
        """
        if self._rest or self._state[1] or self._state[2]:
            raise self._place.error(RecordError, "the section ends within a record", self._size)
        ends = self._ends
        if self._size and (not ends or ends[-1] < self._size):
            ends = [*ends, self._size]
        starts = [0, *ends[:-1]]
        return [(start, end - start) for start, end in zip(starts, ends, strict=True)] if ends else []

    def _complete(self, view: memoryview) -> int:
        """Finish the record that earlier chunks began; returns how much of `view` belongs to it."""
        rest = self._rest
        known = len(rest)
        size = _record_size(bytes(rest[:_MAX_PREFIX]) + bytes(view[: max(0, _MAX_PREFIX - known)]))
        taken = len(view) if size < 0 else min(len(view), size - known)
        rest += view[:taken]
        if size < 0 and len(rest) >= _MAX_PREFIX:
            raise self._place.error(RecordError, "damaged length of a record", self._size - known)
        if len(rest) == size:
            self._walk(np.frombuffer(bytes(rest), np.uint8), self._size - known)
            self._rest = bytearray()
        return taken

    def _walk(self, data: npt.NDArray[np.uint8], base: int) -> int:
        """Walk the whole records of `data`; returns where the first incomplete one starts."""
        position = 0
        while True:
            count, position, damaged = cut_records(
                data, position, self._mode, self._step, self._progress, self._state, self._found
            )
            self._ends.extend((self._found[:count] + base).tolist())
            if damaged:
                raise self._place.error(RecordError, "damaged record", base + position)
            if count < self._found.size:
                return int(position)


def _record_size(prefix: bytes) -> int:
    """Size of the record with its length before it, -1 where `prefix` holds no whole varint."""
    value = 0
    for index, byte in enumerate(prefix):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value + index + 1
    return -1
