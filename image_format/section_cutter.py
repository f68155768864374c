"""Cuts a section into sub-sections while its bytes are streamed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.codecs import Buffer
from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.records import BY_CHILDREN, BY_DIFF_LIST, BY_RECORD, DIFF_STATE, cut_records

_MODES = {"INODE": BY_RECORD, "INODE_DIR": BY_CHILDREN, "SNAPSHOT_DIFF": BY_DIFF_LIST}
_MAX_PREFIX = 10


class SectionCutter:
    """Finder of the ends of sub-sections in the streamed bytes of a section.

    A sub-section covers `step` = ceil(inodes / target) inodes. As in a NameNode, INODE is cut after `step` records, and
    INODE_DIR after the entry that reaches `step` children. SNAPSHOT_DIFF is cut after the lists of `step` inodes.

    Args:
        section: one of `sub_section_rules.CUTTABLE`.
        target: intended number of sub-sections, which is positive.
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
        """Process the next bytes of the section; return the ends of sub-sections in these bytes, in ascending order.

        Raises:
            RecordError: the bytes are not records of this section.
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
        """Return the non-empty sub-sections as (offset, length) from the section's start.

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
        """Complete the record that began in earlier chunks; return the number of bytes of `view` that belong to it."""
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
        """Walk the complete records of `data`; return the start of the first incomplete record."""
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
    """Return the size of a record including its length prefix, or -1 if `prefix` has no complete varint."""
    value = 0
    for index, byte in enumerate(prefix):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value + index + 1
    return -1
