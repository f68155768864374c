"""Conversion of a whole image: decides which sections change, and streams all sections."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import pieces
from image_format.codec_choice import class_of, is_known_at
from image_format.codecs import Buffer, find_codec
from image_format.errors import UnsupportedConversionError
from image_format.layout import MIN_MERGE_LAYOUT, NEWEST_LAYOUT, LayoutVersion, check_supported, supports
from image_format.messages import MessageReader
from image_format.proto.fsimage_pb2 import INodeSection
from image_format.reader import ImageFile
from image_format.section_cutter import SectionCutter
from image_format.sub_section_rules import CUTTABLE, can_have_sub_sections, sub_section_target, sub_sections_of, tiles
from image_format.summary import Section, is_sub_section
from image_format.writer import ImageWriter, Sink
from image_tools.convert.layout_losses import Findings, check_losses, empty_findings, may_lose
from image_tools.convert.records import CONVERTED, convert_records
from image_tools.convert.small_sections import (
    convert_cache_manager,
    convert_ns_info,
    erasure_coding_section,
    refuse_erasure_coding,
)
from image_tools.convert.strings import NO_CHANGES, Serials, convert_strings, special_names

_CHUNK = 8 << 20
_ERASURE_CODING = "ERASURE_CODING"


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """The plan of a conversion.

    Attributes:
        source_layout, layout_version: old and new layout; codec: class name of the new codec, "" for no compression.
        sub_sections: target number of sub-sections: 0 to write none, None to keep the image's sub-sections.
        parallel_compressed: whether a compressed image may have sub-sections.
        joins_strings: whether the layout stays the same, but the string table is converted from the format of a newer
            layout. A Hadoop 3 NameNode writes these tables during a rolling upgrade from Hadoop 2.
        verbatim: whether nothing changes; the file is then copied, including gaps between sections.
    """

    source_layout: int
    layout_version: int
    codec: str
    sub_sections: int | None
    parallel_compressed: bool
    joins_strings: bool
    verbatim: bool

    @property
    def changes_layout(self) -> bool:
        return self.source_layout != self.layout_version

    def crosses(self, feature: LayoutVersion) -> bool:
        """Return whether exactly one of the two layouts has `feature`."""
        return supports(feature, self.source_layout) != supports(feature, self.layout_version)


def plan_conversion(
    image: ImageFile,
    *,
    layout_version: int | None = None,
    codec: str | None = None,
    sub_sections: int | None = None,
    parallel_compressed: bool = False,
) -> ConversionPlan:
    """Plan a conversion; see `convert_image` for the arguments.

    Raises:
        UnsupportedConversionError: a layout is not supported, or cannot have sub-sections.
        UnsupportedCodecError: the codec is unknown.
    """
    target = image.layout_version if layout_version is None else layout_version
    chosen = image.codec if codec is None else codec
    find_codec(chosen)
    if target != image.layout_version:
        check_supported(image.layout_version, str(image.path))
        if not NEWEST_LAYOUT <= target <= MIN_MERGE_LAYOUT:
            raise UnsupportedConversionError(
                f"layout version {target} is outside {MIN_MERGE_LAYOUT.value} .. {NEWEST_LAYOUT.value}",
                file=str(image.path),
                hint="Use the layout version of the release that will load the image.",
            )
    if sub_sections:
        _check_can_have_sub_sections(image, target, chosen, parallel_compressed)
    stays = target == image.layout_version
    joins = stays and layout_version is not None and _has_newer_strings(image)
    verbatim = stays and not joins and chosen == image.codec and sub_sections is None
    return ConversionPlan(image.layout_version, target, chosen, sub_sections, parallel_compressed, joins, verbatim)


def _check_codec(image: ImageFile, layout_version: int) -> None:
    """Refuse to keep a codec that releases of another layout lack; an explicitly requested codec is accepted."""
    if not is_known_at(image.codec, layout_version):
        raise UnsupportedConversionError(
            f"releases of layout version {layout_version} lack {class_of(image.codec)}, the codec of the image",
            file=str(image.path),
            hint=f"Add --codec default. Only for Hadoop 2.9 and 2.10, which have {class_of(image.codec)}, name it "
            "with --codec.",
        )


def _has_newer_strings(image: ImageFile) -> bool:
    older = not supports(LayoutVersion.EXPANDED_STRING_TABLE, image.layout_version)
    return older and bool(image.string_table().mask_bits)


def _check_can_have_sub_sections(image: ImageFile, layout_version: int, codec: str, parallel_compressed: bool) -> None:
    if not can_have_sub_sections(layout_version, ""):
        raise UnsupportedConversionError(
            f"sub-sections need layout version {LayoutVersion.SNAPSHOT_MODIFICATION_TIME.value} or newer",
            file=str(image.path),
            hint="Omit the sub-sections, or choose another layout.",
        )
    if not can_have_sub_sections(layout_version, codec, compressed=parallel_compressed):
        raise UnsupportedConversionError(
            "NameNodes up to Hadoop 3.4.1 do not write sub-sections into a compressed image",
            file=str(image.path),
            hint="Omit the sub-sections, use no codec, or add --parallel-compressed for newer NameNodes.",
        )


def convert_image(
    image: ImageFile,
    sink: Sink,
    *,
    layout_version: int | None = None,
    codec: str | None = None,
    sub_sections: int | None = None,
    parallel_compressed: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ConversionPlan:
    """Write `image` to `sink` with another layout version, codec or sub-sections.

    Unchanged content, including unknown sections and fields, is copied in the section order of the FileSummary. If the
    other layout cannot represent some content, nothing is written.

    Args:
        layout_version: MIN_MERGE_LAYOUT .. NEWEST_LAYOUT; None keeps any layout. If the image already has this layout,
            a string table in the format of a newer layout is converted.
        codec: Hadoop's class name, "" for no compression, or None for the codec of the image.
        sub_sections: target number of sub-sections: 0 to write none, None to keep the image's sub-sections if possible.
        parallel_compressed: whether to divide a compressed image as well, with a separate stream for each sub-section.
        progress: called with the number of decompressed bytes written so far.

    Raises:
        UnsupportedConversionError: content would be lost, or releases of the other layout lack the image's codec; see
            also `plan_conversion`.
        ImageFormatError: the image is damaged.
    """
    plan = plan_conversion(
        image,
        layout_version=layout_version,
        codec=codec,
        sub_sections=sub_sections,
        parallel_compressed=parallel_compressed,
    )
    if plan.changes_layout and codec is None:
        _check_codec(image, plan.layout_version)
    report = progress or (lambda done: None)
    if plan.verbatim:
        _copy_file(image, sink, report)
    else:
        _ImageConversion(image, plan, report).write(sink)
    return plan


def _copy_file(image: ImageFile, sink: Sink, report: Callable[[int], None]) -> None:
    data = image.file_bytes()
    for piece in pieces(len(data), _CHUNK):
        sink(data[piece])
    report(len(data))


class _ImageConversion:
    """A running conversion, with producers of the changed sections and the writer of all sections."""

    def __init__(self, image: ImageFile, plan: ConversionPlan, report: Callable[[int], None]) -> None:
        self._image = image
        self._plan = plan
        self._report = report
        self._written = 0
        self._sections = [section for section in image.sections if not is_sub_section(section.name)]
        self._names = {section.name for section in self._sections}
        self._producers: dict[str, Callable[[], Iterator[Buffer]]] = {}
        if plan.changes_layout or plan.joins_strings:
            self._change_layout()
        self._target = self._sub_section_target()

    # ---- changes -------------------------------------------------------------------------------------------

    def _change_layout(self) -> None:
        image, plan = self._image, self._plan
        table = image.string_table()
        special = special_names(table)
        if may_lose(plan.source_layout, plan.layout_version):
            for name in CONVERTED:
                found = empty_findings()
                deque(self._records(name, NO_CHANGES, special, found), maxlen=0)
                check_losses(found, plan.layout_version, name, str(image.path))
        strings, serials = convert_strings(table, plan.layout_version, str(image.path))
        if strings != table.encode():
            self._replace("STRING_TABLE", strings)
        if serials.changed:
            for name in CONVERTED:
                found = empty_findings()
                self._producers[name] = lambda name=name, found=found: self._records(  # type: ignore[misc]
                    name, serials, special, found
                )
        if plan.crosses(LayoutVersion.ERASURE_CODING):
            self._change_small_sections()

    def _change_small_sections(self) -> None:
        image, layout_version = self._image, self._plan.layout_version
        for name, convert in (("NS_INFO", convert_ns_info), ("CACHE_MANAGER", convert_cache_manager)):
            section = image.section(name)
            if section is not None:
                self._replace(name, convert(section, layout_version, image.place(name)))
        coded = image.section(_ERASURE_CODING)
        if supports(LayoutVersion.ERASURE_CODING, layout_version):
            if coded is None:
                self._replace(_ERASURE_CODING, erasure_coding_section())
        elif coded is not None:
            refuse_erasure_coding(coded, layout_version, image.place(_ERASURE_CODING))
            self._sections = [section for section in self._sections if section.name != _ERASURE_CODING]

    def _replace(self, name: str, data: bytes) -> None:
        self._producers[name] = lambda: iter([data])

    def _records(
        self, name: str, serials: Serials, special: npt.NDArray[np.int64], found: Findings
    ) -> Iterator[memoryview]:
        section = self._image.section(name)
        if section is None:
            return iter(())
        return convert_records(name, section, serials, special, found, self._image.place(name))

    def _sub_section_target(self) -> int:
        """Return the target number of sub-sections, or 0 to write none."""
        plan = self._plan
        if plan.sub_sections is not None:
            return plan.sub_sections
        if not can_have_sub_sections(plan.layout_version, plan.codec, compressed=plan.parallel_compressed):
            return 0
        return sub_section_target(self._image.sections)

    # ---- writing -------------------------------------------------------------------------------------------

    def write(self, sink: Sink) -> None:
        plan = self._plan
        writer = ImageWriter(sink, plan.layout_version, plan.codec, template=self._image.summary)
        for section in self._sections:
            self._write_section(writer, section)
            if section.name == "NS_INFO" and _ERASURE_CODING in self._producers:
                self._write_new(writer, _ERASURE_CODING)
        writer.finish()

    def _write_section(self, writer: ImageWriter, section: Section) -> None:
        image = self._image
        slices = sub_sections_of(image.sections, section)
        if section.name in self._producers or self._plan.codec != image.codec or self._recuts(section, slices):
            self._write_new(writer, section.name)
            return
        writer.copy_section(
            section.name, image.stored_bytes(section), [(part.offset - section.offset, part.length) for part in slices]
        )
        self._advance(section.length)

    def _recuts(self, section: Section, slices: tuple[Section, ...]) -> bool:
        """Return whether the sub-sections of an unchanged section must change.

        Reasons are a request, the layout, or sub-sections that do not cover the section.
        """
        plan = self._plan
        if slices and not supports(LayoutVersion.SNAPSHOT_MODIFICATION_TIME, plan.layout_version):
            return True
        if plan.sub_sections is not None:
            return bool(slices) or section.name in CUTTABLE
        return bool(slices) and not tiles(section, slices)

    def _write_new(self, writer: ImageWriter, name: str) -> None:
        with writer.section(name, self._cutter(name)) as out:
            for chunk in self._content(name):
                out.write(chunk)
                self._advance(len(chunk))

    def _cutter(self, name: str) -> SectionCutter | None:
        if not self._target or name not in CUTTABLE:
            return None
        header = MessageReader(self._image.section("INODE"), self._image.place("INODE")).read(INodeSection)
        return SectionCutter(name, self._target, header.numInodes, self._image.place(name))

    def _content(self, name: str) -> Iterator[Buffer]:
        if producer := self._producers.get(name):
            return producer()
        data = self._image.section_bytes(name)
        return (data[piece] for piece in pieces(len(data), _CHUNK))

    def _advance(self, size: int) -> None:
        self._written += size
        self._report(self._written)
