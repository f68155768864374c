"""Storage types and storage policies by layout version."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hadoop_common.storage_policies import STORAGE_POLICIES, UNSPECIFIED_POLICY, StoragePolicy
from image_format.layout import LayoutVersion, supports

LAZY_PERSIST = 15
TYPES_SINCE = {"PROVIDED": LayoutVersion.ERASURE_CODING, "NVDIMM": LayoutVersion.NVDIMM_SUPPORT}
"""Layouts that added a storage type, by its name."""
POLICIES_SINCE = {UNSPECIFIED_POLICY: None} | {
    each.id: next((since for name, since in TYPES_SINCE.items() if name in each.creation), None)
    for each in STORAGE_POLICIES
}
"""Layouts that added a storage policy, by its id; None for a policy that is older than the supported layouts."""


def known_policies(layout_version: int) -> Collection[int]:
    """Return the ids of the storage policies that the releases of a layout support."""
    return (UNSPECIFIED_POLICY, *(each.id for each in policies_of(layout_version)))


def policies_of(layout_version: int) -> Sequence[StoragePolicy]:
    """Return the storage policies that the releases of a layout support."""
    return [each for each in STORAGE_POLICIES if policy_since(each.id, layout_version) is None]


def policy_since(policy_id: int, layout_version: int) -> LayoutVersion | None:
    """Return the layout that added a policy, if that layout is newer than `layout_version`; otherwise None."""
    since = POLICIES_SINCE.get(policy_id)
    return None if since is None or supports(since, layout_version) else since
