"""Modes of healing inconsistent snapshots when a namespace is saved, and the log of healed faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from engine.errors import InconsistentNamespaceError
from image_tools.verify.catalogue import CODES
from image_tools.verify.findings import Finding

_STRICT_HINT = "Run without --strict: the merge then heals the inconsistency and reports it."


class HealingMode(Enum):
    """Handling of inconsistent snapshots, which NameNodes themselves can cause."""

    HEAL = "heal"
    """Write an image that a NameNode loads, and report the changes."""
    STRICT = "strict"
    """Refuse inconsistent snapshots."""
    AS_HADOOP = "as-hadoop"
    """Write the same image as Hadoop, even if a NameNode cannot load it, and fail where Hadoop fails."""


@dataclass(frozen=True, slots=True)
class HealedFault:
    """An inconsistency that was healed in the new image.

    Attributes:
        code: code of the finding in `checkpointer image verify`.
        section: section of the image that would contain the inconsistency.
        inode: id of the affected inode, 0 if unknown.
        path: known part of the inode's present or former path; "" if not looked up.
        message: the fault, and the change that healed it.
    """

    code: str
    section: str
    inode: int
    path: str
    message: str

    def __str__(self) -> str:
        inode = f"inode {self.inode}" if self.inode else ""
        where = ", ".join(filter(None, [self.section, inode, self.path]))
        return f"{self.code} [{where}]: {self.message}"


class HealingLog:
    """Log of healed faults, without duplicates.

    Attributes:
        mode: handling of faults.
    """

    def __init__(self, mode: HealingMode) -> None:
        self.mode = mode
        self._found: dict[HealedFault, None] = {}

    def __iter__(self) -> Iterator[HealedFault]:
        return iter(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, healed: HealedFault) -> None:
        """Add a fault that is being healed.

        Raises:
            InconsistentNamespaceError: the mode is `STRICT`.
        """
        if self.mode is HealingMode.STRICT:
            raise InconsistentNamespaceError(f"the snapshots are inconsistent: {healed}", hint=_STRICT_HINT)
        self._found.setdefault(healed)

    def continue_past(self, healed: HealedFault, error: InconsistentNamespaceError) -> None:
        """Add a fault that makes a NameNode terminate when it replays the same edits.

        Raises:
            InconsistentNamespaceError: `error`, if the mode is not `HEAL`.
        """
        if self.mode is not HealingMode.HEAL:
            raise error
        self._found.setdefault(healed)


def healed_finding(finding: Finding, where: str) -> HealedFault:
    """Convert the finding of a repaired image to a healed fault; `where` describes the image."""
    text = f"{where}: {finding.message}: {finding.change or CODES[finding.code].repair}"
    return HealedFault(finding.code, finding.section, finding.inode or 0, "", text)
