"""Reads a section record by record; a damaged record is a finding, not an exception."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from image_format.errors import BufferOrigin, RecordError
from image_format.varint import Record, parse_message, read_record
from image_tools.verify.catalogue import Severity
from image_tools.verify.findings import Findings
from image_tools.verify.frame import ImageFrame

M = TypeVar("M", bound=Message)


class SectionView:
    """A section's bytes, and the destination of its findings.

    Attributes:
        data: decompressed bytes, empty if the section is absent or unreadable.
        present: whether the section exists and is readable.
        damaged: whether a damaged record was found.
    """

    def __init__(self, frame: ImageFrame, name: str, findings: Findings) -> None:
        found = frame.readable(name, findings)
        self.name = name
        self.place: BufferOrigin = frame.place(name)
        self.present = found is not None
        self.bytes = found
        self.data = memoryview(b"") if found is None else found.data
        self.damaged = False
        self._findings = findings

    def records(self, start: int = 0) -> Iterator[Record]:
        """Yield the delimited records, starting at `start`, up to a truncated record."""
        offset = start
        while offset < len(self.data):
            try:
                record = read_record(self.data, offset, self.place)
            except RecordError as error:
                self.report_damage(error)
                return
            yield record
            offset = record.end

    def parse(self, kind: type[M], record: Record) -> M | None:
        """Parse a record as a message; if that fails, add a finding and return None."""
        try:
            return parse_message(kind, record, self.place)
        except RecordError as error:
            self.report_damage(error)
            return None

    def header(self, kind: type[M]) -> tuple[M, int]:
        """Return the section's first record and the offset after it; an empty message if there is no record."""
        for record in self.records():
            message = self.parse(kind, record)
            if message is not None:
                return message, record.end
            break
        else:
            if self.present:
                self.add("record-damaged", f"the section has no {kind.DESCRIPTOR.name}", 0)
                self.damaged = True
        return kind(), len(self.data)

    def report_damage(self, error: RecordError) -> None:
        self.damaged = True
        offset = (error.offset or 0) - (self.place.base or 0)
        self._findings.add("record-damaged", error.detail, self.place, offset)

    def add(
        self,
        code: str,
        message: str,
        offset: int | None = None,
        *,
        inode: int | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding; `offset` is relative to the section, and `severity` defaults to the severity of the code."""
        self._findings.add(code, message, self.place, offset, inode=inode, severity=severity)

    def add_damaged(self, text: str, offsets: npt.NDArray[np.int64]) -> None:
        """Add a finding for each damaged record; beyond the limit, only count them."""
        listed = offsets[: self._findings.room("record-damaged")].tolist()
        for offset in listed:
            self.add("record-damaged", text, offset)
        self._findings.add_unlisted("record-damaged", offsets.size - len(listed))

    def add_all(self, code: str, text: str, offset: int, inode_ids: npt.NDArray[np.int64]) -> None:
        """Add a finding for each inode, with its id for `{}` in the text; beyond the limit, only count them."""
        listed = inode_ids[: self._findings.room(code)].tolist()
        for inode_id in listed:
            self.add(code, text.format(inode_id), offset, inode=inode_id)
        self._findings.add_unlisted(code, inode_ids.size - len(listed))
