"""The inputs and options of a report. The command imports this module before Spark starts, so its imports are few."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.reports.path_rules import PathRules


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The inputs of a report: paths or URIs, and the name of the cluster.

    Attributes:
        image: an image, a storage directory or a lake.
        before: older images, which may be in the lake of `image`; the report measures growth from the oldest.
        edits: segments or a lake; "" if there are none. With `before`, the report uses only the edits since the oldest
            image.
        cluster: name of the cluster; "" for the id in the image's directory.
        reports: a local folder of earlier reports, or ""; without `before`, the report measures growth from the last
            report.
    """

    image: str
    before: tuple[str, ...] = ()
    edits: str = ""
    cluster: str = ""
    reports: str = ""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The caller's options of a report.

    Attributes:
        as_of: reference time for ages, UTC.
        depth: levels of directories below the root in a tree.
        top: maximum rows of a table.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        replication: the cluster's default, dfs.replication.
        max_items: the cluster's limit on a directory's children, dfs.namenode.fs-limits.max-directory-items.
        only: ids of sections; empty for all.
        paths: path sets and tables, None if there is none.
    """

    as_of: datetime
    depth: int = 3
    top: int = 20
    small: int | None = None
    cold_days: int = 365
    replication: int = 3
    max_items: int = 1 << 20
    only: tuple[str, ...] = ()
    paths: PathRules | None = None

    def wants(self, section: str) -> bool:
        """Return whether the caller wants `section` in the report; the section also requires its input."""
        return not self.only or section in self.only
