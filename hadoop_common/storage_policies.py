"""Storage policies of HDFS (BlockStoragePolicySuite); `image_format.storage_policies` lists them by layout version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

POLICY_IDS = 16
"""Number of possible ids of a policy, which has four bits."""
UNSPECIFIED_POLICY = 0
DEFAULT_POLICY = 7
_TRANSIENT = "RAM_DISK"


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """Storage types for the replicas of a block, in order.

    Attributes:
        creation_fallback, replication_fallback: storage types to use instead of a type without free space.
        copied: whether a new file inherits and keeps the policy of its directory (copyOnCreateFile).
    """

    id: int
    name: str
    creation: tuple[str, ...]
    creation_fallback: tuple[str, ...]
    replication_fallback: tuple[str, ...]
    copied: bool = False

    @property
    def lasting(self) -> tuple[str, ...]:
        """Storage types of `creation` that survive a restart of the DataNode; only these can have quotas."""
        return tuple(each for each in self.creation if each != _TRANSIENT)

    def replicas_by_type(self, replication: int) -> Mapping[str, int]:
        """Return the number of replicas in each type of `lasting` (BlockStoragePolicy.chooseStorageTypes)."""
        counts = Counter(self.lasting[: max(replication, 0)])
        if self.creation[-1] != _TRANSIENT:
            counts[self.creation[-1]] += max(replication - len(self.lasting), 0)
        return counts


STORAGE_POLICIES = (
    StoragePolicy(1, "PROVIDED", ("PROVIDED", "DISK"), ("PROVIDED", "DISK"), ("PROVIDED", "DISK")),
    StoragePolicy(2, "COLD", ("ARCHIVE",), (), ()),
    StoragePolicy(5, "WARM", ("DISK", "ARCHIVE"), ("DISK", "ARCHIVE"), ("DISK", "ARCHIVE")),
    StoragePolicy(7, "HOT", ("DISK",), (), ("ARCHIVE",)),
    StoragePolicy(10, "ONE_SSD", ("SSD", "DISK"), ("SSD", "DISK"), ("SSD", "DISK")),
    StoragePolicy(12, "ALL_SSD", ("SSD",), ("DISK",), ("DISK",)),
    StoragePolicy(14, "ALL_NVDIMM", ("NVDIMM",), ("DISK",), ("DISK",)),
    StoragePolicy(15, "LAZY_PERSIST", ("RAM_DISK", "DISK"), ("DISK",), ("DISK",), copied=True),
)


def storage_policy(policy_id: int) -> StoragePolicy | None:
    return next((policy for policy in STORAGE_POLICIES if policy.id == policy_id), None)
