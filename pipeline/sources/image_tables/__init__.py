"""Readers of all tables of the data source `fsimage` except `inodes`."""
