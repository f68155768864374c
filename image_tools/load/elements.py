"""Elements of the XML of an image: access to their numbers and texts, and detection of unread elements
(XMLUtils.Stanza).
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator
from xml.etree import ElementTree

from image_format.errors import ImageFormatError

_ESCAPED = re.compile(r"\\([0-9a-f]{4,6});")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})")


class ImageTextError(ImageFormatError):
    """XML that is not the dump of an image, or has an element that an image cannot represent."""

    default_hint = "Repeat the dump: `checkpointer image dump --release 3.x`, or `hdfs oiv -p XML` of Hadoop 3."


class ElementFields:
    """The inner elements of an element, by name; an element that was never read is an error.

    Attributes:
        tag: name of the element.
    """

    def __init__(self, element: ElementTree.Element) -> None:
        self.tag = element.tag
        self._left: dict[str, list[ElementTree.Element]] = {}
        for child in element:
            self._left.setdefault(child.tag, []).append(child)

    def has(self, tag: str) -> bool:
        return tag in self._left

    def each(self, tag: str) -> Iterator[ElementFields]:
        """Return the elements with this name."""
        return map(ElementFields, self._left.pop(tag, []))

    def inner(self, tag: str) -> ElementFields | None:
        """Return the only element with this name; None if absent."""
        found = self._left.pop(tag, [])
        if len(found) > 1:
            raise ImageTextError(f"<{self.tag}> has {len(found)} elements <{tag}>")
        return ElementFields(found[0]) if found else None

    def texts(self, tag: str) -> list[str]:
        """Return the unescaped texts of the elements with this name."""
        return [_unescaped(each.text or "") for each in self._left.pop(tag, [])]

    def text(self, tag: str, default: str | None = None) -> str:
        found = self.texts(tag)
        if not found and default is not None:
            return default
        if len(found) != 1:
            raise ImageTextError(f"<{self.tag}> has {len(found)} elements <{tag}>, expected one")
        return found[0]

    def name(self, tag: str) -> bytes:
        """Return a text as the bytes of a name."""
        return self.text(tag).encode("utf-8", "surrogatepass")

    def numbers(self, tag: str, bits: int = 64) -> list[int]:
        """Return numbers in the form of an unsigned field of `bits` bits."""
        return [self._number(tag, text, bits) for text in self.texts(tag)]

    def number(self, tag: str, bits: int = 64, default: int | None = None) -> int:
        if default is not None and not self.has(tag):
            return default
        return self._number(tag, self.text(tag), bits)

    def signed(self, tag: str) -> int:
        """Return a number in the form of a signed field."""
        value = self.number(tag)
        return value - (1 << 64) if value >> 63 else value

    def date(self, tag: str) -> int:
        """Return a date in UTC as milliseconds since 1970."""
        text = self.text(tag)
        match = _DATE.fullmatch(text)
        if match is None:
            raise ImageTextError(f"<{tag}> of <{self.tag}> is {text!r}, which is not a date")
        year, month, day, hour, minute, second, millis = map(int, match.groups())
        return timegm((year, month, day, hour, minute, second)) * 1000 + millis

    def flag(self, tag: str) -> bool:
        """Return whether an empty element with this name exists."""
        return bool(self.texts(tag))

    def finish(self) -> None:
        """Refuse elements that were not read.

        Raises:
            ImageTextError: an element was not read.
        """
        if self._left:
            raise ImageTextError(f"<{self.tag}> has an unknown element <{next(iter(self._left))}>")

    def _number(self, tag: str, text: str, bits: int) -> int:
        try:
            value = int(text)
        except ValueError:
            value = 1 << 64
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise ImageTextError(f"<{tag}> of <{self.tag}> is {text[:40]!r}, which is not a number of {bits} bits")
        return value & ((1 << bits) - 1)


def _unescaped(text: str) -> str:
    """Reverse `escaped` of the dump."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
