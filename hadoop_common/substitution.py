"""`${name}` in configuration values (Configuration.substituteVars): innermost first, at most 20 times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

MAX_SUBSTITUTIONS = 20
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
_ENVIRONMENT = re.compile(r"env\.(.*?)(?:(:?-)(.*))?")


def substitute(text: str, environment: Mapping[str, str], look_up: Callable[[str], str | None]) -> str:
    """Return `text` with its variables replaced.

    As in Hadoop, an unknown variable remains and ends the replacement. If the value of a variable contains the same
    variable, the text is unchanged. `${env.NAME}`, `${env.NAME-default}` and `${env.NAME:-default}` read `environment`;
    other variables use `look_up`.

    Raises:
        ValueError: variables remain after 20 replacements, because they are nested too deeply or refer to each other.
    """
    given = text
    for _ in range(MAX_SUBSTITUTIONS):
        match = _VARIABLE.search(text)
        if match is None:
            return text
        value = _variable(match[1], environment, look_up)
        if value is None:
            return text
        if match[0] in value:
            return given
        text = text[: match.start()] + value + text[match.end() :]
    if has_variable(text):
        raise ValueError(f"variables are nested deeper than {MAX_SUBSTITUTIONS} or refer to each other")
    return text


def has_variable(text: str) -> bool:
    return _VARIABLE.search(text) is not None


def system_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the Java system properties that configuration files use, if `environment` provides them."""
    user = environment.get("USER") or environment.get("LOGNAME")
    found = {
        "user.name": user,
        "user.home": environment.get("HOME"),
        # Java does not read TMPDIR
        "java.io.tmpdir": "/tmp",
    }
    return {name: value for name, value in found.items() if value}


def _variable(name: str, environment: Mapping[str, str], look_up: Callable[[str], str | None]) -> str | None:
    match = _ENVIRONMENT.fullmatch(name)
    if match is None:
        return look_up(name)
    value = environment.get(match[1])
    if match[2] == ":-" and not value:
        return match[3]
    if match[2] == "-" and value is None:
        return match[3]
    return value
