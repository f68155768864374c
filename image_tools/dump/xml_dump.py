"""An image as the XML document of `hdfs oiv -p XML`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from image_format.layout import LayoutVersion, supports
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import Names
from image_tools.dump.xml_release2 import Release2Xml
from image_tools.dump.xml_release3 import Release3Xml


class XmlForm(Enum):
    """Whose OfflineImageViewer prints it: 2.7 leaves out ACLs, xattrs, secrets, snapshot copies and more."""

    RELEASE_2 = "2.7"
    RELEASE_3 = "3.x"


def form_of(layout_version: int) -> XmlForm:
    """The form of the viewer that came with the release which wrote the image."""
    return XmlForm.RELEASE_3 if supports(LayoutVersion.ERASURE_CODING, layout_version) else XmlForm.RELEASE_2


def dump_xml(records: ImageRecords, form: XmlForm | None = None) -> Iterator[str | bytes]:
    """Pieces of the document, bytes in UTF-8; sections in the order of their loading, records in the order of the file.

    Args:
        records: of the image.
        form: None is the one of the image's layout version.

    Raises:
        RecordError: a record is damaged, or names a string the table does not have.
    """
    image = records.image
    names = Names(image.string_table())
    kind = Release3Xml if (form or form_of(image.layout_version)) is XmlForm.RELEASE_3 else Release2Xml
    writer = kind(records, names)
    yield '<?xml version="1.0"?>\n<fsimage>'
    yield from writer.head()
    for name in records.sections:
        yield from writer.section(name)
    yield "</fsimage>\n"
