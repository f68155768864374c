"""Paths of the ledgers' znodes. The LAYOUT of a root names the ledger manager, which determines paths and ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from journal.bookkeeper.errors import LedgerMetadataError

_LONG_FROM = (1 << 31) - 1
_LONG_CUT = (3, 4, 4, 4, 4)
_CUT = (2, 4, 4)
_FACTORY = re.compile(r"(?:[\w.$]+\.)?(\w+)LedgerManagerFactory")
_NUMBER = re.compile(r"[0-9]+")


class LedgerManager(Enum):
    """Ledger manager; the value is the first part of the factory's class name."""

    FLAT = "Flat"
    HIERARCHICAL = "Hierarchical"
    LONG = "LongHierarchical"


@dataclass(frozen=True, slots=True)
class LedgerPaths:
    """Paths below `root`, such as /ledgers."""

    root: str
    manager: LedgerManager

    def of(self, ledger_id: int) -> str:
        if self.manager is LedgerManager.FLAT:
            return f"{self.root}/L{ledger_id:010d}"
        if self.manager is LedgerManager.LONG or ledger_id >= _LONG_FROM:
            return self._cut(f"{ledger_id:019d}", _LONG_CUT)
        return self._cut(f"{ledger_id:010d}", _CUT)

    @property
    def id_prefix(self) -> str:
        """Prefix of the sequential znode whose number is the next ledger's id."""
        return f"{self.root}/ID-" if self.manager is LedgerManager.FLAT else f"{self.root}/idgen/ID-"

    def _cut(self, digits: str, lengths: tuple[int, ...]) -> str:
        parts, start = [], 0
        for length in lengths:
            parts.append(digits[start : start + length])
            start += length
        return "/".join([self.root, *parts[:-1], f"L{parts[-1]}"])


def id_of(path: str) -> int:
    """Return the ledger id of a sequential znode.

    Raises:
        ValueError: the path has no number.
    """
    found = _NUMBER.fullmatch(path.rpartition("ID-")[2])
    if found is None:
        raise ValueError(f"{path} does not end with a number")
    return int(found[0])


def parse_layout(data: bytes, root: str) -> LedgerPaths:
    """Return the paths for the LAYOUT of `root`.

    Raises:
        LedgerMetadataError: the ledger manager is unknown.
    """
    text = data.decode("utf-8", "replace")
    number, _, rest = text.partition("\n")
    name = rest.partition(":")[0].strip()
    if number.strip() == "1":
        names = {"flat": LedgerManager.FLAT, "hierarchical": LedgerManager.HIERARCHICAL}
        if name in names:
            return LedgerPaths(root, names[name])
    if number.strip() == "2" and (found := _FACTORY.fullmatch(name)) is not None:
        for manager in LedgerManager:
            if found[1] == manager.value:
                return LedgerPaths(root, manager)
    hint = "Use a BookKeeper cluster with the flat or a hierarchical ledger manager."
    raise LedgerMetadataError(f"the layout {text!r} is unknown", file=f"{root}/LAYOUT", hint=hint)


def format_layout(manager: LedgerManager) -> bytes:
    """Return a LAYOUT that every release can read."""
    return f"2\norg.apache.bookkeeper.meta.{manager.value}LedgerManagerFactory:1".encode()
