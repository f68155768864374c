"""Mutations inside the sections of an fsimage; the FileSummary and the trailer are corrected afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterable

from image_format.codecs import CODECS
from image_format.layout import NEWEST_LAYOUT
from image_format.summary import MAGIC, Section, build_summary, encode_trailer, is_sub_section, parse_file
from tests.fuzz.wire import INTERESTING, Mutate, mutate_message, mutate_records

_RAW = 0.1
_LIMIT = 1 << 20


def mutate_image(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Return `data` with a change in one section or in the frame of the section; if `data` is not an image, change any
    of its bytes.
    """
    try:
        summary = parse_file(memoryview(data))
        sections = [
            (section.name, _joined(CODECS[summary.codec].decompressor().decompress_iter(_stored(data, section))))
            for section in summary.sections
            if not is_sub_section(section.name)
        ]
    except Exception:  # not an image, or an earlier mutation broke its frame
        return mutate(data)
    if not sections or rng.random() < _RAW:
        return mutate(data)
    codec, layout_version = summary.codec, summary.layout_version
    choice = rng.random()
    if choice < 0.85:
        number = rng.randrange(len(sections))
        name, body = sections[number]
        sections[number] = (name, mutate_records(body, rng, mutate))
    elif choice < 0.9:
        codec = rng.choice(list(CODECS))
    elif choice < 0.95:
        layout_version = rng.randrange(NEWEST_LAYOUT - 1, -55)
    else:
        rng.shuffle(sections)
    return _build(sections, codec, layout_version, rng, mutate)


def _stored(data: bytes, section: Section) -> memoryview:
    return memoryview(data)[section.offset : section.end]


def _joined(chunks: Iterable[bytes | memoryview]) -> bytes:
    out = bytearray()
    for chunk in chunks:
        out += chunk
        if len(out) > _LIMIT:
            break
    return bytes(out)


def _build(
    sections: list[tuple[str, bytes]], codec: str, layout_version: int, rng: random.Random, mutate: Mutate
) -> bytes:
    out = bytearray(MAGIC)
    entries = []
    for name, body in sections:
        compressor = CODECS[codec].compressor()
        stored = bytes(compressor.compress(body)) + compressor.finish()
        if codec and rng.random() < 0.1:
            stored = mutate(stored)
        entries.append(Section(name, len(out), len(stored)))
        out += stored
    if rng.random() < 0.05:
        number = rng.randrange(len(entries))
        entry = entries[number]
        entries[number] = rng.choice(
            [
                Section(entry.name, rng.choice(INTERESTING), entry.length),
                Section(entry.name, entry.offset, entry.length + 1),
            ]
        )
    summary = build_summary(layout_version, codec, entries)
    if rng.random() < 0.05:
        body = mutate_message(summary.SerializeToString(), rng, mutate)
        size = bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) if len(body) > 0x7F else bytes([len(body)])
        return bytes(out) + size + body + (len(size) + len(body)).to_bytes(4, "big")
    return bytes(out) + encode_trailer(summary)
