"""Operations from the XML of the OfflineEditsViewer of Hadoop 2 and 3, one record at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.parsers import expat

from journal.edits_text import EditsDocument, check_txid
from journal.errors import EditsTextError
from journal.operation import EditOp, OpField, XmlConstant
from journal.ops import by_name
from journal.xml_element import MissingElementError, XmlElement

_MAX_DEPTH = 8


def parse_xml(chunks: Iterable[bytes], *, file: str = "") -> EditsDocument:
    """Parse the log in an EDITS document, which is passed in pieces of any size.

    Fields that OEV omits (`fields_without_xml`) receive their default values.

    Raises:
        EditsTextError: the beginning of the document is invalid; during iteration, a record is invalid.
    """
    document = _EditsXmlParser(file)
    pieces = iter(chunks)
    while document.layout_version is None and not document.ended:
        document.feed(next(pieces, None))
    if document.layout_version is None:
        raise EditsTextError("the document has no EDITS_VERSION", file=file)
    return EditsDocument(document.layout_version, document.ops(pieces))


def op_from_xml(record: XmlElement) -> EditOp:
    """Return the operation of a RECORD element.

    Raises:
        EditsTextError: elements are missing, superfluous or have invalid values; file and line are not set.
    """
    opcode = record.one("OPCODE")
    name = opcode.content()
    try:
        cls = by_name(name)
    except KeyError:
        raise opcode.fault(f"unknown operation {name[:40]!r}") from None
    data = record.one("DATA")
    number = data.one("TXID")
    try:
        txid = check_txid(number.number())
    except ValueError as error:
        raise number.fault(str(error)) from None
    try:
        members = _members(cls, data)
        record.finish()
    except EditsTextError as error:
        error.problem = f"{name}: {error.problem}"
        raise error.in_file("", txid=txid) from None
    return cls(txid=txid, **members)


def _members(cls: type[EditOp], data: XmlElement) -> dict[str, Any]:
    members = {}
    for item in cls.xml_items:
        if isinstance(item, XmlConstant):
            data.optional_string(item.tag)
        elif item.tag is not None:
            members[item.name] = _value(item, item.tag, data)
    return members


def _value(item: OpField, tag: str, data: XmlElement) -> Any:
    try:
        return item.kind.from_xml(data, tag)
    except MissingElementError:
        if not item.has_default:
            raise
        return item.default


class _EditsXmlParser:
    """Parser that uses expat and collects the operations of complete records."""

    def __init__(self, file: str) -> None:
        self.layout_version: int | None = None
        self.ended = False
        self._file = file
        self._open: list[XmlElement] = []
        self._text: list[str] = []
        self._ready: list[EditOp] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        # Without a document type, there are no entities to expand.
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, chunk: bytes | None) -> None:
        """Parse the next piece; None means the end of the document."""
        self.ended = chunk is None
        try:
            self._parser.Parse(chunk or b"", self.ended)
        except EditsTextError as error:
            raise error.in_file(self._file, line=self._parser.CurrentLineNumber) from None
        except expat.ExpatError as error:
            problem = f"not well-formed XML: {expat.ErrorString(error.code)}"
            raise EditsTextError(problem, file=self._file, line=error.lineno) from None
        except (LookupError, ValueError) as error:
            raise EditsTextError(f"the encoding cannot be read: {error}", file=self._file, line=1) from None

    def ops(self, pieces: Iterator[bytes]) -> Iterator[EditOp]:
        """Yield the operations of the pieces parsed so far, and of `pieces`."""
        while True:
            yield from self._ready
            self._ready.clear()
            if self.ended:
                return
            self.feed(next(pieces, None))

    def _refuse_doctype(self, *_: object) -> None:
        raise EditsTextError("a document type is not part of an edit log")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._open and tag != "EDITS":
            raise EditsTextError(f"the document is {tag[:40]!r} instead of EDITS")
        if attributes:
            raise EditsTextError(f"{tag} has attributes, which are not part of an edit log")
        if len(self._open) >= _MAX_DEPTH:
            raise EditsTextError(f"elements are nested deeper than {_MAX_DEPTH}")
        if "".join(self._text).strip():
            raise EditsTextError(f"text before {tag}, between elements")
        self._text.clear()
        self._open.append(XmlElement(tag, self._parser.CurrentLineNumber))

    def _end(self, _tag: str) -> None:
        element = self._open.pop()
        element.end("".join(self._text))
        self._text.clear()
        if len(self._open) > 1:
            self._open[-1].add(element)
        elif self._open:
            self._take(element)

    def _take(self, element: XmlElement) -> None:
        """Process a complete child of EDITS."""
        if element.tag == "EDITS_VERSION" and self.layout_version is None:
            self.layout_version = element.number()
            element.finish()
        elif element.tag == "RECORD" and self.layout_version is not None:
            self._ready.append(op_from_xml(element))
        else:
            raise element.fault(f"{element.tag} is out of place: EDITS has one EDITS_VERSION, then RECORDs")
