"""Network addresses as text."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def host_port(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def uri_scheme(text: str) -> str:
    """Return the scheme of a URI in lower case, "" if it has none.

    The standard library rejects an authority with several nodes and an IPv6 address among them, as in qjournal: URIs.
    """
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""
