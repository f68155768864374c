"""`hdfs_edits` within Spark: schema, queries on one DataFrame, and typed errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from journal.errors import TransactionGapError
from pipeline import read_edits
from pipeline.tables.edits import EDITS
from pipeline.task_errors import typed_error
from tests.pipeline.edits_support import rows
from tests.recorded_cases import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASIC = RECORDED / "hadoop-3.4.1" / "basic-files" / "before"


def test_a_dataframe_answers_many_queries(spark: SparkSession) -> None:
    expected = rows(BASIC)
    edits = read_edits(spark, str(BASIC), partitions="3")
    assert edits.schema == EDITS.spark_schema()
    adds = edits.where("op = 'OP_ADD'")
    mkdirs = edits.where("op = 'OP_MKDIR'")
    of = {name: sum(row["op"] == name for row in expected) for name in ("OP_ADD", "OP_MKDIR")}
    assert adds.count() == of["OP_ADD"]
    assert edits.count() == len(expected)
    assert {row["op"]: row["count"] for row in adds.unionAll(mkdirs).groupBy("op").count().collect()} == of


def test_an_error_keeps_its_type(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="no segment contains txid") as caught:
        read_edits(spark, str(BASIC), from_txid="1").count()
    assert isinstance(typed_error(caught.value), TransactionGapError)
