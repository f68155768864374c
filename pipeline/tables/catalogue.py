"""All tables of the data sources, by the value of the option `table`."""

from __future__ import annotations

from pipeline.tables.blocks import BLOCKS
from pipeline.tables.directories import DIRECTORIES
from pipeline.tables.edits import EDITS
from pipeline.tables.features import ACLS, XATTRS
from pipeline.tables.inodes import INODES
from pipeline.tables.managers import CACHE, TOKENS
from pipeline.tables.snapshots import REFERENCES, SNAPSHOT_DIFFS, SNAPSHOTS
from pipeline.tables.summary import SUMMARY
from pipeline.tables.under_construction import UNDER_CONSTRUCTION

IMAGE_TABLES = {
    table.name: table
    for table in (
        INODES,
        BLOCKS,
        DIRECTORIES,
        SNAPSHOTS,
        SNAPSHOT_DIFFS,
        REFERENCES,
        ACLS,
        XATTRS,
        UNDER_CONSTRUCTION,
        CACHE,
        TOKENS,
        SUMMARY,
    )
}
"""Tables of the format `fsimage`."""

EDITS_TABLES = {EDITS.name: EDITS}
"""Tables of the format `hdfs_edits`."""
