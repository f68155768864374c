"""Writes Hadoop's configuration files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape


def site_xml(values: Mapping[str, str]) -> str:
    """Return a configuration file with these properties."""
    rows = (f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in values.items())
    return f"<configuration>{''.join(rows)}</configuration>"


def write_site(folder: Path, values: Mapping[str, str], name: str = "hdfs-site.xml") -> Path:
    """Write a configuration file in `folder`, and create the folder if it is missing; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(site_xml(values))
    return folder
