"""Settings of a merge: how edits are replayed and how new images are written."""

from __future__ import annotations

from dataclasses import dataclass

from engine.healing import HealingMode
from image_format.memory_limit import MemoryLimit
from image_format.sub_section_rules import SubSectionRule


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """Settings that must equal the cluster's settings, because operations do not contain them.

    Attributes:
        min_replication, max_replication: bounds of a file's replication factor (dfs.namenode.replication.min,
            dfs.replication.max).
        capture_open_files: whether a snapshot records the files that are open at that time
            (dfs.namenode.snapshot.capture.openfiles).
        skip_access_time_changes: whether a change of only the access time creates no snapshot diff
            (dfs.namenode.snapshot.skip.capture.accesstime-only-change).
        ordered_snapshot_deletion: whether only the earliest snapshot is removed immediately
            (dfs.namenode.snapshot.deletion.ordered); None if unknown.
        ordered_deletion_in_older_layouts: whether the NameNode supports ordered deletion although its layout is above
            -67; not a setting of the cluster. None if unknown: replay then stops during a rolling upgrade.
        healing: handling of inconsistent snapshots; not a setting of the cluster.
    """

    min_replication: int = 1
    max_replication: int = 512
    capture_open_files: bool = False
    skip_access_time_changes: bool = False
    ordered_snapshot_deletion: bool | None = None
    ordered_deletion_in_older_layouts: bool | None = None
    healing: HealingMode = HealingMode.HEAL

    def clamp_replication(self, replication: int) -> int:
        """Limit a replication factor as BlockManager.adjustReplication does."""
        return min(max(replication, self.min_replication), self.max_replication)


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Settings of replay, and of new images.

    Attributes:
        codec: Hadoop's class name of the codec of new images; "" for no compression, None for the base image's codec;
            see `codec_to_write`.
        layout_version: layout version of new images, which also selects the rules of replay; None for the base image's
            version.
        allow_unknown_layout: whether to accept images newer than every known layout, and to copy unknown parts.
        sub_sections: see `write_image`.
        rules: settings of the cluster that affect replay.
        max_op_size: largest accepted operation in bytes; the default equals the NameNode's default.
        memory: limit for the large arrays of the index and of the delta.
    """

    codec: str | None = None
    layout_version: int | None = None
    allow_unknown_layout: bool = False
    sub_sections: SubSectionRule | None = None
    rules: ReplayRules = ReplayRules()
    max_op_size: int = 52428800
    memory: MemoryLimit = MemoryLimit()
