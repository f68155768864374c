"""The highest block ids and generation stamps in the INODE section and the snapshot diffs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb


class BlockMaxima:
    """The highest ids of contiguous and striped blocks, and the highest generation stamps, new and legacy.

    Args:
        legacy_limit: NS_INFO.genstampV1Limit; blocks with lower stamps have random ids.
    """

    def __init__(self, legacy_limit: int) -> None:
        self.legacy_limit = legacy_limit
        self.values: npt.NDArray[np.int64] = np.array([0, 0, 0, -(1 << 63)], np.int64)

    @property
    def block_id(self) -> int:
        return int(self.values[0])

    @property
    def genstamp(self) -> int:
        return int(self.values[1])

    @property
    def legacy_genstamp(self) -> int:
        return int(self.values[2])

    @property
    def striped_block_id(self) -> int:
        return int(self.values[3])

    def take(self, blocks: Iterable[pb.BlockProto]) -> None:
        """Include blocks outside of the INODE section."""
        for block in blocks:
            block_id = block.blockId - (1 << 64) if block.blockId >> 63 else block.blockId
            genstamp = block.genStamp - (1 << 64) if block.genStamp >> 63 else block.genStamp
            if genstamp < self.legacy_limit:
                self._raise(2, genstamp)
                continue
            self._raise(1, genstamp)
            self._raise(3 if block_id < 0 else 0, block_id)

    def _raise(self, index: int, value: int) -> None:
        self.values[index] = max(int(self.values[index]), value)
