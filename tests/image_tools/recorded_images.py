"""All recorded images, and the recorded images with faults from Hadoop itself."""

from __future__ import annotations

from pathlib import Path

from tests.image_format.image_support import RECORDED

CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"


# Deleted lists with a missing inode, and created names that led to this inode, as left by snapshot deletion, by a
# symlink deleted under a snapshot and by CONCAT. No NameNode loads these images.
LOST_IN_DIFFS = {"diff-deleted", "diff-created", "diff-created-order"}


OF_HADOOP: dict[str, set[str]] = {
    "hadoop-2.7.3/random-mixed-1/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-mixed-551376/after": {"reference-inode"},
    "hadoop-2.7.3/random-snapshot-1/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-11048/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-11090/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-2/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/random-snapshot-410001/after": {"dir-child-missing", "diff-created"},
    "hadoop-2.7.3/random-snapshot-551343/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/symlinks/after": LOST_IN_DIFFS,
    "hadoop-2.7.3/truncate-append-concat/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/compress-gzip/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/random-mixed-sub-15497/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/sub-sections/after": LOST_IN_DIFFS,
    "hadoop-3.3.6/symlinks/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/held-random-8/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/held-random-9/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/dangling-child-after-replay/after": {"reference-inode"},
    "hadoop-3.4.1/odd/namenode-own-image-fails-1/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/namenode-own-image-fails-2/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/namenode-own-image-fails-3/before": LOST_IN_DIFFS,
    "hadoop-3.4.1/odd/sub-sections-partial/before": {"sub-section"},
    "hadoop-3.4.1/odd/sub-sections-partial-serial/before": {"sub-section"},
    "hadoop-3.4.1/r-snapshot-sub-770036/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-capture-6/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-capture-6/before": {"diff-created-order"},
    "hadoop-3.4.1/random-mixed-70110/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-mixed-sub-70127/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-3/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-70121/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-70122/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-770012/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-770101/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-capture-881412/after": {"diff-created-order"},
    "hadoop-3.4.1/random-snapshot-sub-70124/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/random-snapshot-sub-9108/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/symlinks/after": LOST_IN_DIFFS,
    "hadoop-3.4.1/upgrade-from-2.7.3/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/compress-bzip2/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/compress-snappy/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-15069/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-15084/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/random-snapshot-capture-15050/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/sub-sections/after": LOST_IN_DIFFS,
    "hadoop-3.5.0/symlinks/after": LOST_IN_DIFFS,
}


IMAGES = [
    path
    for path in sorted(RECORDED.glob("hadoop-*/**/fsimage_" + "?" * 19))
    if CORRUPT not in path.parents and path.parent.name in {"before", "after", "after_nn"}
]


def case_of(path: Path) -> str:
    return str(path.parent.relative_to(RECORDED))
