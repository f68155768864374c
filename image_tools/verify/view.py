"""One section read record by record, where a damaged record is a finding and no exception."""

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
from image_tools.verify.frame import Frame

M = TypeVar("M", bound=Message)


class SectionView:
    """A section's bytes, and where its findings go.

    Attributes:
        data: decompressed, empty where the section is absent or unreadable.
        present: whether it was there and readable.
        damaged: whether a record was met that ends the reading.
    """

    def __init__(self, frame: Frame, name: str, findings: Findings) -> None:
        found = frame.readable(name, findings)
        self.name = name
        self.place: BufferOrigin = frame.place(name)
        self.present = found is not None
        self.bytes = found
        self.data = memoryview(b"") if found is None else found.data
        self.damaged = False
        self._findings = findings

    def records(self, start: int = 0) -> Iterator[Record]:
        """The delimited records from `start` on; ends at one whose frame is cut."""
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
        """A record as a message, None (and a finding) where it is none."""
        try:
            return parse_message(kind, record, self.place)
        except RecordError as error:
            self.report_damage(error)
            return None

    def header(self, kind: type[M]) -> tuple[M, int]:
        """The section's first record and the offset behind it; a message without fields where there is none."""
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
        """A finding in this section; `offset` counts from the section's first byte, `severity` None is the code's."""
        self._findings.add(code, message, self.place, offset, inode=inode, severity=severity)

    def add_damaged(self, text: str, offsets: npt.NDArray[np.int64]) -> None:
        """A finding for each record that is damaged; beyond the limit they are only counted."""
        listed = offsets[: self._findings.room("record-damaged")].tolist()
        for offset in listed:
            self.add("record-damaged", text, offset)
        self._findings.add_unlisted("record-damaged", offsets.size - len(listed))

    def add_all(self, code: str, text: str, offset: int, inode_ids: npt.NDArray[np.int64]) -> None:
        """A finding for each of some inodes, `{}` in the text being its id; beyond the limit they are only counted."""
        listed = inode_ids[: self._findings.room(code)].tolist()
        for inode_id in listed:
            self.add(code, text.format(inode_id), offset, inode=inode_id)
        self._findings.add_unlisted(code, inode_ids.size - len(listed))
