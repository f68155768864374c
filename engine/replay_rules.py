"""What of a cluster's configuration decides how its edits are replayed."""

from __future__ import annotations

from dataclasses import dataclass

from engine.healing import Healing


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """Settings that must be the cluster's own, since operations do not carry them.

    Attributes:
        min_replication, max_replication: bounds of a file's replication factor (dfs.namenode.replication.min,
            dfs.replication.max).
        capture_open_files: a snapshot records the files open then (dfs.namenode.snapshot.capture.openfiles).
        skip_access_time_changes: an access time alone makes no snapshot diff
            (dfs.namenode.snapshot.skip.capture.accesstime-only-change).
        ordered_snapshot_deletion: only the earliest snapshot is really deleted
            (dfs.namenode.snapshot.deletion.ordered); None where the setting is unknown.
        ordered_deletion_in_older_layouts: the NameNode has ordered deletion although its layout is above -67; not a
            setting of the cluster's. None where nobody said: during a rolling upgrade that is not guessed.
        healing: what to do about snapshots that do not fit together; no setting of the cluster's.
    """

    min_replication: int = 1
    max_replication: int = 512
    capture_open_files: bool = False
    skip_access_time_changes: bool = False
    ordered_snapshot_deletion: bool | None = None
    ordered_deletion_in_older_layouts: bool | None = None
    healing: Healing = Healing.HEAL

    def clamp_replication(self, replication: int) -> int:
        """A replication factor as BlockManager.adjustReplication lets it be."""
        return min(max(replication, self.min_replication), self.max_replication)
