"""Removes objects that retention rules do not keep."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from archive.archive import Archive
from archive.catalogue import EDITS, IMAGES, Catalogue
from archive.retention import PrunePlan, plan_prune
from hadoop_common.quantities import counted
from site_config.archive_settings import Rule

_LOG = logging.getLogger(__name__)


def prune(archive: Archive, rules: Sequence[Rule], *, dry_run: bool = False) -> PrunePlan:
    """Remove the objects that no rule needs, unless `dry_run` is set; return the plan with these objects.

    Raises:
        ArchiveError: the archive cannot be read or written, or its catalogue is damaged.
    """
    catalogue = archive.writable_catalogue()
    stored = archive.store.sizes(IMAGES) | archive.store.sizes(EDITS)
    unusable = {each.name for each in catalogue.records if stored.get(each.name) != each.stored}
    if unusable:
        text = (
            "%s lacks the content of %s; the objects that restore the same moments are kept; "
            "next: run `checkpointer archive check`"
        )
        _LOG.warning(text, archive.store.location, counted(len(unusable), "object"))
    plan = plan_prune(catalogue, rules, _now(catalogue), unusable)
    if plan.remove and not dry_run:
        # remove the records first, so that a crash leaves only garbage
        archive.publish(catalogue, remove=[each.name for each in plan.remove])
        for each in plan.remove:
            archive.store.remove(each.name)
    return plan


def _now(catalogue: Catalogue) -> int:
    """Return the time from which ages are calculated: the time of this host, but not later than the newest edits.

    A removal is final, so the NameNode's clock limits the ages if the clock of this host is fast.
    """
    newest = max((each.last_time for each in catalogue.edits), default=0)
    now = time.time_ns() // 1_000_000
    return min(now, newest) if newest else now
