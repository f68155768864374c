"""An element of OEV XML during parsing: fields read their children by tag, and `finish` rejects unread children."""

from __future__ import annotations

import re

from journal.errors import EditsTextError

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{4,6});)?")
_SURROGATE = re.compile("[\ud800-\udfff]")


class MissingElementError(EditsTextError):
    """Lack of an element for a field; the caller uses the field's default value, if any."""


def unmangle(text: str) -> str:
    r"""Invert XMLUtils.mangleXmlString: `\XXXX;` becomes the code point XXXX (hexadecimal).

    Raises:
        ValueError: a backslash does not begin an escape of this form.
    """
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_code_point, text)
    if _SURROGATE.search(plain):
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return plain


def _code_point(match: re.Match[str]) -> str:
    if match[1] is None:
        raise ValueError(f"the backslash at character {match.start()} does not begin an escape")
    return chr(int(match[1], 16))


class XmlElement:
    """An element with its text or its children; the first `line` is 1."""

    __slots__ = ("_children", "_read", "_text", "_untaken", "line", "tag")

    def __init__(self, tag: str, line: int) -> None:
        self.tag = tag
        self.line = line
        self._children: list[XmlElement] = []
        self._untaken: dict[str, list[XmlElement]] = {}
        self._text = ""
        self._read = False

    def add(self, child: XmlElement) -> None:
        """Append a child; only the parser calls this method."""
        self._children.append(child)
        self._untaken.setdefault(child.tag, []).append(child)

    def end(self, text: str) -> None:
        """Complete the element with `text`; only the parser calls this method.

        Raises:
            EditsTextError: the element has both text and child elements.
        """
        if not self._children:
            self._text = text
        elif text.strip():
            raise self.fault(f"text between the elements in {self.tag}")

    def optional(self, tag: str) -> XmlElement | None:
        """Return the `tag` child, or None if it is missing, and mark it as read.

        Raises:
            EditsTextError: several children have this tag.
        """
        found = self._untaken.pop(tag, [])
        if len(found) > 1:
            raise found[1].fault(f"{tag} appears twice in {self.tag}")
        return found[0] if found else None

    def one(self, tag: str) -> XmlElement:
        """Return the only `tag` child, and mark it as read.

        Raises:
            MissingElementError: the child is missing.
            EditsTextError: several children have this tag.
        """
        found = self.optional(tag)
        if found is None:
            raise MissingElementError(f"{self.tag} has no {tag} element", line=self.line)
        return found

    def every(self, tag: str) -> list[XmlElement]:
        """Return all `tag` children in order, and mark them as read."""
        return self._untaken.pop(tag, [])

    def string(self, tag: str) -> str:
        """Return the text of the only `tag` child; raise the same errors as `one`."""
        return self.one(tag).content()

    def optional_string(self, tag: str) -> str | None:
        """Return the text of the `tag` child, or None if it is missing; raise the same errors as `optional`."""
        found = self.optional(tag)
        return None if found is None else found.content()

    def integer(self, tag: str) -> int:
        """Return the number in the only `tag` child; raise the same errors as `one`."""
        return self.one(tag).number()

    def optional_integer(self, tag: str) -> int | None:
        """Return the number in the `tag` child, or None if it is missing; raise the same errors as `optional`."""
        found = self.optional(tag)
        return None if found is None else found.number()

    def content(self) -> str:
        """Return the text of this element, unescaped.

        Raises:
            EditsTextError: an escape is invalid.
        """
        self._read = True
        try:
            return unmangle(self._text)
        except ValueError as error:
            raise self.fault(f"{self.tag}: {error}") from None

    def number(self) -> int:
        """Return the text of this element as a decimal number.

        Raises:
            EditsTextError: the text is not a number.
        """
        text = self.content()
        if _NUMBER.fullmatch(text) is None:
            raise self.fault(f"{self.tag} is {text[:40]!r} instead of a number")
        return int(text)

    def index(self, tag: str, names: tuple[str, ...]) -> int:
        """Return the index in `names` of the text in the only `tag` child.

        Raises:
            MissingElementError: the child is missing.
            EditsTextError: the child's text is not in `names`.
        """
        element = self.one(tag)
        text = element.content()
        if text not in names:
            raise element.fault(f"{tag} is {text[:40]!r} instead of one of {', '.join(names)}")
        return names.index(text)

    def hexadecimal(self, text: str) -> bytes:
        """Decode `text`, which is hexadecimal text in this element.

        Raises:
            EditsTextError: the text is not hexadecimal.
        """
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise self.fault(f"{text[:40]!r} in {self.tag} is not hexadecimal") from None

    def finish(self) -> None:
        """Check that all elements below this element, and their texts, were read.

        Raises:
            EditsTextError: an element or text remains.
        """
        for tag, left in self._untaken.items():
            raise left[0].fault(f"{self.tag} has an element {tag}, which does not belong to any field")
        if self._text.strip() and not self._read:
            raise self.fault(f"{self.tag} has text instead of elements")
        for child in self._children:
            child.finish()

    def fault(self, problem: str) -> EditsTextError:
        return EditsTextError(problem, line=self.line)
