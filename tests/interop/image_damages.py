"""Damaged copies of an image with a correct digest, as a faulty disk, a bug or an attacker may produce them.

Each damage is deterministic: the random numbers are derived from the names of the image and of the damage.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, iter_records
from image_format.writer import ImageWriter

_LENGTH_BYTES = 4
_MAX_CUT = 40


class DamagedImage:
    """The parts of an uncompressed image: its summary, and the bytes of each section by name."""

    def __init__(self, path: Path) -> None:
        with ImageFile.open(path) as image:
            assert not image.codec, path
            self.summary = image.summary
            self.layout_version = image.layout_version
            self.names = [section.name for section in image.sections if not section.name.endswith("_SUB")]
            self.sections = {name: bytes(image.section_bytes(name)) for name in self.names}

    def encoded(self, sections: dict[str, bytes], edit: Callable[[pb.FileSummary], None] | None = None) -> bytes:
        """Build an image of these sections; `edit` changes its FileSummary before it is written."""
        out = bytearray()
        writer = ImageWriter(out.extend, self.layout_version, template=self.summary)
        for name in self.names:
            if name in sections:
                writer.copy_section(name, sections[name])
        writer.finish()
        if edit is None:
            return bytes(out)
        length = int.from_bytes(out[-_LENGTH_BYTES:], "big")
        summary, start = pb.FileSummary(), len(out) - _LENGTH_BYTES - length
        record = next(iter_records(memoryview(out)[start:-_LENGTH_BYTES].toreadonly(), 0))
        summary.ParseFromString(bytes(record.body))
        edit(summary)
        tail = encode_delimited(summary)
        return bytes(out[:start]) + tail + len(tail).to_bytes(_LENGTH_BYTES, "big")


def damages(path: Path, flips: int) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of each damaged copy of the image at `path`.

    Args:
        flips: number of copies for each section, each with one changed byte.
    """
    image = DamagedImage(path)
    for name in image.names:
        chosen = random.Random(f"{path.parent.parent.name} {name}")
        data = image.sections[name]
        if data:
            yield from _flips(image, name, flips, chosen)
            yield from _lengths(image, name, chosen)
            yield from _records(image, name, chosen)
        others = {other: found for other, found in image.sections.items() if other != name}
        yield f"no_{name}", image.encoded(others)
        yield f"empty_{name}", image.encoded({**image.sections, name: b""})
        yield f"twice_{name}", image.encoded(image.sections, lambda found, name=name: _double(found, name))  # type: ignore[misc]


def _flips(image: DamagedImage, name: str, count: int, chosen: random.Random) -> Iterator[tuple[str, bytes]]:
    for number in range(count):
        data = bytearray(image.sections[name])
        at = chosen.randrange(len(data))
        data[at] ^= 1 << chosen.randrange(8) if number % 2 else chosen.randrange(1, 256)
        yield f"flip_{name}_{number}", image.encoded({**image.sections, name: bytes(data)})


def _lengths(image: DamagedImage, name: str, chosen: random.Random) -> Iterator[tuple[str, bytes]]:
    data = image.sections[name]
    cut = chosen.randrange(1, min(len(data), _MAX_CUT) + 1)
    yield f"cut_{name}", image.encoded({**image.sections, name: data[:-cut]})
    yield f"longer_{name}", image.encoded({**image.sections, name: data + chosen.randbytes(cut)})
    for more in (-cut, cut):

        def change(summary: pb.FileSummary, more: int = more) -> None:
            for section in summary.sections:
                if section.name == name:
                    section.length += more

        yield f"length_{name}_{more:+d}", image.encoded(image.sections, change)


def _records(image: DamagedImage, name: str, chosen: random.Random) -> Iterator[tuple[str, bytes]]:
    """Drop or duplicate one record of a section."""
    data = image.sections[name]
    spans = [(record.offset, record.end) for record in iter_records(memoryview(data), 0)]
    start, end = chosen.choice(spans)
    yield f"lost_record_{name}", image.encoded({**image.sections, name: data[:start] + data[end:]})
    yield f"record_twice_{name}", image.encoded({**image.sections, name: data[:end] + data[start:]})


def _double(summary: pb.FileSummary, name: str) -> None:
    found = next(section for section in summary.sections if section.name == name)
    summary.sections.add().CopyFrom(found)
