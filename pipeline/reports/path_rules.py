"""Named sets of paths, and the tables of databases to which paths belong, from a TOML file.

```
[sets]
landing = ["/landing", "/data/*/in"]

[tables]
"/warehouse/{database}.db/{table}" = "{database}.{table}"
"/data/clicks" = "web.clicks"
```

A pattern matches directories and everything below them. `*` matches any characters within one name. `{word}` matches
one name or a part of a name; the name of the table may repeat the matched text. If several patterns match a directory,
the first pattern applies. If several directories above a file match, the nearest directory applies.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pipeline.errors import PathRulesError

_SETS, _TABLES = "sets", "tables"
_WORD = re.compile(r"\{([a-z_]+)\}")
_PART = re.compile(rf"\*+|{_WORD.pattern}")
_BRACES = "words in braces consist of lower case letters and underscores"
_HINT = "docs/pipeline.md, section Path sets and tables, describes the file."


@dataclass(frozen=True, slots=True)
class PathRules:
    """Rules of a file.

    Attributes:
        sets: regular expressions (RE2) of the directories of each set.
        tables: regular expressions with named groups, each with a name DATABASE.TABLE that contains `{group}`, in the
            order of the file.
    """

    sets: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, file: Path) -> PathRules:
        """Read a file.

        Raises:
            PathRulesError: the file cannot be read, or is not a file of path rules.
        """
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PathRulesError(f"cannot read {file}: {error}", hint=_HINT) from error
        try:
            return _rules(content)
        except ValueError as error:
            raise PathRulesError(f"{file}: {error}", hint=_HINT) from None


def _rules(content: Mapping[str, Any]) -> PathRules:
    if not content:
        raise ValueError(f"the file has neither [{_SETS}] nor [{_TABLES}]")
    for key, value in content.items():
        if key not in {_SETS, _TABLES} or not isinstance(value, dict):
            _fail(key, f"only the tables [{_SETS}] and [{_TABLES}] are known")
        if not value:
            _fail(key, "the table is empty")
    return PathRules(tuple(_sets(content.get(_SETS, {}))), tuple(_tables(content.get(_TABLES, {}))))


def _sets(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, paths in found.items():
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
            _fail(f"{_SETS}.{name}", "needs a list of paths")
        patterns = [_pattern(path, f"{_SETS}.{name}") for path in paths]
        if any(groups for _, groups in patterns):
            _fail(f"{_SETS}.{name}", "use * in place of a word in braces")
        yield name, "|".join(pattern for pattern, _ in patterns)


def _tables(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path, name in found.items():
        key = f'{_TABLES}."{path}"'
        pattern, groups = _pattern(path, key)
        if not isinstance(name, str) or not all(name.partition(".")):
            _fail(key, "needs a name DATABASE.TABLE")
        if set("{}") & set(_WORD.sub("", name)):
            _fail(key, _BRACES)
        if unknown := set(_WORD.findall(name)) - set(groups):
            _fail(key, f"{{{min(unknown)}}} is not in the path")
        yield pattern, name


def _pattern(path: str, key: str) -> tuple[str, list[str]]:
    """Return (regular expression of a path, its named groups)."""
    if not path.startswith("/"):
        _fail(key, f"{path!r} does not begin with /")
    if set("{}") & set(_PART.sub("", path)):
        _fail(key, _BRACES)
    if "//" in path:
        _fail(key, f"{path!r} has an empty name")
    parts, groups, at = [], list[str](), 0
    path = path.rstrip("/") or "/"
    for match in _PART.finditer(path):
        parts.append(re.escape(path[at : match.start()]))
        if match[1]:
            groups.append(match[1])
            parts.append(f"(?P<{match[1]}>[^/]+)")
        else:
            is_whole_name = path[match.start() - 1] == "/" and path[match.end() :][:1] in {"", "/"}
            parts.append("[^/]+" if is_whole_name else "[^/]*")
        at = match.end()
    if len(set(groups)) < len(groups):
        _fail(key, "a word in braces occurs twice")
    return f"^{''.join(parts)}{re.escape(path[at:])}$", groups


def _fail(key: str, problem: str) -> NoReturn:
    raise ValueError(f"{key}: {problem}")
