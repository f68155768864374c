"""Which release of Hadoop the stub passes for: its subordinate nodes check that before anything else."""

from __future__ import annotations

from dataclasses import dataclass

from image_format.layout import LayoutVersion, supports


@dataclass(frozen=True, slots=True)
class Release:
    """Software version, and the revision it was built from (VersionInfo.getRevision)."""

    version: str
    revision: str


# The last releases whose own layouts these are; a BackupNode compares the revision, a SecondaryNameNode the layout.
_HADOOP_2 = Release("2.7.3", "baa91f7c6bc9cb92be5982de4719c1c8af91ccff")
_HADOOP_3 = Release("3.4.1", "4d7825309348956336b8f06a08322b78422849b1")


def release_of(layout_version: int) -> Release:
    """The release whose rules a namespace of this layout is replayed by."""
    return _HADOOP_3 if supports(LayoutVersion.ERASURE_CODING, layout_version) else _HADOOP_2
