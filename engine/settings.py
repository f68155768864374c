"""Settings of a merge: how edits are replayed and how new images are written."""

from __future__ import annotations

from dataclasses import dataclass

from engine.healing import HealingMode
from image_format.memory_limit import MemoryLimit
from image_format.sub_sections import SubSectionRule


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
    healing: HealingMode = HealingMode.HEAL

    def clamp_replication(self, replication: int) -> int:
        """A replication factor as BlockManager.adjustReplication lets it be."""
        return min(max(replication, self.min_replication), self.max_replication)


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How edits are replayed, and how new images are written.

    Attributes:
        codec: Hadoop's class name for new images, "" for none, None for the base image's; see `codec_to_write`.
        layout_version: of new images, whose rules the replay follows; None for the base image's.
        allow_unknown_layout: take images newer than every known layout, copying what is not understood.
        sub_sections: see `write_image`.
        rules: the cluster's own settings, as far as replay goes by them.
        max_op_size: the largest operation in bytes that is replayed, which is NameNodes' default.
        memory: what the large arrays of index and delta may take in this process.
    """

    codec: str | None = None
    layout_version: int | None = None
    allow_unknown_layout: bool = False
    sub_sections: SubSectionRule | None = None
    rules: ReplayRules = ReplayRules()
    max_op_size: int = 52428800
    memory: MemoryLimit = MemoryLimit()
