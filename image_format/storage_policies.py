"""Storage policies by layout version (BlockStoragePolicySuite): a NameNode does not load a file of another policy."""

from __future__ import annotations

from collections.abc import Collection

from image_format.layout import LayoutVersion, supports

LAZY_PERSIST = 15
PROVIDED = 1
ALL_NVDIMM = 14
_OF_HADOOP_2 = (0, 2, 5, 7, 10, 12, LAZY_PERSIST)
_SINCE = {PROVIDED: LayoutVersion.ERASURE_CODING, ALL_NVDIMM: LayoutVersion.NVDIMM_SUPPORT}


def known_policies(layout_version: int) -> Collection[int]:
    """Ids of the storage policies that the releases of a layout have; 0 stands for the default policy."""
    return (*_OF_HADOOP_2, *(number for number, since in _SINCE.items() if supports(since, layout_version)))


def policy_since(policy_id: int, layout_version: int) -> LayoutVersion | None:
    """The newer layout that brought a policy; None where `layout_version` has it or no layout has."""
    since = _SINCE.get(policy_id)
    return None if since is None or supports(since, layout_version) else since
