"""Classes of sizes and ages, as Spark expressions and as labels."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as sql

_KIB, _MIB, _GIB, _TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

SIZE_BOUNDS = (1, 64 * _KIB, _MIB, 8 * _MIB, 32 * _MIB, 128 * _MIB, 512 * _MIB, 4 * _GIB, 64 * _GIB, _TIB)
"""Class k contains the sizes from bound k - 1 to below bound k, in bytes; the last class has no upper bound."""

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

AGE_DAYS = (1, 7, 30, 90, 180, 365, 730, 1825)
"""Bounds of the classes of ages, in days, like `SIZE_BOUNDS`."""

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

_MAX_BYTES = 1 << 48  # above any real file; 2^15 - 1 replicas still fit a long
_MAX_LONG = (1 << 63) - 1
_STRIPE = r"-(\d+)-(\d+)-(\d+)k$"


def known_size(length: Column) -> Column:
    """Replace impossible lengths by 0: deleted blocks have the size NO_ACK (BlockCommand), 2^63 - 1."""
    return sql.when(length.between(0, _MAX_BYTES), length).when(length.isNotNull(), 0)


def add_up(value: Column | str) -> Column:
    """Sum longs with nulls as 0; the result saturates at the largest long, where Spark's `sum` would fail the job."""
    found = sql.try_sum(sql.coalesce(value, sql.lit(0)))
    return sql.coalesce(found, sql.when(sql.count(sql.lit(1)) > 0, sql.lit(_MAX_LONG)))


def add_up_signed(value: Column | str) -> Column:
    """Sum differences like `add_up`, saturating at the smallest or largest long."""
    about = sql.sum(sql.coalesce(sql.col(value) if isinstance(value, str) else value, sql.lit(0)).cast("double"))
    return sql.when(about < -_MAX_LONG, -_MAX_LONG).otherwise(add_up(value))


def size_class(length: Column) -> Column:
    """Return the position in `SIZE_LABELS`; null for null."""
    return _class([length < bound for bound in SIZE_BOUNDS], length)


def age_class(time: Column, as_of: datetime) -> Column:
    """Return the position in `AGE_LABELS`; null for null, the first class for future times."""
    # Compared with constants, because Spark would compute a row's age again for each class.
    return _class([time > days_before(as_of, days) for days in AGE_DAYS], time)


def days_before(as_of: datetime, days: int) -> Column:
    """Return the time `days` before `as_of`."""
    return sql.timestamp_seconds(sql.lit(int(as_of.timestamp()) - days * 86_400))


def raw_space(length: Column, replication: Column, ec_policy: Column) -> Column:
    """Return the bytes on DataNodes: all replicas, or data and parity.

    Parity is computed like StripedBlockUtil.spaceConsumedByStripedBlock, assuming that all block groups except the last
    are full. Scheme and cell size come from the policy's name, see ErasureCodingPolicy.composePolicyName.
    """
    data, parity, cell = (sql.regexp_extract(ec_policy, _STRIPE, group).try_cast("long") for group in (1, 2, 3))
    cell = cell * _KIB
    stripe = sql.nullif(data * cell, sql.lit(0))
    rest = length % stripe
    whole = sql.call_function("div", length - rest, data)
    striped = length + parity * (whole + sql.least(rest, cell))
    return sql.when(ec_policy.isNotNull() & (replication == 0), sql.coalesce(striped, length)).otherwise(
        length * replication
    )


def _class(within: list[Column], value: Column) -> Column:
    chosen = sql.when(within[0], 0)
    for position, condition in enumerate(within[1:], 1):
        chosen = chosen.when(condition, position)
    return chosen.when(value.isNotNull(), len(within)).cast("int")
