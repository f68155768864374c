"""Format of a NameNode's fsimage file: frame, sections, records, string table, codecs and digest file."""

from __future__ import annotations
