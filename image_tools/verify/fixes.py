"""Replacements that a repair makes, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_RUN = 8 << 20


class Replacement(NamedTuple):
    """The replacement of bytes `start` .. `end` of a section by `data`."""

    start: int
    end: int
    data: bytes


@dataclass
class Fixes:
    """Replacements by section; other sections stay unchanged."""

    cuts: dict[str, list[Replacement]] = field(default_factory=dict)

    def replace(self, section: str, start: int, end: int, data: bytes) -> None:
        """Add a replacement; replacements of a section must not overlap."""
        self.cuts.setdefault(section, []).append(Replacement(start, end, data))

    def __bool__(self) -> bool:
        return bool(self.cuts)


def spliced(section: memoryview, cuts: list[Replacement]) -> Iterator[memoryview | bytes]:
    """Yield the section with its replacements, in pieces of at most 8 MiB.

    Raises:
        ValueError: two replacements overlap.
    """
    position = 0
    for cut in sorted(cuts):
        if cut.start < position:
            raise ValueError(f"cuts overlap at {cut.start}")
        yield from _runs(section, position, cut.start)
        yield cut.data
        position = cut.end
    yield from _runs(section, position, len(section))


def _runs(section: memoryview, start: int, end: int) -> Iterator[memoryview]:
    while start < end:
        stop = min(end, start + _RUN)
        yield section[start:stop]
        start = stop
