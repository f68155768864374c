"""Hadoop releases that this program can report in place of its version, with their source revisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Release:
    """A software version, and the revision from which it was built (VersionInfo.getRevision)."""

    version: str
    revision: str


HADOOP_2: Final = Release("2.7.3", "baa91f7c6bc9cb92be5982de4719c1c8af91ccff")
HADOOP_3: Final = Release("3.4.1", "4d7825309348956336b8f06a08322b78422849b1")
RELEASES: Final = {
    release.version: release
    for release in (
        HADOOP_2,
        Release("3.3.6", "1be78238728da9266a4f88195058f08fd012bf9c"),
        HADOOP_3,
        Release("3.4.2", "84e8b89ee2ebe6923691205b9e171badde7a495c"),
        Release("3.5.0", "dbcc7cd797100e6b32cd84f85b53a5193a5f9af0"),
    )
}
"""Official builds, by version."""
