"""The data sources `fsimage` and `hdfs_edits` of `spark.read`."""
