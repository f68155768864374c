"""Names of management beans, and the patterns that select them (javax.management.ObjectName)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_QUOTED = re.compile(r'"((?:[^"\\\n]|\\["\\*?n])*)"')
_UNQUOTED = re.compile(r'[^,=:"\n]*')
_KEY = re.compile(r"[^,=:*?\n]*")
# tokens for wildcards; no character equals one of these values
_ANY_RUN: str | None = None
_ANY_ONE = ""


class MalformedObjectNameError(ValueError):
    """Refusal of text that is neither the name of a bean nor a pattern."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """`domain:key=value,...`; with `more` (`,*`), a bean's name may also have other keys.

    Domain and values may contain the wildcards `*` and `?`. A quoted value keeps its quotes; within the quotes, a
    backslash escapes a wildcard.
    """

    domain: str
    properties: Mapping[str, str]
    more: bool = False

    def matches(self, name: ObjectName) -> bool:
        """Return whether this pattern selects `name`, which is not a pattern; the order of the keys does not matter."""
        if not _glob(self.domain, name.domain):
            return False
        if not self.more and self.properties.keys() != name.properties.keys():
            return False
        return all(
            key in name.properties and _glob(value, name.properties[key], escapes=value.startswith('"'))
            for key, value in self.properties.items()
        )


def parse_object_name(text: str) -> ObjectName:
    """Parse a name or a pattern; an empty text selects everything, as in Java.

    Raises:
        MalformedObjectNameError: `text` is neither a name nor a pattern.
    """
    if not text:
        return ObjectName("*", {}, more=True)
    domain, colon, rest = text.partition(":")
    if "\n" in domain:
        raise MalformedObjectNameError(f"the domain {domain[:80]!a} contains a line break")
    if not colon or not rest:
        raise MalformedObjectNameError(f"{text[:80]!a} has no key properties, expected domain:key=value or domain:*")
    properties: dict[str, str] = {}
    more = False
    position = 0
    while True:
        if rest.startswith("*", position):
            if more:
                raise MalformedObjectNameError(f"{text[:80]!a} has several * in place of a property, expected one")
            more = True
            position += 1
        else:
            key, value, position = _property(rest, position)
            if key in properties:
                raise MalformedObjectNameError(f"{text[:80]!a} has the key {key[:80]!a} twice")
            properties[key] = value
        if position == len(rest):
            return ObjectName(domain, properties, more)
        if rest[position] != ",":
            raise MalformedObjectNameError(f"{rest[position]!a} is in {text[:80]!a} where a comma was expected")
        position += 1


def _property(rest: str, position: int) -> tuple[str, str, int]:
    found = _KEY.match(rest, position)
    key = found[0] if found is not None else ""
    position += len(key)
    if not key or not rest.startswith("=", position):
        raise MalformedObjectNameError(f"{rest[:80]!a} has no key=value at character {position}")
    position += 1
    pattern = _QUOTED if rest.startswith('"', position) else _UNQUOTED
    value = pattern.match(rest, position)
    if value is None:
        raise MalformedObjectNameError(f"the quoted value of key {key[:80]!a} has no closing quote")
    return key, value[0], value.end()


def _glob(pattern: str, text: str, *, escapes: bool = False) -> bool:
    """Match a pattern in O(len(pattern) * len(text)) time."""
    tokens = _tokens(pattern, escapes=escapes)
    at, index = 0, 0
    star, resume = -1, 0
    while index < len(text):
        if at < len(tokens) and tokens[at] is _ANY_RUN:
            star, resume = at, index
            at += 1
        elif at < len(tokens) and tokens[at] in (_ANY_ONE, text[index]):
            at += 1
            index += 1
        elif star >= 0:
            resume += 1
            at, index = star + 1, resume
        else:
            return False
    return all(token is _ANY_RUN for token in tokens[at:])


def _tokens(pattern: str, *, escapes: bool) -> list[str | None]:
    """Split a pattern into characters and wildcards; escaped wildcards are characters."""
    tokens: list[str | None] = []
    literal = False
    for character in pattern:
        if literal or character not in "*?":
            tokens.append(character)
        else:
            tokens.append(_ANY_RUN if character == "*" else _ANY_ONE)
        literal = escapes and character == "\\" and not literal
    return tokens
