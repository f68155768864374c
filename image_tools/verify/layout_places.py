"""Check for content that the image's layout cannot represent, by the rules of conversions (`convert.records`)."""

from __future__ import annotations

from collections import deque

from image_format.errors import ImageFormatError
from image_format.layout import NEWEST_LAYOUT
from image_format.string_table import StringTable
from image_tools.convert.layout_losses import empty_findings, losses, may_lose
from image_tools.convert.records import CONVERTED, convert_records
from image_tools.convert.strings import NO_CHANGES, special_names
from image_tools.verify.findings import Findings
from image_tools.verify.frame import ImageFrame


def check_layout_losses(frame: ImageFrame, findings: Findings) -> None:
    """Report content that the layout cannot represent; other checks report damaged sections."""
    if not may_lose(NEWEST_LAYOUT, frame.layout_version):
        return
    table = frame.readable("STRING_TABLE", Findings())
    if table is None:
        return
    try:
        special = special_names(StringTable(table.data, frame.place("STRING_TABLE")))
    except ImageFormatError:
        return
    for name in CONVERTED:
        section, place, found = frame.readable(name, Findings()), frame.place(name), empty_findings()
        if section is None:
            continue
        try:
            deque(convert_records(name, section, NO_CHANGES, special, found, place), maxlen=0)
        except ImageFormatError:
            continue
        for loss in losses(found, frame.layout_version):
            code = "layout-ignored" if loss.loads else "layout-refused"
            text = f"layout version {frame.layout_version} cannot represent {loss}"
            findings.add(code, text, place, inode=loss.first)
