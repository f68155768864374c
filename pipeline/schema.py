"""Declarations of tables: each column with its Arrow type, unit and source field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Type of all times in tables; Hadoop stores milliseconds since 1970."""

_SIMPLE: dict[pa.DataType, DataType] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.bool_(): BooleanType(),
    TIMESTAMP: TimestampType(),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        unit: "" for a value without a unit.
        source: message and field of the value, e.g. `fsimage.proto INodeFile.replication`.
        text: description for the manual.
    """

    name: str
    type: pa.DataType
    text: str
    source: str
    unit: str = ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a data source; the order of the columns is part of the format."""

    name: str
    text: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def select(self, names: Sequence[str]) -> Table:
        """Return the table with only these columns, in this order.

        Raises:
            KeyError: a name is not a column of the table.
        """
        by_name = {column.name: column for column in self.columns}
        return Table(self.name, self.text, tuple(by_name[name] for name in names))

    def arrow_schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])

    def spark_schema(self) -> StructType:
        """Return the Spark schema, with comments for `DESCRIBE`."""
        return StructType([_spark_field(column) for column in self.columns])


def _spark_field(column: Column) -> StructField:
    comment = f"{column.text} ({column.unit})" if column.unit else column.text
    return StructField(column.name, _spark_type(column.type), column.nullable, {"comment": comment})


def _spark_type(arrow: pa.DataType) -> DataType:
    if pa.types.is_list(arrow):
        return ArrayType(_spark_type(arrow.value_type))
    return _SIMPLE[arrow]
