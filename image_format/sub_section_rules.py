"""Sub-sections: entries of the FileSummary for slices of a section, which Hadoop 3.3 and newer load in parallel.

Slices end at record boundaries, follow one another and cover their section exactly. Compressed images that Hadoop up to
3.4.1 writes have no sub-sections. In a compressed image with sub-sections, each slice is a separate compressed
stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from image_format.layout import LayoutVersion, supports
from image_format.summary import Section, is_sub_section, sub_section_name

CUTTABLE = frozenset({"INODE", "INODE_DIR", "SNAPSHOT_DIFF"})
"""Sections that a NameNode writes with sub-sections."""


@dataclass(frozen=True, slots=True)
class SubSectionRule:
    """Rule that images of at least `threshold` inodes have about `target` sub-sections (`dfs.image.parallel.*`).

    With `compressed`, the rule also applies to compressed images, unlike in Hadoop up to 3.4.1.
    """

    target: int
    threshold: int
    compressed: bool = False


def can_have_sub_sections(layout_version: int, codec: str, *, compressed: bool = False) -> bool:
    """Return whether sub-sections may be written.

    Hadoop before 3.3 cannot load sub-sections, and Hadoop up to 3.4.1 writes compressed images without sub-sections.
    `compressed` permits sub-sections in compressed images.
    """
    return (compressed or not codec) and supports(LayoutVersion.SNAPSHOT_MODIFICATION_TIME, layout_version)


def sub_sections_of(entries: Sequence[Section], section: Section) -> tuple[Section, ...]:
    """Return the entries for slices of `section`, in the FileSummary's order."""
    name = sub_section_name(section.name)
    return tuple(entry for entry in entries if entry.name == name)


def tiles(section: Section, slices: Iterable[Section]) -> bool:
    """Return whether `slices` are not empty, follow one another and cover `section` exactly."""
    end = section.offset
    for part in slices:
        if part.offset != end or not part.length:
            return False
        end = part.end
    return end == section.end


def compressed_streams(entries: Sequence[Section], section: Section) -> tuple[Section, ...]:
    """Return the compressed streams of a section.

    Each sub-section is a separate stream if the sub-sections tile the section; otherwise, the section is one stream.
    """
    slices = sub_sections_of(entries, section)
    return slices if slices and tiles(section, slices) else (section,)


def sub_section_faults(entries: Sequence[Section]) -> list[str]:
    """Return the faults of the sub-sections in `entries` that make a NameNode fail when it loads them in parallel."""
    sections = [entry for entry in entries if not is_sub_section(entry.name)]
    faults = []
    for section in sections:
        slices = sub_sections_of(entries, section)
        if not slices or tiles(section, slices):
            continue
        name = sub_section_name(section.name)
        if tiles(section, sorted(slices, key=lambda part: part.offset)):
            faults.append(f"the {name} entries are not in the order of their offsets")
        else:
            faults.append(f"the {name} entries do not cover section {section.name} exactly")
    known = {sub_section_name(section.name) for section in sections}
    unknown = dict.fromkeys(entry.name for entry in entries if is_sub_section(entry.name) and entry.name not in known)
    return faults + [f"the {name} entries belong to no section" for name in unknown]


def sub_section_target(entries: Sequence[Section]) -> int:
    """Return the number of sub-sections intended by the writer of `entries`, or 0 for an image without them."""
    names = [entry.name for entry in entries if is_sub_section(entry.name)]
    return names.count(sub_section_name("INODE")) or max(map(names.count, names), default=0)


def wanted_sub_sections(
    entries: Sequence[Section], inodes: int, layout_version: int, codec: str, rule: SubSectionRule | None
) -> int:
    """Return the number of sub-sections for an image of `inodes` inodes, by `rule` or as in `entries`."""
    if not can_have_sub_sections(layout_version, codec, compressed=rule is not None and rule.compressed):
        return 0
    if rule is not None and inodes >= rule.threshold:
        return rule.target
    return sub_section_target(entries)
