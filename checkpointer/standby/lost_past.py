"""Whether the shared edits can be those that an image was made of: a cluster that was set back writes others anew."""

from __future__ import annotations

from collections.abc import Sequence

from journal.segment_file import EditLogSegment

__all__ = ["lost_past"]


def lost_past(
    image_txid: int, segments: Sequence[EditLogSegment], *, within_segments: bool = False, open_last: int | None = None
) -> str:
    """Why an image at `image_txid` cannot be of the past that `segments` tell, "" where nothing is found.

    Images end with a segment, unless open ones are read too. Where all segments are younger than the image, the edits
    that it was made of were purged.

    Args:
        within_segments: whether images may end within a segment.
        open_last: with that, the last transaction of the open segment; None where it is not known.
    """
    reached = max((segment.last for segment in segments if segment.last is not None), default=-1)
    # One that begins before the end of the finalized ones was left behind by a failover.
    opened = [segment.first for segment in segments if segment.in_progress and segment.first > reached]
    if not opened and reached < 0:
        return ""
    if within_segments:
        if opened and open_last is None:
            return ""
        return _beyond(image_txid, max(reached, -1 if open_last is None else open_last))
    for segment in segments:
        if segment.last is not None and segment.first <= image_txid < segment.last:
            return f"our image at txid {image_txid} is in the middle of the segment {segment.first}-{segment.last}"
    return _beyond(image_txid, max([reached, *(first - 1 for first in opened)]))


def _beyond(image_txid: int, newest: int) -> str:
    return f"our image is of txid {image_txid}, but the edits end at {newest}" if image_txid > newest else ""
