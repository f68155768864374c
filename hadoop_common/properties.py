"""java.util.Properties text, as in VERSION files: ISO-8859-1 with backslash escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Parse the keys and values of a properties file; the last value of a key applies.

    Raises:
        ValueError: a `\u` escape is malformed.
    """
    values: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = _split(line)
        values[_unescape(key)] = _unescape(value)
    return values


def format_properties(values: Mapping[str, str], now: datetime) -> bytes:
    """Format properties for java.util.Properties, with the date of `now` as the first line."""
    zone = now.tzname() or "UTC"
    date = f"{_WEEKDAYS[now.weekday()]} {_MONTHS[now.month - 1]} {now:%d %H:%M:%S} {zone} {now.year}"
    lines = [f"#{date}"]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
    if match is None:
        return line, ""
    return match[1], line[match.end() :]


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = re.sub(r"\\(u.{0,4}|.)", _unescape_one, text, flags=re.DOTALL)
    # escapes are UTF-16 units, so a character above U+FFFF needs two
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _unescape_one(match: re.Match[str]) -> str:
    body = match[1]
    if body[0] != "u":
        return _ESCAPES.get(body, body)
    if re.fullmatch(r"u[0-9A-Fa-f]{4}", body) is None:
        raise ValueError(f"malformed escape \\{body}")
    return chr(int(body[1:], 16))


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for position, char in enumerate(text):
        if char in _NAMES:
            out.append(_NAMES[char])
        elif char in "\\=:#!" or (char == " " and (is_key or position == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass").hex().upper()
            out += [f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)]
    return "".join(out)
