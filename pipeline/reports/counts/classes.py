"""Classes of sizes and ages, and the space of files, for columns of numbers."""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pyarrow as pa

from image_format.erasure_policies import ErasurePolicy, raw_bytes
from pipeline.reports.counts.grouping import MAX_LONG, Mask, Numbers, codes_of

_KIB, _MIB, _GIB, _TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

SIZE_BOUNDS = (1, 64 * _KIB, _MIB, 8 * _MIB, 32 * _MIB, 128 * _MIB, 512 * _MIB, 4 * _GIB, 64 * _GIB, _TIB)
"""Class k contains the sizes >= bound k - 1 and < bound k, in bytes; the last class has no upper bound."""

SIZE_LABELS = (
    "empty",
    "< 64 KiB",
    "64 KiB - 1 MiB",
    "1 - 8 MiB",
    "8 - 32 MiB",
    "32 - 128 MiB",
    "128 - 512 MiB",
    "512 MiB - 4 GiB",
    "4 - 64 GiB",
    "64 GiB - 1 TiB",
    "≥ 1 TiB",
)

SMALL_PART = 8
"""By default, a file is small if it is smaller than its block size divided by this number."""

AGE_DAYS = (1, 7, 30, 90, 180, 365, 730, 1825)
"""Bounds of the age classes in days; see `SIZE_BOUNDS`."""

AGE_LABELS = (
    "< 1 day",
    "1 - 7 days",
    "7 - 30 days",
    "30 - 90 days",
    "90 - 180 days",
    "180 days - 1 year",
    "1 - 2 years",
    "2 - 5 years",
    "≥ 5 years",
)

NO_TIME = -(1 << 63)
"""Value for a missing time."""

_MAX_BYTES = 1 << 48  # larger than any real file; the size of 2^15 - 1 replicas still fits into a long
_STRIPE = re.compile(r"-(\d+)-(\d+)-(\d+)k$")


def known_size(length: Numbers) -> Numbers:
    """Replace impossible lengths with 0: a deleted block has the size NO_ACK (BlockCommand), 2^63 - 1."""
    return np.where((length < 0) | (length > _MAX_BYTES), 0, length)


def size_class(length: Numbers) -> Numbers:
    """Return the positions in `SIZE_LABELS`."""
    return np.searchsorted(np.array(SIZE_BOUNDS), length, side="right")


def age_class(time: Numbers, as_of: datetime) -> Numbers:
    """Return the positions in `AGE_LABELS`, or -1 for `NO_TIME`; future times are in the first class.

    Args:
        time: microseconds since 1970.
    """
    bounds = np.array([days_before(as_of, days) for days in reversed(AGE_DAYS)])
    return np.where(time == NO_TIME, -1, bounds.size - np.searchsorted(bounds, time, side="left"))


def days_before(as_of: datetime, days: int) -> int:
    """Return the time `days` before `as_of`, in microseconds since 1970."""
    return (int(as_of.timestamp()) - days * 86_400) * 1_000_000


def raw_space(length: Numbers, replication: Numbers, ec_policy: pa.Array) -> Numbers:
    """Return the bytes on DataNodes: all replicas, or data and parity.

    The function computes parity as StripedBlockUtil.spaceConsumedByStripedBlock does, and assumes that all block groups
    except the last are full. Scheme and cell size come from the policy's name, see
    ErasureCodingPolicy.composePolicyName.
    """
    raw = length * replication
    if ec_policy.null_count == len(ec_policy):
        return raw
    codes, names = codes_of(ec_policy)
    for code, name in enumerate(names.to_pylist()):
        if name is not None:
            chosen: Mask = (codes == code) & (replication == 0)
            policy = _scheme(name)
            raw[chosen] = length[chosen] if policy is None else raw_bytes(length[chosen], policy)
    return raw


def _scheme(name: str) -> ErasurePolicy | None:
    """Return the scheme in a policy's name; None if the name does not contain a scheme."""
    found = _STRIPE.search(name)
    if found is None:
        return None
    data, parity, cell = int(found[1]), int(found[2]), int(found[3]) * _KIB
    if not 0 < data * cell <= MAX_LONG or parity > 1 << 10:
        return None
    return ErasurePolicy(name, "", data, parity, cell)
