"""Removal of objects that retention rules do not keep."""

from __future__ import annotations

import time
from collections.abc import Sequence

from archive.archive import Archive
from archive.retention import PrunePlan, plan_prune
from site_config.archive_settings import Rule


def prune(archive: Archive, rules: Sequence[Rule], *, dry_run: bool = False) -> PrunePlan:
    """Remove the objects that no rule needs; return them, or with `dry_run` those that would be removed.

    Raises:
        ArchiveError: the archive cannot be read or written, or its catalogue is damaged.
    """
    catalogue = archive.writable_catalogue()
    plan = plan_prune(catalogue, rules, time.time_ns() // 1_000_000)
    if plan.remove and not dry_run:
        # unlisted first: a crash in between leaves only garbage
        archive.publish(catalogue, remove=[each.name for each in plan.remove])
        for each in plan.remove:
            archive.store.remove(each.name)
    return plan
