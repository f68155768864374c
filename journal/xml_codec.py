"""Operations as XML, identical line by line to the output of Hadoop's OfflineEditsViewer (`hdfs oev -p xml`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from journal.operation import EditOp, XmlConstant

_ERASURE_CODING_LAYOUT = -64  # the first layout of Hadoop 3

# characters that XMLUtils.mangleXmlString escapes: the backslash, and characters that XML cannot contain
_UNHOLDABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff\\\\]")


@dataclass(frozen=True, slots=True)
class XmlDialect:
    """The differences between the XML of the releases.

    `layout_version` is the layout version of the release; it determines which fields are written, regardless of the
    log's layout. `special` matches the characters to escape; characters without an entity are escaped with
    `number_format`.
    """

    layout_version: int
    declaration: str
    empty_element: str
    special: re.Pattern[str]
    number_format: str


HADOOP_2 = XmlDialect(
    -63, '<?xml version="1.0" encoding="UTF-8"?>', "<{0}></{0}>", re.compile("[&<>\r\U00010000-\U0010ffff]"), "&#x{:x};"
)
HADOOP_3 = XmlDialect(
    -67,
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
    "<{0}/>",
    re.compile("[&<>\r\x7f-\x9f\U00010000-\U0010ffff]"),
    "&#{:d};",
)
RELEASES: Final = {"2.7": HADOOP_2, "3.x": HADOOP_3}
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def dialect_of(layout_version: int) -> XmlDialect:
    """Return the dialect of the release that writes `layout_version`."""
    return HADOOP_3 if layout_version <= _ERASURE_CODING_LAYOUT else HADOOP_2


class _Lines:
    """The lines of one operation."""

    def __init__(self, dialect: XmlDialect) -> None:
        self.lines: list[str] = []
        self._dialect = dialect
        self._indent = "      "

    def leaf(self, tag: str, text: str) -> None:
        content = f"<{tag}>{self._escape(text)}</{tag}>" if text else self._dialect.empty_element.format(tag)
        self.lines.append(f"{self._indent}{content}\n")

    def open(self, tag: str) -> None:
        self.lines.append(f"{self._indent}<{tag}>\n")
        self._indent += "  "

    def close(self, tag: str) -> None:
        self._indent = self._indent[:-2]
        self.lines.append(f"{self._indent}</{tag}>\n")

    def _escape(self, text: str) -> str:
        if text.isalnum() and text.isascii():
            return text
        mangled = _UNHOLDABLE.sub(lambda match: f"\\{ord(match[0]):04x};", text)
        return self._dialect.special.sub(self._escape_one, mangled)

    def _escape_one(self, match: re.Match[str]) -> str:
        character = match[0]
        return _ENTITIES.get(character) or self._dialect.number_format.format(ord(character))


def op_to_xml(op: EditOp, dialect: XmlDialect) -> str:
    """Return the RECORD element of `op`."""
    out = _Lines(dialect)
    for item in op.xml_items:
        if isinstance(item, XmlConstant):
            out.leaf(item.tag, item.text)
        elif item.tag is not None and item.present_in(dialect.layout_version):
            item.kind.xml(out, item.tag, getattr(op, item.name))
    return (
        f"  <RECORD>\n    <OPCODE>{op.name}</OPCODE>\n    <DATA>\n      <TXID>{op.txid}</TXID>\n"
        f"{''.join(out.lines)}    </DATA>\n  </RECORD>\n"
    )


def dump_xml(ops: Iterable[EditOp], layout_version: int, dialect: XmlDialect | None = None) -> Iterator[str]:
    """Yield the document of `ops` in pieces; by default in the dialect of the release that writes `layout_version`."""
    dialect = dialect or dialect_of(layout_version)
    yield f"{dialect.declaration}\n<EDITS>\n  <EDITS_VERSION>{layout_version}</EDITS_VERSION>\n"
    for op in ops:
        yield op_to_xml(op, dialect)
    yield "</EDITS>\n"
