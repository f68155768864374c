"""Maps Kerberos principals to short HDFS user names (hadoop.security.auth_to_local, KerberosName).

Rules are tried in order; the first rule that produces a result applies. Rules contain Java regular expressions; the
parser rejects an expression that Python would interpret differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Final

MECHANISMS: Final = ("hadoop", "mit")
_RULE = re.compile(r"\s*((DEFAULT)|(RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?))/?(L)?")
_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_PARAMETER = re.compile(r"\$(\d*)")
_NOT_SIMPLE = re.compile(r"[/@]")
# Unicode and POSIX classes, quoting, octal numbers, class intersections and unions, and other group syntax
_ONE_SIDED = re.compile(r"\\[pPQEGhHvVRXkcexNzZ0]|&&|\[[^\]]*\[|\(\?[^:=!<imsx]|\(\?<[^=!]")


@dataclass(frozen=True, slots=True)
class _NameRule:
    """One rule; DEFAULT if `components` is None."""

    text: str
    components: int | None
    format: str
    match: re.Pattern[str] | None
    found: re.Pattern[str] | None
    replacement: Callable[[re.Match[str]], str] | None
    every: bool
    lower: bool


class NameRules:
    """The rules of one configuration.

    Args:
        text: the rules; "" means DEFAULT.
        realm: default realm, whose principals DEFAULT accepts.
        mechanism: one of `MECHANISMS`.

    Raises:
        ValueError: a rule is malformed, or contains an expression that has a different meaning in Python.
    """

    def __init__(self, text: str, realm: str, mechanism: str = "hadoop") -> None:
        if mechanism not in MECHANISMS:
            raise ValueError(f"the mechanism {mechanism!a} is not one of {', '.join(MECHANISMS)}")
        self._source = text.strip() or "DEFAULT"
        self._rules = _parse(self._source)
        self._realm = realm
        self._mit = mechanism == "mit"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameRules):
            return NotImplemented
        return (self._source, self._realm, self._mit) == (other._source, other._realm, other._mit)

    def __hash__(self) -> int:
        return hash((self._source, self._realm, self._mit))

    def __reduce__(self) -> tuple[type[NameRules], tuple[str, str, str]]:
        # compiled replacements cannot be pickled; the archive's process receives the rules with its configuration
        return NameRules, (self._source, self._realm, "mit" if self._mit else "hadoop")

    def in_realm(self, realm: str) -> NameRules:
        """Return the same rules with another default realm."""
        made = copy(self)
        made._realm = realm
        return made

    def short_name(self, principal: str) -> str:
        """Map a principal to its short name.

        Raises:
            ValueError: the text is not a principal, or no rule applies to it.
        """
        found = _PRINCIPAL.fullmatch(principal)
        if found is None or (found[2] and not found[3]):
            raise ValueError(f"Malformed Kerberos name: {principal}")
        service, host, realm = found.groups()
        if realm is None:
            return str(service)
        parts = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            name = self._apply(rule, parts)
            if name is not None:
                return name
        if self._mit:
            return principal
        raise ValueError(f"No rules applied to {principal}")

    def _apply(self, rule: _NameRule, parts: list[str]) -> str | None:
        name: str | None = None
        if rule.components is None:
            name = parts[1] if parts[0] == self._realm else None
        elif len(parts) - 1 == rule.components:
            base = _formatted(rule.format, parts)
            if rule.match is None or rule.match.fullmatch(base):
                name = base
                if rule.found is not None and rule.replacement is not None:
                    name = rule.found.sub(rule.replacement, base, count=0 if rule.every else 1)
        if name is None:
            return None
        if not self._mit and _NOT_SIMPLE.search(name):
            raise ValueError(f"Non-simple name {name} after auth_to_local rule {rule.text}")
        return name.lower() if rule.lower else name


def _parse(text: str) -> tuple[_NameRule, ...]:
    rules, position = [], 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(f"Invalid rule: {text[position : position + 80]}")
        rules.append(_rule(found))
        position = found.end()
    return tuple(rules)


def _rule(found: re.Match[str]) -> _NameRule:
    if found[2]:
        return _NameRule(found[2], None, "", None, None, None, every=False, lower=False)
    if not found[4]:
        raise ValueError(f"Invalid rule: {found[1]} has no number of components")
    return _NameRule(
        found[0].strip(),
        int(found[4]),
        found[5],
        None if found[7] is None else _expression(found[7]),
        None if found[9] is None else _expression(found[9]),
        None if found[10] is None else _replacement(found[10]),
        every=found[11] is not None,
        lower=found[12] is not None,
    )


def _expression(text: str) -> re.Pattern[str]:
    if wrong := _ONE_SIDED.search(text):
        raise ValueError(
            f"the expression {text} contains {wrong[0]}, which Java and Python interpret differently: rewrite it"
        )
    try:
        # \w, \d, \s and \b are ASCII-only in Java
        return re.compile(text, re.ASCII)
    except re.error as fault:
        raise ValueError(f"the expression {text} cannot be read: {fault}") from fault


def _replacement(text: str) -> Callable[[re.Match[str]], str]:
    """Compile a Java replacement: `$1` is a group, a backslash quotes the next character, and an unmatched group is
    empty.
    """
    pieces: list[str | int] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\" and position + 1 < len(text):
            pieces.append(text[position + 1])
            position += 2
        elif character == "$" and (number := re.match(r"\d", text[position + 1 :])):
            pieces.append(int(number[0]))
            position += 2
        elif character in "\\$":
            raise ValueError(f"the replacement {text} ends in the middle of an escape or group")
        else:
            pieces.append(character)
            position += 1

    def replace(found: re.Match[str]) -> str:
        try:
            return "".join(each if isinstance(each, str) else found[each] or "" for each in pieces)
        except IndexError:
            raise ValueError(f"the replacement {text} names a group that the expression does not have") from None

    return replace


def _formatted(text: str, parts: list[str]) -> str:
    def part(found: re.Match[str]) -> str:
        if not found[1]:
            raise ValueError(f"the format {text} of an auth_to_local rule contains $ without a number")
        if int(found[1]) >= len(parts):
            raise ValueError(f"index {found[1]} is out of the valid range of the format {text}")
        return parts[int(found[1])]

    return _PARAMETER.sub(part, text)
