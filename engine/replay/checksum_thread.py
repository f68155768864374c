"""Takes the checksums of a segment's operations ahead of the replay, on another core.

The thread walks from the cursor to the segment's end, to a checksum that is wrong, or until it is told to stop. It
waits where it is `_LEAD` bytes ahead. Its position only grows, and everything before it is right; the replay takes the
checksums behind it itself. So a thread that is late, waits, or never began costs time and nothing else; and the
replay, not the thread, tells damage.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Self

import numpy as np

from engine.replay.kernels.frames import NO_END, check_frames
from hadoop_common.cores import available_cores
from journal.segment import SegmentCursor

_WORTH_A_THREAD = 1 << 20
_PIECE = 1 << 20
"""Bytes after each of which the thread tells how far it is."""
_LEAD = 1 << 26
"""Bytes that it may be ahead: they stay in memory until the replay reads them, too."""


class ChecksumThread:
    """A thread that walks the operations of a segment; a context manager, at whose end it looks at none any more.

    Args:
        cursor: where it is the thread starts; behind the cursor's last transaction nothing is looked at.
    """

    def __init__(self, cursor: SegmentCursor) -> None:
        self._buffer = cursor.buffer
        self._last_txid = NO_END if cursor.last_txid is None else cursor.last_txid
        self._position = cursor.position
        self._allowed = cursor.position + _LEAD
        self._go_on = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._walk, name="replay-checksums", daemon=True)

    def known(self, position: int) -> int:
        """Where the replay is at `position`, up to where all operations from there on have the right checksums."""
        self._allowed = position + _LEAD
        self._go_on.set()
        return self._position

    def _walk(self) -> None:
        buffer = np.frombuffer(self._buffer, np.uint8)
        more = self._position < buffer.size
        while more and not self._ended:
            if self._position >= self._allowed:
                self._go_on.wait()
                self._go_on.clear()
            else:
                stop = self._position + _PIECE
                self._position, more = check_frames(buffer, self._position, stop, self._last_txid)

    def __enter__(self) -> Self:
        # where there can be no more threads the replay takes all checksums itself
        with suppress(RuntimeError):
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._go_on.set()
        if self._thread.ident is not None:
            self._thread.join()


def checksum_thread(cursor: SegmentCursor) -> AbstractContextManager[ChecksumThread | None]:
    """None where a thread is of no use: for a short segment, and on one core."""
    if len(cursor.buffer) - cursor.position < _WORTH_A_THREAD or available_cores() == 1:
        return nullcontext()
    return ChecksumThread(cursor)
