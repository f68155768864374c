"""Findings of a verification, counted all and listed up to a limit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from image_format.errors import BufferOrigin
from image_tools.verify.catalogue import CODES, Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency.

    Attributes:
        code: a name of `catalogue.CODES`.
        section: "" where it concerns the whole file.
        offset: of the record, from the file's first byte, or from that of the decompressed section if
            `decompressed` is set; None where no record is meant.
        inode: id of the inode concerned, None for none.
        change: what a repair did about it, "" for what the code says.
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
        """A repair does something about it; infos are nothing to repair."""
        return self.repairable and self.severity is not Severity.INFO

    @property
    def blocks_repair(self) -> bool:
        """An error that no repair takes away."""
        return self.severity is Severity.ERROR and not self.repairable

    def as_dict(self) -> dict[str, Any]:
        """For JSON; keys without a value are left out."""
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
    """Collects findings; each code is counted, and listed `limit` times at most.

    Args:
        limit: listed findings a code, None for all.

    Attributes:
        listed: the findings, in the order they were met.
        counts, severities: how many there are of each.
        repairable: how many a repair would do something about.
        unrepairable: the first that no repair takes away.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.listed: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.severities: Counter[Severity] = Counter()
        self.unrepairable: Finding | None = None
        self.repairable = 0

    def room(self, code: str) -> int | None:
        """How many more of a code are listed, None for any number."""
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
        change: str = "",
    ) -> None:
        """Add one; `offset` is counted within the buffer that comes from `place`."""
        chosen = severity or CODES[code].severity
        decompressed = place.base is None and offset is not None
        if offset is not None:
            offset += place.base or 0
        finding = Finding(code, chosen, place.section, offset, inode, message, decompressed, change)
        if self.room(code) != 0:
            self.listed.append(finding)
        self.counts[code] += 1
        self.severities[chosen] += 1
        self.repairable += finding.wants_repair
        if finding.blocks_repair and self.unrepairable is None:
            self.unrepairable = finding

    def add_unlisted(self, code: str, count: int) -> None:
        """Count findings that are over the limit without making them."""
        if count:
            self.counts[code] += count
            self.severities[CODES[code].severity] += count
            self.repairable += count if CODES[code].repair else 0

    @property
    def valid(self) -> bool:
        """No error; warnings and infos may be there."""
        return not self.severities[Severity.ERROR]

    @property
    def clean(self) -> bool:
        """Nothing that a repair would change, and no error."""
        return self.valid and not self.repairable
