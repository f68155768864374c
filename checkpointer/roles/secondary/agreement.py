"""Comparison of a NameNode's roll with our storage (CheckpointSignature, SecondaryNameNode); no I/O."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from checkpointer.errors import TransferError
from hadoop_common.errors import StorageError
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.namenode_protocol import CheckpointSignature, EditLogManifest, RemoteEditLog
from image_format.layout import check_supported


class VersionRelation(Enum):
    """Relation of our storage to the NameNode's namespace.

    FRESH: our storage is not formatted yet. SAME: equal VERSIONs. MOVED: the same namespace, but with another layout or
        cTime because of an upgrade or a rollback.
    """

    FRESH = "fresh"
    SAME = "same"
    MOVED = "moved"


def compare_versions(ours: Collection[StorageInfo], theirs: StorageInfo, namenode: str) -> VersionRelation:
    """Compare the VERSIONs of our directories with the VERSION that the NameNode at `namenode` reports.

    Raises:
        StorageError: the namespaces differ.
        UnsupportedLayoutError: edits of the NameNode's layout cannot be replayed.
    """
    for each in ours:
        if each.namespace != theirs.namespace:
            raise StorageError(
                f"{namenode} belongs to another namespace: {theirs.namespace_text}; the checkpoint directories belong "
                f"to {each.namespace_text}",
                hint="Check the NameNode's address. To use this NameNode, stop the daemon, and move the contents of "
                "the checkpoint directories away; they may be the last copy of the other namespace. Leave an empty "
                "folder `current` there, and start the daemon.",
            )
    check_supported(theirs.layout_version, f"namespace of {namenode}")
    if not ours:
        return VersionRelation.FRESH
    moved = any((each.layout_version, each.c_time) != (theirs.layout_version, theirs.c_time) for each in ours)
    return VersionRelation.MOVED if moved else VersionRelation.SAME


def check_signature(signature: CheckpointSignature, namenode: str) -> None:
    """Check the txids of a roll.

    Raises:
        TransferError: the txids contradict each other.
    """
    base, following = signature.most_recent_checkpoint_txid, signature.current_segment_txid
    if not 0 <= base < following - 1:
        raise TransferError(
            namenode,
            f"its newest image is at txid {base} and its segment begins at {following}, but the edits between them are "
            f"missing",
            hint="Check the NameNode's log.",
        )


def finalized_after(manifest: EditLogManifest, base: int) -> tuple[RemoteEditLog, ...]:
    """Return the finalized segments that follow `base` without a gap."""
    found: list[RemoteEditLog] = []
    for each in manifest.logs:
        first = found[-1].last + 1 if found else base + 1
        if not each.in_progress and first == each.first <= each.last:
            found.append(each)
    return tuple(found)


def needed_logs(manifest: EditLogManifest, signature: CheckpointSignature, namenode: str) -> tuple[RemoteEditLog, ...]:
    """Return the segments between the NameNode's newest image and the segment that its roll began.

    Raises:
        TransferError: the segments do not follow the image, have a gap, or do not reach the roll.
    """
    expected = signature.most_recent_checkpoint_txid + 1
    logs = tuple(each for each in manifest.logs if each.first < signature.current_segment_txid)
    for each in logs:
        if each.in_progress or each.first != expected or each.last < each.first:
            raise _bad_manifest(namenode, f"{_range(each)} follows instead of txid {expected}", manifest)
        expected = each.last + 1
    if expected != signature.current_segment_txid:
        problem = f"no segment contains txid {expected}; segments up to {signature.current_segment_txid - 1} are needed"
        raise _bad_manifest(namenode, problem, manifest)
    return logs


def _bad_manifest(namenode: str, problem: str, manifest: EditLogManifest) -> TransferError:
    logs = ", ".join(map(_range, manifest.logs[:5])) or "none"
    return TransferError(
        namenode,
        f"invalid edit log manifest: {problem}; it lists {counted(len(manifest.logs), 'segment')}: {logs}",
        hint="Look for the missing edits in all directories of the NameNode's dfs.namenode.edits.dir. Do not restart "
        "the NameNode until the edits are restored or the NameNode has a newer image: docs/runbook.md, "
        '"Gap in the edits".',
    )


def _range(log: RemoteEditLog) -> str:
    return f"{log.first}-{'in progress' if log.in_progress else log.last}"
