"""Conversion of INODE, SNAPSHOT and SNAPSHOT_DIFF in chunks of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.attributes import NO_STRING, Conversion
from image_format.kernels.convert import convert_diffs, convert_inodes, convert_snapshots
from image_format.kernels.records import DIFF_STATE, last_boundary
from image_format.varint import read_record
from image_tools.convert.layout_losses import Findings
from image_tools.convert.strings import Serials

CONVERTED = ("INODE", "SNAPSHOT", "SNAPSHOT_DIFF")
"""Sections whose records contain attributes of inodes."""

_CHUNK = 8 << 20
_Bytes = npt.NDArray[np.uint8]


def convert_records(
    name: str, section: _Bytes, serials: Serials, special: npt.NDArray[np.int64], found: Findings, place: BufferOrigin
) -> Iterator[memoryview]:
    """Yield the section with renumbered serials, in read-only pieces; the size does not change.

    Args:
        name: one of `CONVERTED`.
        special: see `strings.special_names`.
        found: findings, incremented for content that other layouts cannot represent.
        place: location of the section, for errors.

    Raises:
        RecordError: a record is damaged, or refers to a string that is missing from the string table.
    """
    position = 0
    if name != "SNAPSHOT_DIFF" and section.size:
        position = read_record(section.data, 0, place).end
        yield section[:position].data
    state = np.zeros(DIFF_STATE, np.int64)
    convert = _converter(name, serials, special, found, state)
    while position < section.size:
        end, damaged = last_boundary(section, position, position + _CHUNK)
        chunk = section[position:end].copy()
        where, fault = convert(chunk)
        if fault or damaged:
            raise _fault(place, fault, position + where)
        yield chunk.data.toreadonly()
        position = end
    if state[1] or state[2]:
        raise place.error(RecordError, "the section ends within the list of an inode's diffs", position)


def _converter(
    name: str, serials: Serials, special: npt.NDArray[np.int64], found: Findings, state: npt.NDArray[np.int64]
) -> Callable[[_Bytes], tuple[int, int]]:
    rules = Conversion(*serials, special, found)
    if name == "SNAPSHOT_DIFF":
        return lambda chunk: convert_diffs(chunk, 0, rules, state)
    kernel = convert_inodes if name == "INODE" else convert_snapshots
    return lambda chunk: kernel(chunk, 0, rules)


def _fault(place: BufferOrigin, fault: int, offset: int) -> RecordError:
    if fault == NO_STRING:
        return place.error(RecordError, "a record refers to a string that is missing from the string table", offset)
    return place.error(RecordError, "damaged record", offset)
