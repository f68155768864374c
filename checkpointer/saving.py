"""What every engine does about an image that it writes: stop when told to, and warn of what is wrong in it."""

from __future__ import annotations

from collections.abc import Iterator

from checkpointer.errors import CheckpointCancelledError
from checkpointer.namespace import Namespace
from checkpointer.observer import Observer
from image_format.writer import Sink

__all__ = ["cancellable", "image_warnings"]

_PIECE = 8 << 20


def cancellable(sink: Sink, watcher: Observer) -> Sink:
    """A sink that asks the observer between pieces, however large the sections are that are copied whole."""

    def write(data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            if watcher.cancelled():
                raise CheckpointCancelledError("cancelled while the image was written")
            sink(view[start : start + _PIECE])

    return write


def image_warnings(namespace: Namespace) -> Iterator[str]:
    """What an operator has to know of the image of a namespace."""
    lost = sorted(namespace.history.diffs.lost)
    if lost:
        yield (
            f"snapshots lead to {len(lost)} deleted symlink(s) whose records are gone, as Hadoop itself leaves them "
            f"(inode {lost[0]} first); no NameNode loads such an image: see `checkpointer image verify --repair`"
        )
