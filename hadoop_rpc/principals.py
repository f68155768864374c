"""Kerberos principals in Hadoop's configuration: `_HOST`, and the principals that a server may have (SecurityUtil)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HOST = "_HOST"
_PARTS = re.compile(r"([^/@]+)/([^/@]+)@([^/@]+)")


@dataclass(frozen=True, slots=True)
class ServerPrincipal:
    """The expected principal of a server: the value of `key` or, if `pattern` is set, any principal that matches it."""

    key: str
    principal: str
    pattern: str = ""

    @property
    def realm(self) -> str:
        """Realm of the principal; empty if it has none."""
        return self.principal.rpartition("@")[2] if "@" in self.principal else ""

    def fits_pattern(self, name: str) -> bool:
        """Return whether a name matches the pattern; a malformed pattern matches nothing."""
        try:
            return bool(self.pattern) and re.fullmatch(_from_glob(self.pattern), name) is not None
        except re.error:
            return False


def with_host(principal: str, host: str) -> str:
    """Replace `_HOST` in `service/_HOST@REALM` with the host in lower case; other principals are unchanged."""
    found = _PARTS.fullmatch(principal)
    if found is None or found[2] != _HOST:
        return principal
    return f"{found[1]}/{host.lower().rstrip('.')}@{found[3]}"


def host_of(principal: str) -> str:
    """Return the host in `service/HOST@REALM`, or "" if there is none."""
    found = _PARTS.fullmatch(principal)
    return "" if found is None else found[2]


def names_host(principal: str) -> bool:
    """Return whether `with_host` would change the principal."""
    found = _PARTS.fullmatch(principal)
    return found is not None and found[2] == _HOST


def _from_glob(pattern: str) -> str:
    """Convert Hadoop's GlobPattern to a regular expression: `*`, `?`, `[a-z]`, `[^a]`, `{one,two}`, and backslashes."""
    result, depth, position = [], 0, 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "\\" and position < len(pattern):
            result.append(re.escape(pattern[position]))
            position += 1
        elif character == "*":
            result.append(".*")
        elif character == "?":
            result.append(".")
        elif character == "[" and (end := pattern.find("]", position + 1)) > 0:
            inside = pattern[position:end]
            turned = inside[:1] in ("^", "!")
            result.append(f"[{'^' if turned else ''}{_class(inside[turned:])}]")
            position = end + 1
        elif character == "{":
            depth += 1
            result.append("(?:")
        elif character == "}" and depth:
            depth -= 1
            result.append(")")
        elif character == "," and depth:
            result.append("|")
        else:
            result.append(re.escape(character))
    return "".join(result) + ")" * depth


def _class(inside: str) -> str:
    return re.sub(r"([\\\[\]^&~|])", r"\\\1", inside)
