"""Erasure coding policies of an image: their names, and the space that a block group takes (StripedBlockUtil)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb

_Numbers = npt.NDArray[np.int64]
_MEBI = 1024 * 1024


class Policy(NamedTuple):
    """An erasure coding policy; `cell_size` in bytes."""

    name: str
    data_units: int
    parity_units: int
    cell_size: int


# Of the policies of SystemErasureCodingPolicies an image holds only id and state.
_BUILT_IN = {
    1: Policy("RS-6-3-1024k", 6, 3, _MEBI),
    2: Policy("RS-3-2-1024k", 3, 2, _MEBI),
    3: Policy("RS-LEGACY-6-3-1024k", 6, 3, _MEBI),
    4: Policy("XOR-2-1-1024k", 2, 1, _MEBI),
    5: Policy("RS-10-4-1024k", 10, 4, _MEBI),
}


def policies_of(section: pb.ErasureCodingSection) -> dict[int, Policy]:
    """Every policy by id: the built-in ones, and those that the image describes."""
    found = dict(_BUILT_IN)
    for policy in section.policies:
        if policy.HasField("schema") and policy.cellSize:
            schema = policy.schema
            found[policy.id] = Policy(policy.name, schema.dataUnits, schema.parityUnits, policy.cellSize)
    return found


def raw_bytes(data: _Numbers, policy: Policy) -> _Numbers:
    """Bytes that block groups of `data` bytes take with their parity (spaceConsumedByStripedBlock)."""
    stripe = policy.cell_size * policy.data_units
    whole, rest = np.divmod(data, stripe)
    # A parity cell is as long as the longest data cell of its stripe.
    parity = whole * policy.cell_size + np.minimum(rest, policy.cell_size)
    total: _Numbers = data + parity * policy.parity_units
    return total
