"""The fsimage file of an HDFS NameNode: frame, sections, records, string table, codecs and MD5 side file."""

from __future__ import annotations
