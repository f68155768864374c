"""A block of an HDFS file."""

from __future__ import annotations

from typing import NamedTuple


class Block(NamedTuple):
    """A block of a file; `num_bytes` is its length in bytes."""

    block_id: int
    num_bytes: int
    genstamp: int
