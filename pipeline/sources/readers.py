"""The tables of the data source `fsimage` and their readers."""

from __future__ import annotations

from pipeline.sources.current_tree import InodesReader
from pipeline.sources.image_tables.readers import OTHER_TABLES
from pipeline.sources.table_reader import TableReader

DEFAULT_TABLE = "inodes"
_ALL: tuple[TableReader, ...] = (InodesReader(), *OTHER_TABLES)
READERS: dict[str, TableReader] = {reader.table.name: reader for reader in _ALL}
