"""Replacements that a repair makes, section by section, and the writer of the repaired image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from image_format.array_allocator import pieces
from image_format.sub_section_rules import compressed_streams
from image_format.summary import is_sub_section
from image_format.writer import ImageWriter, Sink
from image_tools.verify.frame import ImageFrame

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
        yield from _runs(section[position : cut.start])
        yield cut.data
        position = cut.end
    yield from _runs(section[position:])


def _runs(data: memoryview) -> Iterator[memoryview]:
    return (data[piece] for piece in pieces(len(data), _RUN))


def write_fixed(frame: ImageFrame, fixes: Fixes, sink: Sink) -> None:
    """Write the image to `sink`. The sections are in the summary's order, and unchanged sections are copied as stored.

    Entries of sub-sections are omitted, because they describe the old records, and a NameNode does not need them. These
    entries are kept if a compressed section is copied and its sub-sections are separate streams.

    Raises:
        CodecError: a section that changes cannot be decompressed.
    """
    writer = ImageWriter(sink, frame.layout_version, frame.codec, template=frame.summary)
    for entry in frame.sections:
        if is_sub_section(entry.name):
            continue
        cuts = fixes.cuts.get(entry.name)
        if not cuts:
            streams = compressed_streams(frame.sections, entry) if frame.codec else (entry,)
            # Only the entries of sub-sections show that a section has several streams.
            slices = [] if streams == (entry,) else [(each.offset - entry.offset, each.length) for each in streams]
            writer.copy_section(entry.name, frame.stored(entry), slices)
            continue
        data = frame.section(entry.name)
        assert data is not None
        with writer.section(entry.name) as section:
            for piece in spliced(data.data, cuts):
                section.write(piece)
    writer.finish()
