"""Storage policies by layout version."""

from __future__ import annotations

from collections.abc import Collection

from hadoop_common.storage_policies import STORAGE_POLICIES, UNSPECIFIED_POLICY
from image_format.layout import LayoutVersion, supports

LAZY_PERSIST = 15
_SINCE = {
    each.id: LayoutVersion.NVDIMM_SUPPORT if "NVDIMM" in each.creation else LayoutVersion.ERASURE_CODING
    for each in STORAGE_POLICIES
    if each.needs_hadoop3
}


def known_policies(layout_version: int) -> Collection[int]:
    """Return the ids of the storage policies that the releases of a layout support."""
    ids = [each.id for each in STORAGE_POLICIES if policy_since(each.id, layout_version) is None]
    return (UNSPECIFIED_POLICY, *ids)


def policy_since(policy_id: int, layout_version: int) -> LayoutVersion | None:
    """Return the newer layout that added a policy; None if `layout_version` has the policy or no layout has it."""
    since = _SINCE.get(policy_id)
    return None if since is None or supports(since, layout_version) else since
