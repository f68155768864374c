"""Compressed frames with a footer: the bytes of an object in an archive.

    frame*      zstd frames of at most `FRAME_SIZE` bytes of content each; a section of an image begins a frame
    footer      a skippable zstd frame: JSON, the path filter, and the lengths of both

`zstd -d` extracts the archived file from an object. The footer contains the position and a digest of each frame, so a
reader can read and verify a single part of the object.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import IO, Any

import zstandard

from archive.errors import ArchiveDamagedError
from archive.path_filter import FILTER_VERSION

FRAME_SIZE = 8 << 20
_LEVEL = 3
_DIGEST = 16
_SKIPPABLE = Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A5A
_TAIL = Struct("<II4s")
_TAIL_MAGIC = b"HCAR"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: `start` and `size` of its content, `offset` and `stored` size of its bytes in the object."""

    start: int
    size: int
    offset: int
    stored: int
    digest: str


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of an object: a description, the frames, and the filter of the paths in the object.

    `path_filter` is None for a filter of another version.
    """

    description: dict[str, Any]
    frames: tuple[Frame, ...]
    path_filter: bytes | None

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self.frames[-1].start + self.frames[-1].size if self.frames else 0


def cut_ranges(size: int, boundaries: Iterable[int]) -> Iterator[range]:
    """Split `size` bytes at `boundaries`, and split the results into ranges of at most `FRAME_SIZE` bytes."""
    edges = sorted({0, size, *(each for each in boundaries if 0 < each < size)})
    for begin, end in itertools.pairwise(edges):
        for start in range(begin, end, FRAME_SIZE):
            yield range(start, min(end, start + FRAME_SIZE))


class FrameWriter:
    """Writer of an object: call `add` with its content in order, then `finish`."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._frames: list[Frame] = []
        self._content = self._position = 0
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True)

    def add(self, content: bytes | memoryview) -> None:
        packed = self._compressor.compress(content)
        self._out.write(packed)
        digest = hashlib.sha256(packed).hexdigest()[: 2 * _DIGEST]
        self._frames.append(Frame(self._content, len(content), self._position, len(packed), digest))
        self._content += len(content)
        self._position += len(packed)

    def finish(self, description: dict[str, Any], path_filter: bytes = b"") -> None:
        """Append the footer."""
        rows = [[each.size, each.stored, each.digest] for each in self._frames]
        values = {"description": description, "frames": rows, "filterVersion": FILTER_VERSION}
        text = json.dumps(values, sort_keys=True).encode()
        body = text + path_filter + hashlib.sha256(text + path_filter).digest()
        tail = _TAIL.pack(len(text), len(path_filter), _TAIL_MAGIC)
        self._out.write(_SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(body) + len(tail)) + body + tail)


class FrameReader:
    """Reader of an object from a seekable `stream`.

    Raises:
        ArchiveDamagedError: the footer or a frame does not match its digest.
    """

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self.footer = self._read_footer()

    def chunks(self) -> Iterator[bytes]:
        for frame in self.footer.frames:
            yield self._content(frame)

    def _content(self, frame: Frame) -> bytes:
        self._stream.seek(frame.offset)
        packed = self._stream.read(frame.stored)
        if hashlib.sha256(packed).hexdigest()[: 2 * _DIGEST] != frame.digest:
            raise ArchiveDamagedError(self._name, f"the frame at byte {frame.offset} is damaged")
        try:
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=frame.size)
        except zstandard.ZstdError as fault:
            raise ArchiveDamagedError(self._name, f"the frame at byte {frame.offset}: {fault}") from fault

    def _read_footer(self) -> Footer:
        end = self._stream.seek(0, 2)
        tail = self._last(end, _TAIL.size)
        text_size, filter_size, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, 0, b"")
        size = text_size + filter_size + hashlib.sha256().digest_size
        if magic != _TAIL_MAGIC or size + _TAIL.size > end:
            raise ArchiveDamagedError(self._name, "the footer is missing")
        body = self._last(end - _TAIL.size, size)
        text, path_filter = body[:text_size], body[text_size : text_size + filter_size]
        if hashlib.sha256(text + path_filter).digest() != body[text_size + filter_size :]:
            raise ArchiveDamagedError(self._name, "the footer is damaged")
        values = json.loads(text)
        usable = path_filter if values.get("filterVersion") == FILTER_VERSION else None
        return Footer(values["description"], tuple(_frames(values["frames"])), usable)

    def _last(self, end: int, size: int) -> bytes:
        self._stream.seek(max(0, end - size))
        return self._stream.read(min(size, end))


def _frames(rows: Sequence[Sequence[Any]]) -> Iterator[Frame]:
    start = offset = 0
    for size, stored, digest in rows:
        yield Frame(start, size, offset, stored, digest)
        start += size
        offset += stored
