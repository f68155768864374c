"""Verification of a segment's checksums ahead of the replay, on another core.

The thread reads from the cursor to the segment's end, to a wrong checksum, or until it is stopped. It waits while it is
`_LEAD` bytes ahead. Its position only grows, and all checksums before the position are correct. The replay itself
verifies the checksums after the position. Therefore, a thread that is late, waits or was never started costs only time.
Only the replay reports damage.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Self

import numpy as np

from engine.replay.kernels.frames import NO_END, check_frames
from hadoop_common.process_tuning import available_cores
from journal.segment_format import SegmentCursor

_WORTH_A_THREAD = 1 << 20
_PIECE = 1 << 20
"""Number of bytes after which the thread updates its position."""
_LEAD = 1 << 26
"""Number of bytes that the thread may be ahead; these bytes stay in memory until the replay reads them."""


class ChecksumThread:
    """Thread that verifies the operations of a segment, and context manager that stops the thread.

    Args:
        cursor: start of the thread; nothing after the cursor's last transaction is read.
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
        """Report that the replay is at `position`; return the position up to which all checksums are correct."""
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
        # If no thread can be started, the replay verifies all checksums itself.
        with suppress(RuntimeError):
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._go_on.set()
        if self._thread.ident is not None:
            self._thread.join()


def checksum_thread(cursor: SegmentCursor) -> AbstractContextManager[ChecksumThread | None]:
    """Return a thread for a segment, or None if the segment is short or only one core is available."""
    if len(cursor.buffer) - cursor.position < _WORTH_A_THREAD or available_cores() == 1:
        return nullcontext()
    return ChecksumThread(cursor)
