"""The structure of a possibly damaged image: digest, FileSummary, and readable sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.file_kind import HEAD_BYTES
from hadoop_common.java_numbers import signed32
from hadoop_common.mapped_file import MappedFile
from hadoop_common.quantities import counted
from image_format.codec_choice import class_of, is_known_at
from image_format.codecs import expand, find_codec
from image_format.errors import (
    BadMagicError,
    BufferOrigin,
    CodecError,
    DigestMismatchError,
    ImageFormatError,
    MissingDigestError,
    RecordError,
    TruncatedImageError,
    UnsupportedCodecError,
    UnsupportedLayoutError,
)
from image_format.layout import OLDEST_LAYOUT, LayoutVersion, check_readable, is_unknown, supports
from image_format.md5_file import md5_of_file, read_md5_file
from image_format.proto.fsimage_pb2 import FileSummary
from image_format.reader import REQUIRED_SECTIONS
from image_format.spool import SPOOL_LIMIT, Spool
from image_format.sub_section_rules import compressed_streams
from image_format.summary import (
    MAGIC,
    TRAILER_LENGTH,
    Section,
    check_magic,
    is_known_section,
    is_sub_section,
    summary_length,
)
from image_format.varint import parse_message, read_record
from image_tools.verify.catalogue import Severity
from image_tools.verify.findings import Findings

Bytes = npt.NDArray[np.uint8]

_ALWAYS_WRITTEN = ("FILES_UNDERCONSTRUCTION", "SNAPSHOT", "INODE_REFERENCE", "SECRET_MANAGER", "CACHE_MANAGER")


@dataclass
class ImageFrame:
    """The readable structure of a file.

    Attributes:
        data: the whole file.
        summary: the FileSummary, the source of `layout_version` and `codec`.
        sections: all entries within the file, including sub-sections, in the summary's order.
        mapped: the mapped file of `data`, None for data in memory.
    """

    path: Path
    data: Bytes
    summary: FileSummary
    layout_version: int
    codec: str
    sections: list[Section]
    spool_dir: Path | None = None
    mapped: MappedFile | None = None
    _decompressed: dict[str, Bytes] = field(default_factory=dict)

    @property
    def erasure_coding(self) -> bool:
        """Whether the layout has striped files; loaders of these layouts do not read the list of open files."""
        return supports(LayoutVersion.ERASURE_CODING, self.layout_version)

    def entry(self, name: str) -> Section | None:
        return next((entry for entry in self.sections if entry.name == name), None)

    def place(self, name: str) -> BufferOrigin:
        entry = self.entry(name)
        return BufferOrigin(str(self.path), name, None if self.codec or entry is None else entry.offset)

    def stored(self, entry: Section) -> memoryview:
        """Return a section's bytes as stored in the file."""
        return self.data[entry.offset : entry.end].data

    def section(self, name: str) -> Bytes | None:
        """Return the decompressed bytes of a section; None if absent.

        Raises:
            CodecError: the compressed bytes are damaged; the offset is relative to the section.
        """
        entry = self.entry(name)
        if entry is None:
            return None
        if not self.codec:
            return self.data[entry.offset : entry.end]
        if name not in self._decompressed:
            self._decompressed[name] = self._decompress(entry)
        return self._decompressed[name]

    def _decompress(self, entry: Section) -> Bytes:
        with Spool(self.spool_dir, SPOOL_LIMIT) as spool:
            for stream in compressed_streams(self.sections, entry):
                try:
                    for chunk in expand(self.codec, self.stored(stream)):
                        spool.write(chunk)
                except CodecError as error:
                    start = stream.offset - entry.offset
                    raise CodecError(error.detail, offset=start + (error.offset or 0)) from error
            return spool.finish()

    def readable(self, name: str, findings: Findings) -> Bytes | None:
        """Return a section as `section` does; for damaged compressed bytes, add a finding and return None."""
        try:
            return self.section(name)
        except CodecError as error:
            entry = self.entry(name)
            place = BufferOrigin(str(self.path), name, 0 if entry is None else entry.offset)
            findings.add("section-compressed", error.detail, place, error.offset or 0)
            return None


def check_digest(path: Path, findings: Findings) -> bytes:
    """Compare the file's MD5 with its .md5 file; return the MD5.

    Raises:
        ImageStorageError: a file cannot be read.
    """
    actual = md5_of_file(path)
    place = BufferOrigin(str(path))
    try:
        expected = read_md5_file(path)
    except MissingDigestError as error:
        findings.add("digest-missing", error.detail, place)
        return actual
    except DigestMismatchError as error:
        findings.add("digest-mismatch", error.detail, place)
        return actual
    if actual != expected:
        text = f"the MD5 is {actual.hex()}, but the .md5 file contains {expected.hex()}"
        findings.add("digest-mismatch", text, place)
    return actual


