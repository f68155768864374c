"""Recorded images with the XML of Hadoop's viewer."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.hadoop_releases import HADOOP_3, RELEASES, Release
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords
from image_tools.dump.xml_dump import XmlForm, dump_xml
from tests.image_format.image_support import RECORDED


@dataclass(frozen=True)
class Viewed:
    """An image of a case, and the viewer's XML of the image."""

    xml: Path

    @property
    def case(self) -> Path:
        return self.xml.parent

    @property
    def image(self) -> Path:
        side = self.xml.name.removeprefix("oiv_").removesuffix(".xml.gz")
        return next(path for path in (self.case / side).glob("fsimage_*") if path.suffix != ".md5")

    @property
    def id(self) -> str:
        return str(self.xml.relative_to(RECORDED)).removesuffix(".xml.gz")

    @property
    def form(self) -> XmlForm:
        """The form of the viewer's release; for images before an upgrade, another release wrote the image."""
        return XmlForm.RELEASE_2 if self.release.version.startswith("2.") else XmlForm.RELEASE_3

    @property
    def release(self) -> Release:
        """The release of the viewer."""
        return RELEASES[self.xml.relative_to(RECORDED).parts[0].removeprefix("hadoop-")]

    @property
    def complete(self) -> bool:
        """Whether the viewer reached the end of the image."""
        return json.loads((self.case / "case.json").read_text()).get("verdict", {}).get("oiv_xml_rc", 0) == 0

    def expected(self) -> str:
        return gzip.decompress(self.xml.read_bytes()).decode("utf-8")


@functools.cache
def recorded_views(*, large: bool) -> list[Viewed]:
    found = [Viewed(path) for path in sorted(RECORDED.rglob("oiv_*.xml.gz"))]
    return [view for view in found if view.complete and (large or "medium-" not in view.id)]


def joined(pieces: Iterable[str | bytes]) -> str:
    return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces).decode()


def open_image(path: Path) -> ImageFile:
    return ImageFile.open(path, verify_md5=False, allow_unknown_layout=True)


def xml_of(path: Path, form: XmlForm | None = None, release: Release = HADOOP_3) -> str:
    with open_image(path) as image:
        return joined(dump_xml(ImageRecords(image), form, release=release))
