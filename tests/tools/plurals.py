"""Finds counts that are always followed by a plural: "1 segments".

A message writes `counted(number, "segment")` instead. The finder recognises a noun, with its adjective, as soon as one
message of the product counts it that way. It skips units of measure, a total after "of", a constant, a name, and a
number with a fraction.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hadoop_common.quantities import plural

# the stub responds with Hadoop's own messages
_HADOOPS = "namenode_stub/names/"
# their plurals are also verbs: "the file changes"
_VERBS = frozenset(("change", "list", "match", "past", "record", "report", "request", "use"))
_UNITS = frozenset(("byte", "second", "minute", "hour", "day"))
_TEXTS = frozenset(("kind", "name", "side"))
_COUNTED = re.compile(r"\bcounted\([^\n]*?, [\"']([a-z ]+)[\"']")
_FRACTION = re.compile(r"[fg]")


class CountedNoun(NamedTuple):
    """A count in an f-string and the plural noun that follows it, with the line on which the string begins."""

    line: int
    text: str


def is_product(path: Path) -> bool:
    """Return whether messages of `path`, relative to the root of the repository, are messages of the product."""
    return path.parts[0] not in ("tests", "bench") and not path.as_posix().startswith(_HADOOPS)


def known_nouns(texts: Iterable[str]) -> frozenset[str]:
    """Return the nouns that these sources pass to `counted` as literals."""
    return frozenset(noun for text in texts for noun in _COUNTED.findall(text)) - _UNITS


def fixed_plurals(text: str, nouns: Iterable[str]) -> Iterator[CountedNoun]:
    """Yield each count in the f-strings of a source that is followed by the plural of one of `nouns`."""
    plurals = {plural(noun): noun for noun in nouns}
    following = re.compile(rf" ({'|'.join(sorted(plurals))})\b(?!['-])")
    if plurals and re.search(r"\}" + following.pattern, text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                yield from _of(node, following, plurals)


def _of(node: ast.JoinedStr, following: re.Pattern[str], plurals: dict[str, str]) -> Iterator[CountedNoun]:
    before = ""
    for value, after in zip(node.values, [*node.values[1:], None], strict=True):
        if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
            match = following.match(after.value)
            if match and not before.endswith("of ") and _is_count(value, plurals[match[1]]):
                yield CountedNoun(node.lineno, f"{{{ast.unparse(value.value)}}}{match[0]}")
        before = value.value if isinstance(value, ast.Constant) else ""


def _is_count(value: ast.FormattedValue, noun: str) -> bool:
    number = value.value
    if isinstance(number, ast.Name | ast.Attribute):
        name = number.id if isinstance(number, ast.Name) else number.attr
        if name.isupper() or name in _TEXTS:
            return False
    spec = "" if value.format_spec is None else ast.unparse(value.format_spec)
    if _FRACTION.search(spec.removeprefix("f")):
        return False
    is_length = isinstance(number, ast.Call) and isinstance(number.func, ast.Name) and number.func.id in ("len", "sum")
    return is_length or "," in spec or noun not in _VERBS
