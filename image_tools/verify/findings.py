"""Findings of a verification. All findings are counted, but only a limited number of them is listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from image_format.errors import BufferOrigin, ImageFormatError
from image_tools.verify.catalogue import CODES, Severity


class UnrepairableError(ImageFormatError):
    """Refusal to repair damage that cannot be repaired; nothing was written."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An inconsistency in an image.

    Attributes:
        code: a name in `catalogue.CODES`.
        section: "" for the whole file.
        offset: offset of the record in the file, or in the decompressed section if `decompressed` is set; None if no
            record is affected.
        inode: id of the affected inode, or None.
        change: action of the repair, "" for the usual repair of the code.
    """

    code: str
    severity: Severity
    section: str
    offset: int | None
    inode: int | None
    message: str
    decompressed: bool = False
    change: str = ""

    @property
    def repairable(self) -> bool:
        return bool(CODES[self.code].repair)

    @property
    def wants_repair(self) -> bool:
        """Whether a repair changes the image for this finding; infos are not repaired."""
        return self.repairable and self.severity is not Severity.INFO

    @property
    def blocks_repair(self) -> bool:
        """Whether the finding is an error that cannot be repaired."""
        return self.severity is Severity.ERROR and not self.repairable

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON, without absent values."""
        content = {
            "code": self.code,
            "severity": self.severity.value,
            "section": self.section,
            "offset": self.offset,
            "decompressed": self.decompressed or None,
            "inode": self.inode,
            "message": self.message,
        }
        return {key: value for key, value in content.items() if value is not None and value != ""}

    def __str__(self) -> str:
        where = [self.section] if self.section else []
        if self.offset is not None:
            where.append(f"offset {self.offset}" + (" decompressed" if self.decompressed else ""))
        if self.inode is not None:
            where.append(f"inode {self.inode}")
        return f"{self.severity} {self.code}" + (f" [{', '.join(where)}]" if where else "") + f": {self.message}"


class Findings:
    """Collection of findings; all are counted, and at most `limit` of each code are listed.

    Args:
        limit: maximum number of listed findings for each code, None for all.

    Attributes:
        listed: the listed findings, in order of detection.
        counts, severities: number of findings of each code and severity.
        repairable: number of findings that a repair would change.
        unrepairable: the first error that cannot be repaired.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.listed: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.severities: Counter[Severity] = Counter()
        self.unrepairable: Finding | None = None
        self.repairable = 0

    def room(self, code: str) -> int | None:
        """Return the number of findings of a code that can still be listed, or None if unlimited."""
        return None if self.limit is None else max(0, self.limit - self.counts[code])

    def add(
        self,
        code: str,
        message: str,
        place: BufferOrigin,
        offset: int | None = None,
        *,
        inode: int | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding; `offset` is relative to the buffer at `place`."""
        chosen = severity or CODES[code].severity
        decompressed = place.base is None and offset is not None
        if offset is not None:
            offset += place.base or 0
        finding = Finding(code, chosen, place.section, offset, inode, message, decompressed)
        if self.room(code) != 0:
            self.listed.append(finding)
        self.counts[code] += 1
        self.severities[chosen] += 1
        self.repairable += finding.wants_repair
        if finding.blocks_repair and self.unrepairable is None:
            self.unrepairable = finding

    def add_unlisted(self, code: str, count: int) -> None:
        """Count findings beyond the limit without creating them."""
        if count:
            self.counts[code] += count
            self.severities[CODES[code].severity] += count
            self.repairable += count if CODES[code].repair else 0

    @property
    def valid(self) -> bool:
        """Whether the findings contain no errors; warnings and infos are allowed."""
        return not self.severities[Severity.ERROR]

    @property
    def clean(self) -> bool:
        """Whether the findings contain no errors and nothing to repair."""
        return self.valid and not self.repairable