def read_frame(path: Path, data: Bytes, findings: Findings, spool_dir: Path | None = None) -> ImageFrame | None:
    """Read the FileSummary and the list of sections; None if they are unreadable."""
    place = BufferOrigin(str(path))
    try:
        message, base = _read_summary(data.data)
    except BadMagicError as error:
        findings.add("frame-magic", error.detail, place, 0)
    except TruncatedImageError as error:
        findings.add("frame-cut", error.detail, place, error.offset)
    except ImageFormatError as error:
        findings.add("frame-summary", error.detail, place, error.offset)
    else:
        frame = _frame(path, data, message, base, findings)
        if frame is not None:
            frame.spool_dir = spool_dir
            _check_names(frame, findings)
            _check_sub_sections(frame, findings)
        return frame
    return None


def _read_summary(data: memoryview) -> tuple[FileSummary, int]:
    """Return the FileSummary and its offset, the end of the section area."""
    check_magic(bytes(data[:HEAD_BYTES]))
    size = len(data)
    length = summary_length(bytes(data[-TRAILER_LENGTH:]), size)
    base = size - TRAILER_LENGTH - length
    place = BufferOrigin(base=base)
    record = read_record(data[base : size - TRAILER_LENGTH], 0, place)
    if record.end != length:
        extra = counted(length - record.end, "byte")
        raise place.error(RecordError, f"the file contains {extra} between the FileSummary and its length", record.end)
    message = parse_message(FileSummary, record, place)
    if message.ondiskVersion != 1:
        raise place.error(RecordError, f"on-disk version {message.ondiskVersion} is not 1", 0)
    return message, base


def _frame(path: Path, data: Bytes, message: FileSummary, base: int, findings: Findings) -> ImageFrame | None:
    place = BufferOrigin(str(path), base=base)
    layout = signed32(message.layoutVersion)
    try:
        find_codec(str(message.codec))
        check_readable(layout)
    except UnsupportedCodecError as error:
        findings.add("frame-codec", error.detail, place, 0)
        return None
    except UnsupportedLayoutError as error:
        if layout > OLDEST_LAYOUT:
            findings.add("frame-layout-old", error.detail, place, 0)
            return None
        findings.add("frame-layout-unknown", error.detail, place, 0)
    codec = str(message.codec)
    if not is_known_at(codec, layout):
        text = f"releases of layout version {layout} lack {class_of(codec)}, except Hadoop 2.9 and 2.10"
        findings.add("frame-codec-release", text, place, 0)
    sections = _sections(path, message, base, findings)
    return ImageFrame(path, data, message, layout, codec, sections)


def _sections(path: Path, message: FileSummary, limit: int, findings: Findings) -> list[Section]:
    """Return the entries within the section area; only names of sub-sections occur more than once."""
    usable: list[Section] = []
    seen: set[str] = set()
    for entry in message.sections:
        section = Section(str(entry.name), entry.offset, entry.length)
        place = BufferOrigin(str(path), section.name)
        if section.offset < len(MAGIC) or section.end > limit:
            text = f"its {section.length} bytes at {section.offset} reach outside {len(MAGIC)}..{limit}"
            findings.add("section-outside", text, place, section.offset)
            continue
        if section.name in seen and not is_sub_section(section.name):
            findings.add("section-twice", "the section is listed twice", place, section.offset)
            continue
        seen.add(section.name)
        usable.append(section)
    whole = [section for section in usable if section.length and not is_sub_section(section.name)]
    whole.sort(key=lambda section: (section.offset, section.length))
    end, previous = len(MAGIC), ""
    for section in whole:
        if section.offset < end:
            place = BufferOrigin(str(path), section.name)
            findings.add("section-overlap", f"the section overlaps {previous}", place, section.offset)
        if section.end > end:
            end, previous = section.end, section.name
    return usable


def _check_names(frame: ImageFrame, findings: Findings) -> None:
    for name in (*REQUIRED_SECTIONS, *_ALWAYS_WRITTEN):
        if frame.entry(name) is None:
            code = "section-missing" if name in REQUIRED_SECTIONS else "section-absent"
            findings.add(code, "the FileSummary does not list the section", frame.place(name))
    for section in frame.sections:
        if not is_known_section(section.name):
            text = f"unknown section {section.name!r} of {section.length} bytes"
            place = BufferOrigin(str(frame.path), section.name)
            severity = Severity.INFO if is_unknown(frame.layout_version) else None
            findings.add("section-unknown", text, place, section.offset, severity=severity)


def _check_sub_sections(frame: ImageFrame, findings: Findings) -> None:
    names = dict.fromkeys(section.name for section in frame.sections if is_sub_section(section.name))
    for name in names:
        parts = sorted((s for s in frame.sections if s.name == name), key=lambda s: (s.offset, s.length))
        parent = frame.entry(name.removesuffix("_SUB"))
        place = BufferOrigin(str(frame.path), name)
        if parent is None:
            findings.add("sub-section", "the section of this sub-section is missing", place, parts[0].offset)
            continue
        end = parent.offset
        for part in parts:
            if part.offset != end:
                break
            end = part.end
        if end != parent.end:
            text = f"{parent.name} ({parent.length} bytes) is not exactly the sum of its {counted(len(parts), 'part')}"
            findings.add("sub-section", text, place, parts[0].offset)
