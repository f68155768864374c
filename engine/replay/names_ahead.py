"""Looks names up in the base image ahead of the replay, on another core.

The thread takes operations piece by piece. The replay asks for the piece that it is at, and never waits:

    a piece is ready    the replay goes to its end with what was found.
    none is ready       the replay goes on by itself for twice a piece, which the thread passes over. Meanwhile the
                        thread has the time for a piece of its own, and is ahead when they meet. Whoever is quicker does
                        more.
    `_LEAD` are ready   the thread waits, so that the processor's cache still has what it looked at.

A piece that comes too late is thrown away. A thread that is late, ends, or never began costs time and nothing else:
what it says is true of the base image, whatever edits do (`kernels.names_ahead`).

It does work that the replay does anyway, and some of it twice, so it pays only on a core that has nothing else to do.
It begins when such a core is there, and ends with the segment or once it got less than half of a core's time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from hadoop_common.cores import available_cores
from image_format.errors import ImageStorageError
from journal.segment import SegmentCursor

if TYPE_CHECKING:
    from engine.replay.compiled import CompiledReplay
    from engine.replay.name_lookup import NameLookup, Piece

_WORTH_A_THREAD = 1 << 20
_PIECE = 1 << 11
"""Operations."""
_LEAD = 8
_PAUSE = 0.01
"""Seconds between two questions for a free core, and before the thread looks at how much of one it got."""


class Names(Protocol):
    """Who looks names up ahead."""

    def at(self, done: int) -> tuple[Piece | None, int]:
        """(the piece that holds operation number `done` of the segment, if there is one, how far to go with it)."""


class NamesAhead:
    """A thread that looks names of a segment up; a context manager, at whose end it looks at none any more.

    Args:
        core_free: asked now and then, until it says so, whether a core has nothing else to do.
    """

    def __init__(self, lookup: NameLookup, core_free: Callable[[], bool]) -> None:
        self._lookup = lookup
        self._core_free = core_free
        self._ready: deque[Piece] = deque()
        # up to it the replay is by itself
        self._begin = 0
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._walk, name="replay-names", daemon=True)

    def at(self, done: int) -> tuple[Piece | None, int]:
        """See `Names.at`."""
        with self._changed:
            while self._ready and self._ready[0].behind <= done:
                self._ready.popleft()
            self._changed.notify()
            if not self._ready:
                if self._begin <= done:
                    self._begin = done + 2 * _PIECE
                return None, self._begin - done
            piece = self._ready[0]
        return (piece, piece.behind - done) if piece.first <= done else (None, piece.first - done)

    def _walk(self) -> None:
        with self._changed:
            while not self._ended and not self._core_free():
                self._changed.wait(_PAUSE)
        # without room for more the replay looks all names up itself
        with suppress(ImageStorageError, MemoryError):
            self._look_up()
        self._lookup.end()

    def _look_up(self) -> None:
        wanted = got = 0.0
        while (begin := self._may_go_on()) is not None and (wanted < _PAUSE or got > wanted / 2):
            clock, processor = time.monotonic(), time.thread_time()
            piece = self._lookup.next_piece(begin, _PIECE)
            if piece is None:
                break
            wanted += time.monotonic() - clock
            got += time.thread_time() - processor
            with self._changed:
                if piece.behind > self._begin:
                    self._ready.append(piece)

    def _may_go_on(self) -> int | None:
        """Wait while enough is ready; the operation to begin with, None at the end."""
        with self._changed:
            while len(self._ready) >= _LEAD and not self._ended:
                self._changed.wait()
            return None if self._ended else self._begin

    def __enter__(self) -> Self:
        # where there can be no more threads the replay looks all names up itself
        with suppress(RuntimeError):
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()


def names_ahead(
    cursor: SegmentCursor, compiled: CompiledReplay, core_free: Callable[[], bool]
) -> AbstractContextManager[Names | None]:
    """None where a thread is of no use: for a short segment, and on one core."""
    if len(cursor.buffer) - cursor.position < _WORTH_A_THREAD or available_cores() == 1:
        return nullcontext()
    lookup = compiled.name_lookup(cursor)
    return nullcontext() if lookup is None else NamesAhead(lookup, core_free)
