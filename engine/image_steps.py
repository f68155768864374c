"""Steps that every engine performs when it writes an image: cancellation, verification and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from engine.errors import CheckpointCancelledError, InconsistentNamespaceError
from engine.healing import HealingMode, healed_finding
from engine.namespace import Namespace
from engine.observer import Observer
from hadoop_common.quantities import counted
from image_format.reader import ImageFile
from image_format.spool import SPOOL_LIMIT, Spool
from image_format.writer import Sink

T = TypeVar("T")

_PIECE = 8 << 20


def cancellable(sink: Sink, watcher: Observer) -> Sink:
    """Return a sink that checks for cancellation between pieces, even within large copied sections."""

    def write(data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            if watcher.cancelled():
                raise CheckpointCancelledError("cancelled while the image was written")
            sink(view[start : start + _PIECE])

    return write


def write_verified(
    namespace: Namespace, write: Callable[[Sink], T], sink: Sink, path: Path, *, spool_dir: Path | None = None
) -> T | None:
    """Write an image; if it may be inconsistent, verify it first and repair it if necessary.

    Args:
        spool_dir: folder for an image that must be verified.

    Returns:
        The result of `write`; None if the image was repaired.

    Raises:
        InconsistentSnapshotsError: the image cannot be repaired.
        InconsistentNamespaceError: snapshots refer to removed inodes, except in `AS_HADOOP` mode.
        ImageStorageError: the spool folder is full.
    """
    namespace.heal_snapshots()
    if not namespace.needs_verification:
        given = write(sink)
        if namespace.healing_log.mode is not HealingMode.AS_HADOOP:
            for lost in image_warnings(namespace):
                # If the namespace stays in memory, the next save heals it.
                namespace.recorder.leads_to_removed = True
                raise InconsistentNamespaceError(
                    lost, hint="Keep the old image and all edits; `hdfs oev` shows the operations on this inode."
                )
        return given
    with Spool(spool_dir, SPOOL_LIMIT) as spool:
        given = write(lambda data: spool.write(memoryview(data)))
        # Imported here, because few merges need this large module.
        from image_tools.verify.snapshot_repair import repair_snapshots

        image, left = repair_snapshots(ImageFile(path, spool.finish(), spool_dir), spool_dir=spool_dir)
    with image:
        for finding in left:
            namespace.healing_log.add(healed_finding(finding, "in the new image, before it was saved"))
        sink(image.file_bytes())
    return None if left else given


def image_warnings(namespace: Namespace) -> Iterator[str]:
    """Yield warnings for the operator about the image of a namespace."""
    as_hadoop = namespace.healing_log.mode is HealingMode.AS_HADOOP
    lost = sorted(namespace.recorder.diffs.encoder.lost)
    if lost:
        yield (
            f"no NameNode can load the image, because its snapshots refer to {counted(len(lost), 'removed inode')}, "
            f"inode {lost[0]} first" + ("; `checkpointer image verify --repair` repairs a copy" if as_hadoop else "")
        )
