"""Rewrites an image with the replacements of a repair; everything else is copied byte for byte."""

from __future__ import annotations

from image_format.sub_sections import compressed_streams
from image_format.summary import is_sub_section
from image_format.writer import ImageWriter, Sink
from image_tools.verify.fixes import Fixes, spliced
from image_tools.verify.frame import ImageFrame


def write_fixed(frame: ImageFrame, fixes: Fixes, sink: Sink) -> None:
    """Write the image to `sink`: sections in the summary's order, unchanged sections as stored.

    Entries of sub-sections are omitted: they describe the old records, and a NameNode does not need them. They are kept
    for a copied compressed section whose sub-sections are separate streams.

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
            # Only these entries show that a section has several streams.
            slices = [] if streams == (entry,) else [(each.offset - entry.offset, each.length) for each in streams]
            writer.copy_section(entry.name, frame.stored(entry), slices)
            continue
        data = frame.section(entry.name)
        assert data is not None
        with writer.section(entry.name) as section:
            for piece in spliced(data.data, cuts):
                section.write(piece)
    writer.finish()
