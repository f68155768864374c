"""Addresses as text."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def uri_scheme(text: str) -> str:
    """The scheme of a URI in lower case, "" where there is none.

    The standard library refuses an authority of several nodes with an IPv6 address among them, as qjournal: has it.
    """
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""
