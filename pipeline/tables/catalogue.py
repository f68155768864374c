"""All tables of the data sources, by the value of the `table` option."""

from __future__ import annotations

from pipeline.tables.edits import EDITS
from pipeline.tables.inodes import ACLS, BLOCKS, DIRECTORIES, INODES, UNDER_CONSTRUCTION, XATTRS
from pipeline.tables.managers import CACHE, SUMMARY, TOKENS
from pipeline.tables.snapshots import REFERENCES, SNAPSHOT_DIFFS, SNAPSHOTS

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
"""Tables of the `fsimage` format."""

EDITS_TABLES = {EDITS.name: EDITS}
"""Tables of the `hdfs_edits` format."""
