"""Check and repair of NS_INFO: the txid, and the counters of block ids and generation stamps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_common.names import parse_image
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.view import SectionView


class BlockMaxima:
    """The highest ids of contiguous and striped blocks, and the highest generation stamps, new and legacy.

    Args:
        legacy_limit: NS_INFO.genstampV1Limit; blocks with lower generation stamps have random ids.
    """

    def __init__(self, legacy_limit: int) -> None:
        self.legacy_limit = signed64(legacy_limit)
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
            block_id, genstamp = signed64(block.blockId), signed64(block.genStamp)
            if genstamp < self.legacy_limit:
                self._raise(2, genstamp)
                continue
            self._raise(1, genstamp)
            self._raise(3 if block_id < 0 else 0, block_id)

    def _raise(self, index: int, value: int) -> None:
        self.values[index] = max(int(self.values[index]), value)


class NamesystemCheck:
    """Check of NS_INFO: of its txid at the beginning, and of its counters at the end.

    Attributes:
        info: the message, empty if it is unreadable.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, *, check_name: bool) -> None:
        self._view = SectionView(frame, "NS_INFO", findings)
        self.info, end = self._view.header(pb.NameSystemSection)
        if not self._view.damaged and end != len(self._view.data):
            self._view.add("record-damaged", "bytes follow the NameSystemSection", end)
        named = parse_image(frame.path.name)
        self._usable = self._view.present and not self._view.damaged
        if not self._usable:
            return
        if (txid := signed64(self.info.transactionId)) < 0:
            self._view.add("record-unloadable", f"the transaction id {txid} is negative", 0)
        elif check_name and named is not None and named.txid != txid:
            text = f"the file's name has transaction {named.txid}, but NS_INFO has {self.info.transactionId}"
            self._view.add("txid-name", text, 0)

    def check_counters(self, maxima: BlockMaxima, fixes: Fixes | None) -> None:
        """Compare the counters with the highest block ids and generation stamps in use."""
        if not self._usable:
            return
        info = pb.NameSystemSection()
        info.CopyFrom(self.info)
        for code, name, used in (
            ("ns-block-id", "lastAllocatedBlockId", maxima.block_id),
            ("ns-block-id", "lastAllocatedStripedBlockId", maxima.striped_block_id),
            ("ns-genstamp", "genstampV2", maxima.genstamp),
            ("ns-genstamp", "genstampV1", maxima.legacy_genstamp),
        ):
            present = info.HasField(name) or name != "lastAllocatedStripedBlockId"
            counter = signed64(getattr(info, name)) if present else -(1 << 63)
            if used > counter:
                self._view.add(code, f"{name} is {counter}, but a block has {used}", 0)
                setattr(info, name, unsigned64(used))
        if fixes is not None and info != self.info:
            fixes.replace("NS_INFO", 0, len(self._view.data), encode_delimited(info))
