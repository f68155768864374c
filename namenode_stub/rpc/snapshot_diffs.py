"""ClientProtocol: differences between snapshots, as one report or, in Hadoop 3, in pages."""

from __future__ import annotations

from collections.abc import Iterator

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.paths import client_path
from namenode_stub.names.snapshot_diff import Parts, SnapshotChange, SnapshotDifference

_PAGE = 1000  # dfs.namenode.snapshotdiff.listing.limit
_AT_END = -1
_MODIFIED, _CREATED, _DELETED = "modifiedEntries", "createdEntries", "deletedEntries"
_ListingEntry = tuple[str, pb.SnapshotDiffReportListingEntryProto]


class SnapshotDiffCalls:
    """Handlers of snapshot differences.

    Args:
        hadoop3: whether to serve calls introduced with Hadoop 3.
    """

    def __init__(self, names: ActiveNamespace, *, hadoop3: bool) -> None:
        self._diffs = names.snapshot_diffs
        self._hadoop3 = hadoop3

    def methods(self) -> dict[str, Handler]:
        found: dict[str, Handler] = {"getSnapshotDiffReport": self.report}
        if self._hadoop3:
            found["getSnapshotDiffReportListing"] = self.listing
        return found

    def report(
        self, request: pb.GetSnapshotDiffReportRequestProto, _: CallContext
    ) -> pb.GetSnapshotDiffReportResponseProto:
        found = self._diffs.between(client_path(request.snapshotRoot), request.fromSnapshot, request.toSnapshot)
        return pb.GetSnapshotDiffReportResponseProto(
            diffReport=pb.SnapshotDiffReportProto(
                snapshotRoot=found.root,
                fromSnapshot=request.fromSnapshot,
                toSnapshot=request.toSnapshot,
                diffReportEntries=_report(found),
            )
        )

    def listing(
        self, request: pb.GetSnapshotDiffReportListingRequestProto, _: CallContext
    ) -> pb.GetSnapshotDiffReportListingResponseProto:
        """Return a page of entries; the cursor counts entries, and clients only check whether it marks the end."""
        found = self._diffs.between(client_path(request.snapshotRoot), request.fromSnapshot, request.toSnapshot)
        entries = list(_entries(found))
        first = max(0, request.cursor.index) if request.HasField("cursor") else 0
        behind = first + _PAGE
        answer = pb.SnapshotDiffReportListingProto(
            isFromEarlier=found.is_from_earlier,
            cursor=pb.SnapshotDiffReportCursorProto(startPath=b"", index=behind if behind < len(entries) else _AT_END),
        )
        for kind, entry in entries[first:behind]:
            getattr(answer, kind).append(entry)
        return pb.GetSnapshotDiffReportListingResponseProto(diffReport=answer)


def _report(found: SnapshotDifference) -> Iterator[pb.SnapshotDiffReportEntryProto]:
    """Yield the entries that SnapshotDiffInfo.generateReport makes."""
    came, left = ("+", "-") if found.is_from_earlier else ("-", "+")
    moves = _moves(found)
    for change in sorted(found.changes, key=lambda change: change.order):
        yield _report_entry("M", change.path)
        for child in change.created:
            if child.id not in moves:
                yield _report_entry(came, child.path)
        for child in change.deleted:
            if child.id in moves:
                source, target = moves[child.id] if found.is_from_earlier else moves[child.id][::-1]
                yield _report_entry("R", source, target)
            else:
                yield _report_entry(left, child.path)


def _moves(found: SnapshotDifference) -> dict[int, tuple[Parts, Parts]]:
    """Return the old and new paths, by inode id, of all moved inodes that still exist."""
    sources: dict[int, Parts] = {}
    targets = dict(found.targets)
    for change in found.changes:
        for child in change.created:
            if child.was_moved:
                targets.setdefault(child.id, child.path)
        for child in change.deleted:
            if child.is_old_name:
                sources[child.id] = child.path
    return {inode_id: (source, targets[inode_id]) for inode_id, source in sources.items() if inode_id in targets}


def _report_entry(label: str, path: Parts, target: Parts | None = None) -> pb.SnapshotDiffReportEntryProto:
    return pb.SnapshotDiffReportEntryProto(
        fullpath=b"/".join(path), modificationLabel=label, targetPath=None if target is None else b"/".join(target)
    )


def _entries(found: SnapshotDifference) -> Iterator[_ListingEntry]:
    for change in found.changes:
        yield _MODIFIED, _listing_entry(change.path, change, change.id, is_reference=change.is_directory)
        for child in change.created:
            yield _CREATED, _listing_entry(child.path, change, child.id, is_reference=child.was_moved)
        for child in change.deleted:
            yield (
                _DELETED,
                _listing_entry(child.path, change, child.id, child.target, is_reference=child.target is not None),
            )


def _listing_entry(
    path: Parts, change: SnapshotChange, inode_id: int, target: Parts | None = None, *, is_reference: bool
) -> pb.SnapshotDiffReportListingEntryProto:
    return pb.SnapshotDiffReportListingEntryProto(
        fullpath=b"/".join(path),
        dirId=change.id,
        fileId=inode_id,
        isReference=is_reference,
        targetPath=None if target is None else b"/".join(target),
    )
