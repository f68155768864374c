"""Whether the bounds of segments here can be those of the NameNode's past; no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.segment_file import EditLogSegment


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
            return f"our segment {segment.first}-{segment.last} is not one of its segments"
    return ""
