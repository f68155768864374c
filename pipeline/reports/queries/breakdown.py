"""Space and counts by owner, group, age, size, replication and policies, in one pass over the facts."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from pipeline.reports.queries.facts import sums
from pipeline.reports.queries.tree import depth_of, prefix

DIMENSIONS = (
    "owner",
    "group",
    "size_class",
    "mtime_class",
    "use_class",
    "replication",
    "ec_policy",
    "effective_policy",
)


def breakdown(compact: DataFrame, policies: DataFrame, *, limit: int) -> DataFrame:
    """Return rows of dimension (of `DIMENSIONS`), value (text, null for none), `MEASURES`, and their small and cold
    parts.

    All dimensions except owner and group count only files. Each dimension has its `limit` largest values by raw space.

    Args:
        compact: of `queries.facts.facts`.
        policies: of `effective_policies`.
    """
    inherited = compact.join(policies.withColumnRenamed("id", "parent"), "parent", "left")
    policy = sql.coalesce("storage_policy", "inherited_policy")
    rows = inherited.withColumn("effective_policy", policy)
    entries = [
        sql.struct(sql.lit(name).alias("dimension"), sql.col(name).cast("string").alias("value")) for name in DIMENSIONS
    ]
    chosen = sql.when(sql.col("type") == "FILE", sql.array(*entries)).otherwise(sql.array(*entries[:2]))
    copies = rows.withColumn("entry", sql.explode(chosen))
    summed = copies.groupBy("entry").agg(
        *sums(),
        *sums("small_", sql.col("small"), ("files", "length", "raw", "blocks")),
        *sums("cold_", sql.col("cold"), ("files", "length", "raw")),
        *sums("read_", sql.col("read"), ("files",)),
    )
    flat = summed.select("entry.dimension", "entry.value", *(name for name in summed.columns if name != "entry"))
    order = Window.partitionBy("dimension").orderBy(sql.desc("raw"), sql.desc("files"), sql.asc_nulls_last("value"))
    return flat.withColumn("rank", sql.row_number().over(order)).where(sql.col("rank") <= limit).drop("rank")


def effective_policies(tree: DataFrame) -> DataFrame:
    """Return the storage policy that files in a directory inherit: id, inherited_policy; directories without one are
    absent.

    A directory without its own policy inherits from the nearest ancestor with a policy, as BlockStoragePolicySuite and
    INode.getStoragePolicyID resolve it. Without any policy the NameNode's default applies.
    """
    own = tree.where(sql.col("storage_policy").isNotNull()).select(
        sql.col("path").alias("above"), sql.col("storage_policy").alias("policy")
    )
    levels = sql.sequence(sql.lit(0), depth_of(sql.col("path")))
    ancestors = tree.select("id", "path", sql.explode(levels).alias("depth"))
    ancestors = ancestors.select("id", "depth", prefix(sql.col("path"), sql.col("depth")).alias("above"))
    found = ancestors.join(own, "above")
    return found.groupBy("id").agg(sql.max_by("policy", "depth").alias("inherited_policy"))
