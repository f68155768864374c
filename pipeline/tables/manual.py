"""The manual page of the tables, made of their declarations: `python -m pipeline.tables.manual --write FILE`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table
from pipeline.tables.catalogue import EDITS_TABLES, IMAGE_TABLES

__all__ = ["page"]

_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    TIMESTAMP: "timestamp",
}
_HEAD = """\
# Tables of images and edits

This page is made by `python -m pipeline.tables.manual --write docs/pipeline-tables.md` from the declarations in
`pipeline/tables/`. Types are Spark's; a column that is never null has "not null" behind its type. Times are UTC with
microseconds, of which Hadoop fills milliseconds; one that a timestamp cannot hold is null. Sizes are bytes, numbers
are signed as in Java, names of enumerations are Hadoop's. The source names message and field of the file that a
column comes from.
"""
_IMAGES = """\
## `fsimage`

    spark.read.format("fsimage").option("table", "blocks").option("columns", "inode_id,raw_bytes").load(PATH)

PATH is an image or a storage directory, whose newest image is read. Without `table` the table is `inodes`. Spark asks
a Python data source for every column, so name those you need with `columns`.
"""
_EDITS = """\
## `hdfs_edits`

    spark.read.format("hdfs_edits").load(PATH)

PATH is a segment or a directory of segments.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD, _IMAGES, *map(_section, IMAGE_TABLES.values()), _EDITS, *map(_section, EDITS_TABLES.values())]
    return "\n".join(parts)


def _section(table: Table) -> str:
    rows = [_row(column) for column in table.columns]
    head = ["| Column | Type | Unit | Source | What it is |", "|---|---|---|---|---|"]
    return "\n".join([f"### `{table.name}`", "", table.text, "", *head, *rows]) + "\n"


def _row(column: Column) -> str:
    kind = type_name(column.type) + ("" if column.nullable else ", not null")
    source = f"`{column.source}`" if column.source else ""
    cells = (f"`{column.name}`", kind, column.unit, source, column.text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def type_name(kind: pa.DataType) -> str:
    """Spark's name of a type, e.g. `array<bigint>`."""
    return f"array<{type_name(kind.value_type)}>" if pa.types.is_list(kind) else _TYPES[kind]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the page, or write it to a file."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.tables.manual", description="The page of all tables.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write it there instead of printing it")
    options = parser.parse_args(arguments)
    if options.write is None:
        print(page(), end="")
    else:
        options.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
