"""What is inconsistent in a namespace with snapshots and is healed when it is saved, and what was healed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from engine.errors import InconsistentNamespaceError
from image_tools.verify.catalogue import CODES
from image_tools.verify.findings import Finding

_STRICT_HINT = "Without --strict this is healed, and reported."


class HealingMode(Enum):
    """What to do about inconsistent snapshots, as NameNodes themselves cause them."""

    HEAL = "heal"
    """Write an image that loads, and tell what was changed for that."""
    STRICT = "strict"
    """Refuse it."""
    AS_HADOOP = "as-hadoop"
    """Write what Hadoop writes, which may be an image that no NameNode loads, and stop where Hadoop stops."""


@dataclass(frozen=True, slots=True)
class HealedFault:
    """One inconsistency that the new image does not have.

    Attributes:
        code: what `checkpointer image verify` would call it.
        section: of the image, in which it would be found.
        inode: id of the inode concerned, 0 where none is known.
        path: where that is, or was, as far up as it is known; "" where nobody looked.
        message: what was wrong, and what was done.
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
    """Collects what is healed, each once.

    Attributes:
        mode: what to do about it.
    """

    def __init__(self, mode: HealingMode) -> None:
        self.mode = mode
        self._found: dict[HealedFault, None] = {}

    def __iter__(self) -> Iterator[HealedFault]:
        return iter(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, healed: HealedFault) -> None:
        """Note what is healed now.

        Raises:
            InconsistentNamespaceError: nothing is to be healed.
        """
        if self.mode is HealingMode.STRICT:
            raise InconsistentNamespaceError(f"the snapshots are inconsistent: {healed}", hint=_STRICT_HINT)
        self._found.setdefault(healed)

    def continue_past(self, healed: HealedFault, error: InconsistentNamespaceError) -> None:
        """Go on behind a place where a NameNode that replays the same edits stops.

        Raises:
            InconsistentNamespaceError: `error`, where nothing is to be healed.
        """
        if self.mode is not HealingMode.HEAL:
            raise error
        self._found.setdefault(healed)


def healed_finding(finding: Finding, where: str) -> HealedFault:
    """What a repair changed in an image, `where` says which."""
    text = f"{where}: {finding.message}: {finding.change or CODES[finding.code].repair}"
    return HealedFault(finding.code, finding.section, finding.inode or 0, "", text)
