"""Readers of all tables of the `fsimage` data source except `inodes`."""
