"""Check of INODE records by the rules of a layout, for the whole section or for the pieces that a scan reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.storage_policies import POLICY_IDS
from image_format.errors import RecordError
from image_format.layout import LayoutVersion, is_unknown, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.storage_policies import known_policies
from image_format.varint import parse_message, read_record
from image_tools.loadable.kernels.records import PARSED, first_unloadable_inode, put_kinds
from image_tools.loadable.tables import REQUIRED, fields_of, number_of

Section = npt.NDArray[np.uint8]
Sections = Callable[[str], Section | None]
Kinds = npt.NDArray[np.uint8]

REJECTED = "NameNodes reject the file's replication, block size, storage policy or erasure coding policy"

SYSTEM_POLICIES = range(1, 6)
"""Ids of the erasure coding policies of every cluster."""
_MIN_RECORD = 5
# INodeFile.HeaderFormat: smallest and largest replication, largest block size
_FILES_OF_HADOOP_2 = np.array([1, 4095, (1 << 48) - 1], np.int64)
_FILES_OF_HADOOP_3 = np.array([0, 2047, (1 << 48) - 1], np.int64)
_NO_POLICIES = np.zeros(0, np.uint8)


class InodeRules:
    """Rules for the INODE records of an image.

    Args:
        section: returns the decompressed bytes of a section, or None if absent.

    Attributes:
        fields: see `tables.fields_of`.
        policies: whether each erasure coding policy exists, by id; empty in Hadoop 2.
        storage_policies: whether a file may have the storage policy, by id.
        bounds: smallest and largest replication, largest block size.
    """

    def __init__(self, section: Sections, layout_version: int) -> None:
        hadoop3 = supports(LayoutVersion.ERASURE_CODING, layout_version)
        self.fields = fields_of(layout_version)
        self.policies = _known_policies(section("ERASURE_CODING")) if hadoop3 else _NO_POLICIES
        self.bounds = _FILES_OF_HADOOP_3 if hadoop3 else _FILES_OF_HADOOP_2
        self.storage_policies = np.zeros(1 << 8, np.uint8)
        # Hadoop 3 loads files with an unknown storage policy.
        self.storage_policies[list(range(POLICY_IDS) if hadoop3 else known_policies(layout_version))] = 1

    def first_fault(self, records: Section, position: int, kinds: Kinds) -> tuple[int, str] | None:
        """Return the position in the section and the fault of the first record that does not load, or None if all load.

        Args:
            records: consecutive records; the first record begins at `position` in the section.
            kinds: array of zeros, filled with the type of each inode in two bits.
        """
        at, parsed = first_unloadable_inode(
            records,
            0,
            number_of(pb.INode),
            self.fields,
            REQUIRED,
            self.policies,
            self.storage_policies,
            self.bounds,
            kinds,
        )
        if at == PARSED:
            return None
        return position + int(at), REJECTED if parsed else "NameNodes cannot parse the record as INode"


def _known_policies(section: Section | None) -> npt.NDArray[np.uint8]:
    """Return whether each erasure coding policy exists, by id; 0 means replication."""
    known = np.zeros(1 << 8, np.uint8)
    known[[0, *SYSTEM_POLICIES]] = 1
    if section is not None and section.size:
        with suppress(RecordError):
            for policy in parse_message(pb.ErasureCodingSection, read_record(section.data)).policies:
                known[policy.id & 0xFF] = 1
    return known


class CheckedInodes(NamedTuple):
    """The types of some inodes in two bits, and the first fault, at a position among their records."""

    kinds: Kinds
    fault: tuple[int, str] | None


class InodePieces:
    """Check of the INODE records of an image during their scan.

    Attributes:
        kinds: type of each inode in two bits, by slot.
        fault: position in the section and fault of the first record that does not load; None if no fault has been
            found so far.
    """

    def __init__(self, image: ImageFile, count: int) -> None:
        """Prepare the check of at most `count` records."""
        self._rules = InodeRules(image.section, image.layout_version)
        self._known = not is_unknown(image.layout_version)
        self.kinds: Kinds = np.zeros(count // 4 + 1, np.uint8)
        self.fault: tuple[int, str] | None = None

    def inspect(self, records: Section) -> CheckedInodes:
        """Check consecutive records; several threads may call this method at the same time."""
        kinds = np.zeros(records.size // _MIN_RECORD // 4 + 1, np.uint8)
        return CheckedInodes(kinds, self._rules.first_fault(records, 0, kinds) if self._known else None)

    def add(self, number: int, position: int, rows: int, checked: CheckedInodes) -> None:
        """Add the result for the records that follow the previous records; record `number` begins at `position`."""
        put_kinds(self.kinds, number, checked.kinds, rows)
        if self.fault is None and checked.fault is not None:
            at, what = checked.fault
            self.fault = position + at, what
