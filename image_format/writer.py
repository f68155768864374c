"""Writes an fsimage as a stream (magic, sections, FileSummary), without file I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from image_format.codecs import Buffer, Compressor, find_codec
from image_format.proto.fsimage_pb2 import FileSummary
from image_format.section_cutter import SectionCutter
from image_format.summary import MAGIC, Section, build_summary, encode_trailer, sub_section_name

Sink = Callable[[Buffer], None]

_BATCH = 1024 * 1024
# Buffers of at least this size reach the sink without a copy; smaller buffers are joined.
_PASS_THROUGH = 128 * 1024


class ImageWriter:
    """Writer of one image to `sink`.

    Buffers of 128 KiB and more reach the sink without a copy; a sink may retain these buffers only if the caller does
    not change them.

    Args:
        layout_version: layout version for the FileSummary: a negative number.
        codec: class name of the compression codec, or "" for no compression.
        template: FileSummary of the source image, whose unknown fields are copied.
        threads: number of compressing threads, or 0 for one per core; the bytes do not depend on this number.

    Raises:
        UnsupportedCodecError: the codec is unknown.
    """

    def __init__(
        self, sink: Sink, layout_version: int, codec: str = "", *, template: FileSummary | None = None, threads: int = 0
    ) -> None:
        self.layout_version = layout_version
        self.codec = codec
        self._codec = find_codec(codec)
        self._template = template
        self._threads = threads
        self._out = _SinkBuffer(sink)
        self._out.write(MAGIC)
        self._sections: list[Section] = []
        self._open = ""
        self._finished = False

    @property
    def position(self) -> int:
        """Offset of the next byte of the file."""
        return self._out.position

    @contextmanager
    def section(self, name: str, cutter: SectionCutter | None = None) -> Iterator[SectionWriter]:
        """Write a section from the bytes written to the yielded object, compressed if the image is compressed.

        After an exception in the context, the image lacks the section, and `finish` raises an error.

        Args:
            cutter: finds the ends of the sub-sections, each of which is a separate compressed stream.
        """
        start = self._begin(name)
        writer = SectionWriter(self, name, lambda: self._codec.compressor(self._threads), self._out, cutter)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()
        self._end(name, start)

    def copy_section(self, name: str, stored: Buffer, slices: Iterable[tuple[int, int]] = ()) -> None:
        """Write a section from its stored bytes, which must be compressed if the image is compressed.

        Args:
            slices: (offset, length) in `stored` of the sub-sections.
        """
        start = self._begin(name)
        self._out.write(stored)
        for offset, length in slices:
            self.add_entry(sub_section_name(name), start + offset, length)
        self._end(name, start)

    def add_entry(self, name: str, offset: int, length: int) -> None:
        """Add a separate entry for a slice of the file (`INODE_SUB`); `offset` is relative to the file's start."""
        if offset < len(MAGIC) or length < 0 or offset + length > self.position:
            raise ValueError(f"{name}: {offset}+{length} is outside the {self.position} bytes written")
        self._sections.append(Section(name, offset, length))

    def finish(self) -> FileSummary:
        """Write the FileSummary and the trailer, flush to the sink and return the FileSummary.

        Raises:
            ValueError: a section is incomplete, or the image is already finished.
        """
        self._check_idle()
        self._finished = True
        summary = build_summary(self.layout_version, self.codec, self._sections, self._template)
        self._out.write(encode_trailer(summary))
        self._out.flush()
        return summary

    def _begin(self, name: str) -> int:
        self._check_idle()
        self._open = name
        return self.position

    def _end(self, name: str, start: int) -> None:
        self._sections.append(Section(name, start, self.position - start))
        self._open = ""

    def _check_idle(self) -> None:
        if self._finished:
            raise ValueError("the image is finished")
        if self._open:
            raise ValueError(f"section {self._open} is not complete")


class SectionWriter:
    """Open section of an `ImageWriter`.

    Attributes:
        size: number of bytes written to the section before compression.
    """

    def __init__(
        self,
        image: ImageWriter,
        name: str,
        compressor: Callable[[], Compressor],
        out: _SinkBuffer,
        cutter: SectionCutter | None,
    ) -> None:
        self._image = image
        self._name = name
        self._start = self._slice = image.position
        self._compressor = compressor
        self._stream: Compressor | None = None
        self._out = out
        self._cutter = cutter
        self.size = 0

    def write(self, buffer: Buffer) -> None:
        """Append bytes to the section.

        Raises:
            RecordError: the section must have sub-sections, but its bytes are not valid records.
        """
        start = 0
        view = memoryview(buffer)
        for end in () if self._cutter is None else self._cutter.feed(view):
            self._append(view[start:end])
            self.cut()
            start = end
        self._append(view[start:])

    def cut(self) -> None:
        """End the current sub-section, if any bytes were written since the end of the last sub-section."""
        self._end_stream()
        if self._image.position > self._slice:
            self._image.add_entry(sub_section_name(self._name), self._slice, self._image.position - self._slice)
            self._slice = self._image.position

    def finish(self) -> None:
        """End the section; called by `ImageWriter.section`.

        Raises:
            RecordError: the section must have sub-sections, but ends within a record.
        """
        if self._cutter is not None:
            self._cutter.finish()
            self.cut()
        if self._stream is None and self._image.position == self._start:
            self._begin_stream()
        self._end_stream()

    def close(self) -> None:
        """Abandon an unfinished stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _append(self, view: memoryview) -> None:
        if view.nbytes:
            self.size += view.nbytes
            self._out.write((self._stream or self._begin_stream()).compress(view))

    def _begin_stream(self) -> Compressor:
        self._stream = self._compressor()
        return self._stream

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._out.write(self._stream.finish())
            self.close()


class _SinkBuffer:
    """Buffer that joins small pieces before it writes them to the sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._pending = bytearray()
        self.position = 0

    def write(self, buffer: Buffer) -> None:
        length = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        self.position += length
        if length >= _PASS_THROUGH:
            self.flush()
            self._sink(buffer)
            return
        self._pending += buffer
        if len(self._pending) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            # The sink may retain the batch, so the next batch uses a new bytearray.
            batch, self._pending = self._pending, bytearray()
            self._sink(memoryview(batch).toreadonly())
