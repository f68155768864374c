"""Paths of this host in URIs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from hadoop_common.addresses import uri_scheme

# the standard library would remove tabs and line breaks
_LOCAL = re.compile(r"[^:/]+:(?://(?:localhost)?(?=/)|(?!//))([^?#]+)", re.DOTALL)


def local_uri_path(uri: str, *, absolute: bool = True) -> Path:
    """Return the path in a URI such as `file:///directory`; escapes stand for bytes, which need not be UTF-8.

    Args:
        absolute: refuse a relative path, such as that of `json:directory`.

    Raises:
        ValueError: the URI has another host, a query, a fragment, an escaped NUL, or no path of the wanted kind.
    """
    found = _LOCAL.fullmatch(uri)
    path = unquote_to_bytes(found[1].encode(errors="surrogateescape")) if found else b""
    if not path or b"\0" in path or (absolute and not path.startswith(b"/")):
        expected = f"{uri_scheme(uri) or 'file'}:///PATH, with %23 for # and %3F for ?"
        raise ValueError(f"is not a path of this host: expected {expected}")
    return Path(os.fsdecode(path))
