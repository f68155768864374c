"""An image as the XML document of `hdfs oiv -p XML`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from hadoop_common.hadoop_releases import HADOOP_3, RELEASES, Release
from image_format.layout import LayoutVersion, supports
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames
from image_tools.dump.xml_release2 import Release2Xml
from image_tools.dump.xml_release3 import Release3Xml


class XmlForm(Enum):
    """Release of the OfflineImageViewer; Hadoop 2.7 omits ACLs, xattrs, secrets, snapshot copies and more."""

    RELEASE_2 = "2.7"
    RELEASE_3 = "3.x"


def form_of(layout_version: int) -> XmlForm:
    """Return the form of the document that the viewer of the image's release prints."""
    return XmlForm.RELEASE_3 if supports(LayoutVersion.ERASURE_CODING, layout_version) else XmlForm.RELEASE_2


_RELEASE_3_3 = RELEASES["3.3.6"]


def release_of(layout_version: int) -> Release:
    """Return the release whose source revision the document of an image contains by default."""
    return _RELEASE_3_3 if layout_version == LayoutVersion.SNAPSHOT_MODIFICATION_TIME else HADOOP_3


def dump_xml(
    records: ImageRecords, form: XmlForm | None = None, *, release: Release | None = None
) -> Iterator[str | bytes]:
    """Yield pieces of the document, bytes in UTF-8; sections in loading order, records in the order of the file.

    Args:
        records: records of the image.
        form: form of the document, None for the form of the image's layout version.
        release: release whose revision the form of Hadoop 3 contains, None for the release of the image's layout
            version.

    Raises:
        RecordError: a record is damaged, or refers to a string that is missing from the table.
    """
    image = records.image
    names = SerialNames(image.string_table())
    is_newer = (form or form_of(image.layout_version)) is XmlForm.RELEASE_3
    revision = (release or release_of(image.layout_version)).revision
    writer = Release3Xml(records, names, revision) if is_newer else Release2Xml(records, names)
    yield '<?xml version="1.0"?>\n<fsimage>'
    yield from writer.head()
    for name in records.sections:
        yield from writer.section(name)
    yield "</fsimage>\n"
