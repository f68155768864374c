"""Repair of the snapshots of an otherwise valid image, in a temporary copy."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.errors import InconsistentSnapshotsError
from image_format.reader import ImageFile
from image_format.spool import SPOOL_LIMIT, Spool
from image_tools.verify.checker import Audit, audit_image
from image_tools.verify.findings import Finding, Findings
from image_tools.verify.fixes import Fixes, write_fixed

_SECTIONS = ("INODE_DIR", "INODE_REFERENCE", "SNAPSHOT", "SNAPSHOT_DIFF")
_MAX_PASSES = 12
_DAMAGE = frozenset(
    {
        "diff-inode",
        "diff-kind",
        "diff-reference-range",
        "diff-twice",
        "dir-parent",
        "dir-parent-twice",
        "dir-reference-range",
        "reference-name-twice",
        "snapshot-count",
        "snapshot-counter",
        "snapshot-directory",
        "snapshot-root",
        "snapshot-root-missing",
        "snapshot-twice",
    }
)
"""Findings that a NameNode never causes: `repair_image` repairs them, but a merge does not."""
_TO_LOST_INODES = ("diff-deleted", "reference-inode")
"""Findings that a NameNode causes only for inodes that existed earlier."""
_HINT = "`checkpointer image verify` lists all faults; use another copy of the image, or an older image."


def repair_snapshots(image: ImageFile, *, spool_dir: Path | None = None) -> tuple[ImageFile, list[Finding]]:
    """Return `image` with repaired lists of children, references and snapshots, and the repaired findings.

    Unlike `repair_image`, this function changes nothing else; it does not add, remove or rename inodes. The caller must
    close the result; errors name the original's path.

    Raises:
        InconsistentSnapshotsError: the sections have other damage.
        ImageStorageError: not enough disk space.
    """
    changes: list[Finding] = []
    with ExitStack() as resources:
        source = image
        for _ in range(_MAX_PASSES):
            findings, fixes = Findings(), Fixes()
            data = np.frombuffer(source.file_bytes(), np.uint8)
            audit = audit_image(image.path, findings, fixes, outer=False, data=data, spool_dir=spool_dir)
            found = [each for each in findings.listed if each.section in _SECTIONS]
            blocking = next((each for each in found if each.blocks_repair or _is_damage(each, audit)), None)
            if audit.frame is None or audit.tree is None or blocking is not None:
                text = f"the snapshots cannot be healed: {blocking or 'its records are damaged'}"
                raise InconsistentSnapshotsError(text, file=str(image.path), hint=_HINT)
            wanted = [each for each in found if each.wants_repair]
            if not wanted:
                resources.pop_all()
                return source, changes
            changes += wanted
            kept = Fixes({name: cuts for name, cuts in fixes.cuts.items() if name in _SECTIONS})
            with Spool(spool_dir, SPOOL_LIMIT) as spool:
                write_fixed(audit.frame, kept, lambda data: spool.write(memoryview(data)))
                resources.close()
                source = resources.enter_context(ImageFile(image.path, spool.finish(), spool_dir))
        text = f"after {_MAX_PASSES} passes this finding remains: {changes[-1]}"
        raise InconsistentSnapshotsError(text, file=str(image.path), hint=_HINT)


def _is_damage(finding: Finding, audit: Audit) -> bool:
    """Return whether a finding is damage, which a NameNode never causes."""
    if finding.code in _TO_LOST_INODES and audit.inodes is not None and finding.inode is not None:
        return not ROOT_INODE_ID < finding.inode <= audit.inodes.header.lastInodeId
    return finding.code in _DAMAGE
