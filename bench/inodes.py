"""Encoding of generated inodes with the product's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from image_format.kernels.inode import encode_inodes, encoded_size
from image_format.kernels.tables import LINK_DTYPE
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

_NO_CLIENTS = np.zeros(0, LINK_DTYPE)


def encode_rows(
    rows: npt.NDArray[np.void], names: npt.NDArray[np.uint8], blocks: npt.NDArray[np.void]
) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """Return delimited INode records, and their starts followed by the end of the last record."""
    wanted = np.arange(rows.size)
    out = np.empty(encoded_size(rows, wanted, names, blocks, _NO_CLIENTS, True, False), np.uint8)
    starts = np.empty(rows.size + 1, np.int64)
    encode_inodes(rows, wanted, names, blocks, _NO_CLIENTS, names, True, False, out, starts)
    return memoryview(out), starts


def edited_records(
    encoded: memoryview, starts: npt.NDArray[np.int64], chosen: Iterable[int], edit: Callable[[int, pb.INode], object]
) -> Iterator[memoryview | bytes]:
    """Yield the records of `encode_rows`; call `edit` for the records with the numbers `chosen`, which ascend."""
    done = 0
    for number in chosen:
        start, end = int(starts[number]), int(starts[number + 1])
        yield encoded[done:start]
        while encoded[start] & 0x80:
            start += 1
        inode = pb.INode.FromString(encoded[start + 1 : end])
        edit(number, inode)
        yield encode_delimited(inode)
        done = end
    yield encoded[done:]
