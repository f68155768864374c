"""What fuzzing starts from: small recorded images, and segments of few operations cut out of recorded ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from image_format.codecs import CODECS
from journal.segment import HEADER_SIZE, iter_ops

__all__ = ["codec_seeds", "edits_seeds", "image_seeds"]

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
_LARGEST_IMAGE = 8 << 10


def image_seeds() -> Iterator[bytes]:
    """Whole images, damaged ones among them."""
    for path in sorted(RECORDED.glob("hadoop-*/**/fsimage_*[0-9]")):
        if path.stat().st_size <= _LARGEST_IMAGE:
            yield path.read_bytes()


def edits_seeds() -> Iterator[bytes]:
    """For each layout and opcode a segment of the first recorded operation of that kind and its neighbours."""
    seen: set[tuple[bytes, int]] = set()
    for path in sorted(RECORDED.glob("hadoop-*/*/before/edits_*-*")):
        data = path.read_bytes()
        ops = list(iter_ops(data))
        starts = [op.offset for op in ops]
        ends = [*starts[1:], len(data)]
        for number, op in enumerate(ops):
            kind = (data[:4], op.opcode)
            if kind not in seen:
                seen.add(kind)
                yield data[:HEADER_SIZE] + data[starts[max(0, number - 1)] : ends[min(number + 1, len(ops) - 1)]]


def codec_seeds() -> Iterator[bytes]:
    """A small stream of every codec behind its number, and records and a digest behind theirs."""
    content = b"0123456789abcdef" * 20 + bytes(300)
    for number, codec in enumerate(CODECS.values()):
        for size in (0, 1, len(content)):
            compressor = codec.compressor()
            yield bytes([number]) + bytes(compressor.compress(content[:size])) + compressor.finish()
    yield b"\xfe" + b"0123456789abcdef0123456789abcdef *image\n"
    for path in sorted(RECORDED.glob("hadoop-*/empty/before/fsimage_*[0-9]")):
        yield b"\xff" + path.read_bytes()[8:]
