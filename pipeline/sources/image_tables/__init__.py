"""Readers of the `fsimage` data source's tables besides `inodes`."""
