"""Whether what lies here is of the NameNode's own past: one that was set back writes its next transactions anew.

Such a NameNode (restored from an older image, or after a rollback) has the same ids, so that only the bounds of its
segments tell: images end with a segment, and a segment here begins where the NameNode's own begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkpointer.errors import StorageError
from hadoop_rpc.namenode_protocol import EditLogManifest, RemoteEditLog
from journal.segment_file import EditLogSegment

__all__ = ["contradiction", "ends_a_segment", "lacks_image"]


def lacks_image(
    txid: int, newest_image: Callable[[], int], manifest: Callable[[int], EditLogManifest], namenode: str
) -> bool:
    """Whether a NameNode needs our image at `txid`: it has no newer one, and the image is of its own past.

    Args:
        newest_image: asks it for the txid of its newest image.
        manifest: asks it for its segments from a txid on.

    Raises:
        StorageError: the image holds transactions that are not the NameNode's.
    """
    newest = newest_image()
    if newest >= txid:
        return False
    if not ends_a_segment(txid, manifest(newest + 1).logs):
        raise StorageError(
            f"our newest image is of txid {txid}, where no segment of {namenode} ends: it was set back to an older "
            "state and has written other transactions since, so it does not get that image",
            hint="The next checkpoint begins with the NameNode's own image; empty our directories to be rid of the "
            "old ones.",
        )
    return True


def ends_a_segment(txid: int, logs: Iterable[RemoteEditLog]) -> bool:
    """Whether an image at `txid` can be of the past that `logs` tell: a roll comes before every checkpoint."""
    return any(log.last == txid and not log.in_progress for log in logs)


def contradiction(image_txid: int, local: Iterable[EditLogSegment], logs: Iterable[RemoteEditLog]) -> str:
    """What of ours cannot be of the past that the NameNode's `logs` tell, "" where nothing is found.

    A finalized segment of ours may be the beginning of the NameNode's. What it has no edits of any more says nothing.
    """
    theirs = [log for log in logs if not log.in_progress]
    for log in theirs:
        if log.first <= image_txid < log.last:
            return f"our image at txid {image_txid} is in the middle of its segment {log.first}-{log.last}"
    by_first = {log.first: log for log in theirs}
    bounds = sorted(by_first)
    for segment in local:
        if segment.last is None or not bounds or segment.last < bounds[0] or segment.first > by_first[bounds[-1]].last:
            continue
        same = by_first.get(segment.first)
        if same is None or same.last < segment.last:
            return f"our segment {segment.first}-{segment.last} is none of its own"
    return ""
