"""Storage policies by layout version: Hadoop 2 does not load a file of a policy that it does not have."""

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
    """Ids of the storage policies that the releases of a layout have."""
    ids = [each.id for each in STORAGE_POLICIES if policy_since(each.id, layout_version) is None]
    return (UNSPECIFIED_POLICY, *ids)


def policy_since(policy_id: int, layout_version: int) -> LayoutVersion | None:
    """The newer layout that brought a policy; None where `layout_version` has it or no layout has."""
    since = _SINCE.get(policy_id)
    return None if since is None or supports(since, layout_version) else since
