"""What a repair puts in the place of damaged parts, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_RUN = 8 << 20


class Cut(NamedTuple):
    """Bytes `start` to `end` of a section give way to `data`."""

    start: int
    end: int
    data: bytes


@dataclass
class Fixes:
    """Cuts by section; a section that is not named stays as it is."""

    cuts: dict[str, list[Cut]] = field(default_factory=dict)

    def replace(self, section: str, start: int, end: int, data: bytes) -> None:
        """Cuts of one section must not overlap."""
        self.cuts.setdefault(section, []).append(Cut(start, end, data))

    def __bool__(self) -> bool:
        return bool(self.cuts)


def spliced(section: memoryview, cuts: list[Cut]) -> Iterator[memoryview | bytes]:
    """The section with its cuts applied, in pieces of 8 MiB at most.

    Raises:
        ValueError: two cuts overlap.
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
