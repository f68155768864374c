"""Erasure coding policies, and the space that block groups use."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb

_Numbers = npt.NDArray[np.int64]
_MEBI = 1024 * 1024


LAST_SYSTEM_ID = 63


class ErasurePolicy(NamedTuple):
    """An erasure coding policy; `cell_size` is in bytes, and `options` are pairs of a name and a value."""

    name: str
    codec: str
    data_units: int
    parity_units: int
    cell_size: int
    options: tuple[tuple[str, str], ...] = ()
    id: int = 0
    state: int = pb.ENABLED

    @property
    def is_system(self) -> bool:
        """Whether the policy is built in."""
        return self.id <= LAST_SYSTEM_ID


BUILT_IN: Final = {
    1: ErasurePolicy("RS-6-3-1024k", "rs", 6, 3, _MEBI, id=1),
    2: ErasurePolicy("RS-3-2-1024k", "rs", 3, 2, _MEBI, id=2),
    3: ErasurePolicy("RS-LEGACY-6-3-1024k", "rs-legacy", 6, 3, _MEBI, id=3),
    4: ErasurePolicy("XOR-2-1-1024k", "xor", 2, 1, _MEBI, id=4),
    5: ErasurePolicy("RS-10-4-1024k", "rs", 10, 4, _MEBI, id=5),
}
"""Policies of SystemErasureCodingPolicies by id; an image contains only their ids and states."""


def policies_of(section: pb.ErasureCodingSection) -> dict[int, ErasurePolicy]:
    """Return all policies by id: the built-in policies, and the policies that the image describes."""
    found = dict(BUILT_IN)
    for policy in section.policies:
        if policy.HasField("schema") and policy.cellSize:
            found[policy.id] = described_policy(policy)
    return found


def described_policy(policy: pb.ErasureCodingPolicyProto) -> ErasurePolicy:
    """Convert a policy that has a schema."""
    schema = policy.schema
    return ErasurePolicy(
        policy.name,
        schema.codecName,
        schema.dataUnits,
        schema.parityUnits,
        policy.cellSize,
        tuple((option.key, option.value) for option in schema.options),
        policy.id,
        policy.state,
    )


def raw_bytes(data: _Numbers, policy: ErasurePolicy) -> _Numbers:
    """Return the size, including parity, of block groups with `data` bytes (spaceConsumedByStripedBlock)."""
    stripe = policy.cell_size * policy.data_units
    whole, rest = np.divmod(data, stripe)
    # A parity cell is as long as the longest data cell of its stripe.
    parity = whole * policy.cell_size + np.minimum(rest, policy.cell_size)
    total: _Numbers = data + parity * policy.parity_units
    return total
