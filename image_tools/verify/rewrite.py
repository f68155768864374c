"""Writes an image again with the cuts of a repair applied, everything else byte for byte as it was."""

from __future__ import annotations

from image_format.sub_sections import compressed_streams
from image_format.summary import is_sub_section
from image_format.writer import ImageWriter, Sink
from image_tools.verify.fixes import Fixes, spliced
from image_tools.verify.frame import Frame


def write_fixed(frame: Frame, fixes: Fixes, sink: Sink) -> None:
    """Write the image to `sink`: sections in the summary's order, those without cuts as they are stored.

    Entries of sub-sections are left out: they describe the old records, and a NameNode loads without them. They stay
    for a compressed section that is copied, each of whose sub-sections is a stream of its own.

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
            # only they tell that a section is several streams
            slices = [] if streams == (entry,) else [(each.offset - entry.offset, each.length) for each in streams]
            writer.copy_section(entry.name, frame.stored(entry), slices)
            continue
        data = frame.section(entry.name)
        assert data is not None
        with writer.section(entry.name) as section:
            for piece in spliced(data.data, cuts):
                section.write(piece)
    writer.finish()
