"""The fsimage file of an HDFS NameNode: frame, sections, records, string table, codecs and digest file."""

from __future__ import annotations
